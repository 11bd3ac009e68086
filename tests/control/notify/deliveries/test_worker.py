"""What sends in the background: workers, what they share, and what they do when the store or a receiver will not."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import DatabaseUnavailable
from chassis.errors import ServiceUnavailable
from control.notify.channels import store as channels
from control.notify.channels.config import EmailConfig, Kind
from control.notify.channels.tables import State, notification_channels
from control.notify.deliveries import store
from control.notify.deliveries.leases import LEASE, ClaimedDelivery, ConcurrencyLimits
from control.notify.deliveries.rules import RETRY_DELAYS_S
from control.notify.deliveries.store import WORKER_DELAY
from control.notify.deliveries.worker import Worker
from tests.control.notify.deliveries.conftest import MESSAGE, Post
from tests.control.receiver import Receiver


async def test_service_faults_are_counted(post: Post) -> None:
    """No mail server is configured here."""
    async with post.database.write() as connection:
        await channels.create(
            connection, post.sealer, org_id=post.tenant.organization.id, project_id=None, name="x", kind=Kind.EMAIL,
            config=EmailConfig(["ada@example.org"]), enabled=True, created_by=post.tenant.owner_id,
        )  # fmt: skip
    worker = Worker(post.sender)
    await post.queue()
    post.clock.pass_by(WORKER_DELAY.total_seconds() + 90)
    await worker.poll_once()
    await post.sender.finish(5)
    assert 90 <= post.sender.metrics.overdue._value.get() < 120
    assert post.sender.metrics.faults.labels("email")._value.get() == 1
    assert (await post.one()).state == State.READY
    await worker.poll_once()
    assert post.sender.metrics.overdue._value.get() == 0


async def test_tests_have_their_own_limited_slots(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = await post.channel(receiver.url())
    monkeypatch.setattr(post.sender, "_slots", 0)  # whatever else is under way
    async with post.database.write() as connection:
        claimed = await post.sender.insert_test(connection, channel, MESSAGE)
    assert (await post.sender.test(claimed)).ok
    monkeypatch.setattr("control.notify.deliveries.sender.TEST_SLOTS", 0)
    async with post.database.write() as connection:
        with pytest.raises(ServiceUnavailable):
            await post.sender.insert_test(connection, channel, MESSAGE)


async def test_a_receiver_that_hangs_costs_its_attempt_and_no_more(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a kind of channel does with its time, the outcome is written while the lease lasts."""
    monkeypatch.setattr("control.notify.deliveries.sender.ATTEMPT_TIMEOUT_S", 0.05)

    over = asyncio.Event()

    async def hang(_request: web.Request) -> web.StreamResponse:
        await over.wait()
        return web.Response(status=204)

    receiver.answers = [hang]
    await post.channel(receiver.url())
    await post.sender.send_now(await post.queue())
    assert ((await post.one()).state, (await post.one()).detail) == (State.READY, "The attempt timed out.")
    over.set()


async def test_a_backlog_of_one_channel_is_sent_without_waiting_for_polls(post: Post, receiver: Receiver) -> None:
    """As soon as one place is free it is taken, not at the next look."""

    async def slowly(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.05)
        return web.Response(status=204)

    receiver.answers = [slowly]
    channel = await post.channel(receiver.url())
    async with post.database.write() as connection:
        await store.insert(connection, [channel] * 30, MESSAGE, post.clock() - WORKER_DELAY)
    running = Worker(post.sender, poll_s=30).running()
    await anext(running)
    await receiver.until(30, 15)
    await anext(running, None)


async def test_deliveries_continue_through_database_outages(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.notify.deliveries.sender.RETRY_S", 0.01)
    real, failures = store.write_result, iter([True, True, False])

    async def flaky(*args: object) -> object:
        if next(failures):
            raise DatabaseUnavailable
        return await real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "write_result", flaky)
    await post.channel(receiver.url())
    assert (await post.sender.send_now(await post.queue()))[0].delivered is True
    assert (await post.one()).state == State.DONE
    assert len(receiver.received) == 1


async def test_a_delivery_is_sent_again_if_its_outcome_is_not_written_in_time(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_args: object) -> None:
        raise DatabaseUnavailable

    await post.channel(receiver.url())
    queued = await post.queue()
    with monkeypatch.context() as patched:
        patched.setattr("control.notify.deliveries.sender.RETRY_S", 0.01)
        patched.setattr(post.sender._result_writer, "_write_timeout_s", 0.05)
        patched.setattr(store, "write_result", away)
        assert (await post.sender.send_now(queued))[0].delivered is True
    assert (await post.one()).state == State.SENDING
    post.clock.pass_by(LEASE.total_seconds() + 1)
    await Worker(post.sender, poll_s=0.01).poll_once()
    post.clock.pass_by(RETRY_DELAYS_S[0])
    await Worker(post.sender).poll_once()
    await post.sender.finish(5)
    assert ((await post.one()).state, (await post.one()).attempts) == (State.DONE, 1)
    assert len({one.headers["webhook-id"] for one in await receiver.until(2)}) == 1


async def test_an_outcome_that_cannot_be_written_does_not_affect_others(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = await post.channel(receiver.url())
    for _ in range(5):
        await post.channel(receiver.url())
    real = store.write_result

    async def settle_but_one(
        connection: AsyncConnection, claimed: ClaimedDelivery, *rest: Any
    ) -> store.WrittenResult | None:
        if claimed.channel_id == odd.id:
            raise ValueError("odd")
        return await real(connection, claimed, *rest)

    monkeypatch.setattr(store, "write_result", settle_but_one)
    await post.sender.send_now(await post.queue())
    states = {one.channel_id: one.state for one in await post.listed()}
    assert states.pop(odd.id) == State.SENDING
    assert set(states.values()) == {State.DONE}


@pytest.mark.background
async def test_a_worker_sends_what_waits_and_stops(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sends, and deletes what is old, after an error as well."""
    monkeypatch.setattr("control.notify.deliveries.worker.RETRY_S", 0.01)
    monkeypatch.setattr("control.notify.deliveries.worker.CLEANUP_INTERVAL_S", 0.01)
    worker = Worker(post.sender, retention_days=1, poll_s=0.02)
    monkeypatch.setattr(worker, "poll_once", failing_first(worker.poll_once))
    monkeypatch.setattr(store, "purge_ended", failing_first(store.purge_ended))
    for _ in range(3):
        await post.channel(receiver.url())
    await post.queue()
    post.past_head_start()
    running = worker.running()
    await anext(running)
    await receiver.until(3)
    await post.queue()
    post.past_head_start()
    await receiver.until(6)
    async with asyncio.timeout(5):
        while {one.state for one in await post.listed()} != {State.DONE}:
            await asyncio.sleep(0.01)
    post.clock.pass_by(2 * 86_400)
    async with asyncio.timeout(5):
        while await post.listed():
            await asyncio.sleep(0.01)
    await anext(running, None)
    assert len({one.headers["webhook-id"] for one in receiver.received}) == 6


def failing_first(real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    faults = iter([ValueError("odd"), None])

    async def flaky(*arguments: Any) -> Any:
        fault = next(faults, None)
        if fault is not None:
            raise fault
        return await real(*arguments)

    return flaky


async def test_several_workers_send_each_delivery_once(post: Post, receiver: Receiver) -> None:
    for _ in range(10):
        await post.channel(receiver.url())
    for _ in range(10):
        await post.queue()
    post.past_head_start()
    workers = [Worker(post.sender, poll_s=0.01) for _ in range(4)]
    async with asyncio.timeout(60):
        while {one.state for one in await post.listed()} != {State.DONE}:
            await asyncio.gather(*(worker.poll_once() for worker in workers))
    ids = [one.headers["webhook-id"] for one in receiver.received]
    assert (len(ids), len(set(ids))) == (100, 100)


async def test_a_hanging_receiver_does_not_delay_others(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deliveries to many channels, and more than have a place to one that never answers: the former are made."""
    monkeypatch.setattr("control.notify.deliveries.worker.FINISH_TIMEOUT_S", 0.5)
    silent = socket.create_server(("127.0.0.1", 0))  # takes connections, and that is all
    hanging = await post.channel(f"http://127.0.0.1:{silent.getsockname()[1]}/")
    good = [await post.channel(receiver.url()) for _ in range(10)]
    async with post.database.write() as connection:
        for _ in range(12):
            await store.insert(connection, [hanging, *good], MESSAGE, post.clock())
    post.past_head_start()
    running = Worker(post.sender, poll_s=0.02).running()
    await anext(running)
    await receiver.until(120, 60)
    async with asyncio.timeout(60):
        while {one.state for one in await post.listed() if one.channel_id != hanging.id} != {State.DONE}:
            await asyncio.sleep(0.02)
    assert len(post.sender._in_flight) <= ConcurrencyLimits().organization
    await anext(running, None)
    silent.close()


@pytest.mark.both_stores
async def test_old_ended_deliveries_are_deleted(post: Post, receiver: Receiver) -> None:
    gone, kept = await post.channel(receiver.url()), await post.channel(receiver.url())
    await post.sender.send_now(await post.queue())
    ended = post.clock()
    async with post.database.write() as connection:
        await channels.delete(connection, gone)
    (waiting,) = await post.queue()
    worker = Worker(post.sender, retention_days=30)
    for seconds, deleted in ((-1, 0), (1, 2)):
        post.clock.at = ended + timedelta(days=30, seconds=seconds)
        assert await worker.purge_batch() == deleted
    assert [one.id for one in await post.listed()] == [waiting.delivery_id]
    async with post.database.read() as connection:
        assert list(await connection.scalars(sa.select(notification_channels.c.id))) == [kept.id]
