"""What is next, against the same rules over all rows at once; and what it costs where there is no place."""

import asyncio
import random
from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from chassis.auth.tables import new_id
from control.notify.channels.tables import State, deliveries, delivery_messages, notification_channels
from control.notify.deliveries.leases import DUE, LEASE, ConcurrencyLimits, claim_by_id, has_work
from control.notify.deliveries.outbox import ChannelIds
from control.notify.deliveries.store import WORKER_DELAY
from control.notify.deliveries.worker import Worker
from tests.chassis.auth.tenants import new_tenant
from tests.control.notify.deliveries.conftest import Post
from tests.control.receiver import Receiver

PLACES, LIMIT = ConcurrencyLimits(channel=3, failing=1, organization=4), 6


async def new_channels(post: Post, drawn: random.Random) -> list[dict[str, Any]]:
    """Nine of each of two organizations; some are failing."""
    owners = [post.tenant.organization.id, (await new_tenant(post.database, "globex")).organization.id]
    rows = [
        {
            "id": new_id("chn"), "org_id": org_id, "name": "x", "kind": "webhook", "enabled": True, "config": b"",
            "failing_since": post.clock() if drawn.random() < 0.3 else None, "created_at": post.clock(),
            "updated_at": post.clock(),
        }
        for org_id in owners
        for _ in range(9)
    ]  # fmt: skip
    async with post.database.write() as connection:
        await connection.execute(notification_channels.insert(), rows)
        await connection.execute(delivery_messages.insert().values(id="msg_1", message='{"a":1}'))
    return rows


def drawn_delivery(post: Post, channel: dict[str, Any], drawn: random.Random) -> dict[str, Any]:
    """Under way, due or not yet, the beginning of something or its end."""
    now, sending = post.clock(), drawn.random() < 0.1
    return {
        "id": new_id("dlv"), "org_id": channel["org_id"], "channel_id": channel["id"], "type": "x.y",
        "subject": f"apr_{drawn.randrange(3)}", "message_id": "msg_1", "attempts": 0, "max_attempts": 10, "claims": 0,
        "state": (State.SENDING if sending else State.READY).value,
        "until": now + timedelta(hours=1) if drawn.random() < 0.5 else None,
        "lease_until": now + LEASE if sending else None,
        "next_at": None if sending else now + timedelta(milliseconds=drawn.randint(-90_000, 9_000)),
        "failed": False, "permanent": False, "created_at": now,
    }  # fmt: skip


def expected(post: Post, channels: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[str]:
    """Ids of what is next."""
    sending = [row for row in rows if row["state"] == "SENDING"]
    busy = Counter(row[of] for row in sending for of in ("channel_id", "org_id"))
    begun = {(row["channel_id"], row["subject"]) for row in sending if row["until"] is not None}
    of_org: dict[str, list[dict[str, Any]]] = {channel["org_id"]: [] for channel in channels}
    for channel in channels:
        waiting = [row for row in rows if row["channel_id"] == channel["id"] and row["state"] == "READY"]
        first = sorted(waiting, key=lambda row: (row["next_at"], row["id"]))[: PLACES.channel]
        free = (PLACES.failing if channel["failing_since"] else PLACES.channel) - busy[channel["id"]]
        due = [
            row
            for row in first
            if row["next_at"] <= post.clock()
            and not (row["until"] is None and (row["channel_id"], row["subject"]) in begun)
        ]
        of_org[channel["org_id"]] += due[: max(0, free)]
    placed = []
    for org_id, due in of_org.items():
        due.sort(key=lambda row: (row["next_at"], row["id"]))
        placed += [(busy[org_id] + place, row["next_at"], row["id"]) for place, row in enumerate(due, 1)]
    return [id_ for place, _, id_ in sorted(placed) if place <= PLACES.organization][:LIMIT]


@pytest.mark.both_stores
async def test_claims_follow_the_scheduling_rules(post: Post) -> None:
    drawn = random.Random(8)
    channels = await new_channels(post, drawn)
    found = []
    for _ in range(40):
        some = drawn.sample(channels, drawn.randint(2, len(channels)))
        rows = [drawn_delivery(post, drawn.choice(some), drawn) for _ in range(drawn.randint(1, 50))]
        rows = list({(row["channel_id"], row["next_at"]): row for row in rows}.values())
        async with post.database.write() as connection:
            await connection.execute(deliveries.delete())
            await connection.execute(deliveries.insert(), rows)
            wanted = expected(post, channels, rows)
            assert await has_work(connection, post.clock(), concurrency=PLACES) is bool(wanted)
            options = {"now": post.clock(), "limit": LIMIT, "last": PLACES.channel - 1} | asdict(PLACES)
            found.append(list(await connection.scalars(DUE, options)))
            assert found[-1] == wanted
    assert {len(one) for one in found} >= {0, 1, LIMIT}


async def test_an_expired_lease_counts_as_work(post: Post) -> None:
    await post.channel()
    queued = await post.queue()
    async with post.database.write() as connection:
        await claim_by_id(connection, [str(queued[0].delivery_id)], post.clock(), concurrency=PLACES)
        assert not await has_work(connection, post.clock(), concurrency=PLACES)
        assert await has_work(connection, post.clock() + LEASE + timedelta(seconds=1), concurrency=PLACES)


async def test_nothing_is_written_while_no_slot_is_free(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = asyncio.Event()

    async def slowly(_request: web.Request) -> web.StreamResponse:
        await answered.wait()
        return web.Response(status=204)

    receiver.answers = [slowly]
    channel = await post.channel(receiver.url())
    post.sender.concurrency = ConcurrencyLimits(channel=1)
    for _ in range(2):
        await post.queue(ChannelIds([channel.id]))
    post.clock.pass_by(WORKER_DELAY.total_seconds() + 1)
    worker = Worker(post.sender, poll_s=0.01)
    for _ in range(2):  # one has the place; that the other has none is seen by looking
        await worker.poll_once()
    with monkeypatch.context() as patched:
        patched.setattr(post.database, "write", None)
        for _ in range(3):
            await worker.poll_once()
    answered.set()
    await post.sender.finish(5)
    await worker.poll_once()
    await receiver.until(2)
