"""kill -9 at any point loses no delivery, and repeats none without its id."""

import asyncio
import os
import random
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa
from aiohttp import web

from control.notify.channels.tables import State, deliveries
from control.notify.deliveries import store
from control.notify.deliveries.rules import MAX_ATTEMPTS
from control.notify.deliveries.store import WORKER_DELAY
from tests.control.notify.deliveries.conftest import MESSAGE, Post
from tests.control.receiver import Receiver
from tests.forks import Command
from tests.selection import scaled

CHANNELS, EACH = 4, scaled(25, 40)
ROUNDS = MAX_ATTEMPTS + 2  # as many as end a delivery, if an interrupted attempt counted


async def slowly(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(0.02)
    return web.Response(status=204)


def begun(url: str, ring: Path) -> Command:
    with ring.with_name("said").open("ab") as said:
        return Command([url, str(ring)], os.environ, stderr=said, program="tests.control.notify.deliveries.process")


async def started(url: str, ring: Path) -> Command:
    process = begun(url, ring)
    if process.stdout is None or await asyncio.to_thread(process.stdout.readline) != "ready\n":
        raise RuntimeError("the process did not start")
    return process


async def killed(process: Command) -> None:
    process.kill()
    await asyncio.to_thread(process.communicate)


@pytest.mark.sized
async def test_a_killed_process_loses_nothing(
    post: Post, receiver: Receiver, migrated_url: str, tmp_path: Path
) -> None:
    receiver.answers = [slowly]
    made = [await post.channel(receiver.url(f"/{number}")) for number in range(CHANNELS)]
    post.clock.pass_by(-WORKER_DELAY.total_seconds())
    async with post.database.write() as connection:
        ids = {id_ for _ in range(EACH) for id_ in await store.insert(connection, made, MESSAGE, post.clock())}
    drawn = random.Random(6)  # the points of time differ from run to run all the same
    for _ in range(ROUNDS):
        process = await started(migrated_url, tmp_path / "sealing.keys")
        seen = len(receiver.received)
        async with asyncio.timeout(20):  # it gets somewhere before it is killed, but for leases of the one before
            while len(receiver.received) < min(seen + 3, len(ids)) and await post.listed(State.READY):
                await asyncio.sleep(0.01)
        await asyncio.sleep(drawn.uniform(0, 0.03))
        await killed(process)
    process = await started(migrated_url, tmp_path / "sealing.keys")
    async with asyncio.timeout(60):
        while {one.state for one in await post.listed()} != {State.DONE}:  # in one look: READY goes to SENDING and back
            await asyncio.sleep(0.05)
    await killed(process)
    arrived = Counter(one.headers["webhook-id"] for one in receiver.received)
    assert set(arrived) == ids
    found = await post.listed()
    assert {(one.id, one.state) for one in found} == {(id_, State.DONE) for id_ in ids}
    async with post.database.read() as connection:
        claims = {
            row.id: row.claims for row in await connection.execute(sa.select(deliveries.c.id, deliveries.c.claims))
        }
    assert all(arrived[id_] <= claims[id_] for id_ in ids)
    assert {one.attempts for one in found} == {1}, "what was interrupted does not count"
    assert max(claims.values()) > 1, "no kill hit an attempt"
    bodies = {(one.headers["webhook-id"], one.body) for one in receiver.received}
    assert len(bodies) == len(ids), "what is repeated is the same"
