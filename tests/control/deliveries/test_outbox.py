"""The outbox on both databases: what is queued, claimed, sent, tried again, given up, cancelled."""

import asyncio
import contextlib
import socket
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import ServiceUnavailable
from chassis.relational import DatabaseUnavailable
from control.channels import store as channels
from control.channels.config import EmailConfig, Kind, WebhookConfig
from control.channels.tables import notification_channels
from control.deliveries import store
from control.deliveries.claims import LEASE, Claimed, Places, claim_due, claim_these
from control.deliveries.outbox import Delivery, Everyone, Named, Queued, enqueue
from control.deliveries.outcome import PAUSES_S, Outcome
from control.deliveries.store import HEAD_START
from control.deliveries.tables import State, deliveries
from control.deliveries.worker import Worker
from tests.chassis.identity.tenants import new_tenant
from tests.control.deliveries.conftest import MESSAGE, Post
from tests.control.receiver import SECRET, Receiver

FAILED = Outcome(False, "No.")
OK = Outcome(True, "Yes.")


ALL = Places(channel=100, failing=1, organization=100)


async def claim(post: Post, limit: int = 100, places: Places = ALL) -> list[Claimed]:
    async with post.database.write() as connection:
        return await claim_due(connection, post.clock(), limit=limit, places=places)


async def settle(post: Post, claimed: Claimed, outcome: Outcome) -> store.Settled | None:
    async with post.database.write() as connection:
        return await store.settle(connection, claimed, outcome, post.clock(), 0.5)


def past_head_start(post: Post) -> None:
    post.clock.pass_by(HEAD_START.total_seconds() + 1)


async def test_a_message_goes_to_everyone_who_is_enabled(post: Post) -> None:
    shared, own = await post.channel("http://127.0.0.1:9"), await post.channel("http://127.0.0.1:9", project=True)
    await post.channel("http://127.0.0.1:9", enabled=False)
    assert [one.channel_id for one in await post.queue()] == [shared.id]
    assert [one.channel_id for one in await post.queue(Everyone(post.tenant.project.id))] == [shared.id, own.id]
    assert len(await post.listed()) == 3


async def test_named_channels_are_answered_in_order_whatever_they_are(post: Post) -> None:
    on, off = await post.channel("http://127.0.0.1:9"), await post.channel("http://127.0.0.1:9", enabled=False)
    missing = "chn_" + "0" * 26
    queued = await post.queue(Named([missing, off.id, "\0", on.id, on.id]))
    assert queued == [
        Queued(missing, "unknown", error="not_found"),
        Queued(off.id, "webhook", error="disabled"),
        Queued("\0", "unknown", error="not_found"),
        Queued(on.id, "webhook", queued[3].delivery_id),
    ]
    assert [one.id for one in await post.listed()] == [queued[3].delivery_id]


async def test_channels_of_another_organization_are_not_found(post: Post) -> None:
    mine = await post.channel("http://127.0.0.1:9")
    other = await new_tenant(post.database, "globex")
    async with post.database.write() as connection:
        queued = await enqueue(connection, other.organization.id, Named([mine.id]), MESSAGE)
        assert await enqueue(connection, other.organization.id, Everyone(), MESSAGE) == []
    assert queued == [Queued(mine.id, "unknown", error="not_found")]


async def test_nothing_is_queued_when_the_transaction_does_not_commit(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    with contextlib.suppress(ZeroDivisionError):
        async with post.database.write() as connection:
            await enqueue(connection, post.tenant.organization.id, Everyone(), MESSAGE)
            raise ZeroDivisionError
    assert await post.listed() == []


async def test_a_message_that_does_not_fit_is_refused(post: Post) -> None:
    for change in ({"type": "x" * 65}, {"subject": "x" * 65}):
        with pytest.raises(ValueError, match="does not fit"):
            await post.queue(message=msgspec.structs.replace(MESSAGE, **change))


async def test_a_delivery_is_attempted_at_once_after_the_commit(post: Post, receiver: Receiver) -> None:
    channel = await post.channel(receiver.url())
    queued = await post.queue()
    assert await post.sender.attempt(queued) == [Delivery(channel.id, "webhook", delivered=True, error=None)]
    one = await post.one()
    assert (one.state, one.attempts, one.failed, one.ended_at) == (State.DONE, 1, False, post.clock())
    assert receiver.received[0].headers["webhook-id"] == one.id == queued[0].delivery_id


async def test_an_attempt_tells_of_each_channel_how_far_it_got(post: Post, receiver: Receiver) -> None:
    hanging = asyncio.Event()

    async def hang(_request: web.Request) -> web.StreamResponse:
        await hanging.wait()
        return web.Response(status=503)

    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=403)

    async def busy(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=503)

    off = await post.channel(receiver.url(), enabled=False)
    refusing, later, slow = [await post.channel(receiver.url(f"/{name}")) for name in ("refuse", "later", "slow")]

    async def by_path(request: web.Request) -> web.StreamResponse:
        return await {"/slow": hang, "/refuse": refuse, "/later": busy}[request.path](request)

    receiver.answers = [by_path]
    queued = await post.queue(Named([off.id, refusing.id, later.id, slow.id, "x"]))
    assert await post.sender.attempt(queued, budget_s=0.5) == [
        Delivery(off.id, "webhook", False, "disabled"),
        Delivery(refusing.id, "webhook", False, "The receiver refuses it (HTTP 403)."),
        Delivery(later.id, "webhook", False, "queued"),
        Delivery(slow.id, "webhook", False, "queued"),
        Delivery("x", "unknown", False, "not_found"),
    ]
    hanging.set()
    await post.sender.finish(5)
    assert [one.state for one in await post.listed()].count(State.READY) == 2


async def test_what_is_queued_has_a_head_start_over_workers(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    await post.queue()
    assert await claim(post) == []
    past_head_start(post)
    assert len(await claim(post)) == 1
    assert await claim(post) == []


async def test_attempts_follow_the_schedule_and_end(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    await post.queue()
    past_head_start(post)
    for attempt, wait in enumerate(PAUSES_S, 1):
        (claimed,) = await claim(post)
        assert (claimed.attempts, claimed.claims) == (attempt - 1, attempt)
        await settle(post, claimed, FAILED)
        one = await post.one()
        assert (one.state, one.attempts, one.failed, one.detail) == (State.READY, attempt, True, "No.")
        assert one.next_at is not None
        assert (one.next_at - post.clock()).total_seconds() == wait
        post.clock.pass_by(wait - 1)
        assert await claim(post) == []
        post.clock.pass_by(1)
    (claimed,) = await claim(post)
    await settle(post, claimed, FAILED)
    one = await post.one()
    assert (one.state, one.attempts, one.next_at, one.ended_at) == (State.DEAD, 10, None, post.clock())


async def test_a_receiver_that_asks_to_wait_is_waited_for(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    await post.queue()
    past_head_start(post)
    (claimed,) = await claim(post)
    await settle(post, claimed, Outcome(False, "Busy.", retry_after_s=600))
    one = await post.one()
    assert one.next_at is not None
    assert ((one.next_at - post.clock()).total_seconds(), one.retry_after_s) == (600, 600)


async def test_what_fails_for_good_is_dead_at_once(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    await post.queue()
    past_head_start(post)
    (claimed,) = await claim(post)
    await settle(post, claimed, Outcome(False, "Never.", permanent=True))
    one = await post.one()
    assert (one.state, one.attempts, one.permanent) == (State.DEAD, 1, True)


async def test_of_one_channel_only_so_many_are_under_way(post: Post) -> None:
    many, few = await post.channel("http://127.0.0.1:9"), await post.channel("http://127.0.0.1:9")
    for _ in range(20):
        await post.queue(Named([many.id]))
    await post.queue(Named([few.id]))
    past_head_start(post)
    first = await claim(post, places=Places(channel=4))
    assert sorted(one.channel_id for one in first) == sorted([many.id] * 4 + [few.id])
    assert await claim(post, places=Places(channel=4)) == []
    await settle(post, first[0], OK)
    assert [one.channel_id for one in await claim(post, places=Places(channel=4))] == [many.id]


async def test_of_a_failing_channel_one_is_under_way(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    for _ in range(3):
        await post.queue()
    past_head_start(post)
    (claimed, *_) = await claim(post, limit=1)
    await settle(post, claimed, FAILED)
    assert len(await claim(post, places=Places(channel=4))) == 1


async def test_the_longest_waiting_go_first(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    ids = []
    for _ in range(5):
        ids += [one.delivery_id for one in await post.queue()]
        await asyncio.sleep(0.005)
    past_head_start(post)
    assert [one.id for one in await claim(post, limit=3)] == ids[:3]


@pytest.mark.parametrize("how", ["disabled", "deleted"])
async def test_what_waits_for_a_channel_that_is_switched_off_is_cancelled(post: Post, how: str) -> None:
    channel = await post.channel("http://127.0.0.1:9")
    await post.queue()
    past_head_start(post)
    (claimed,) = await claim(post)
    waiting = (await post.queue())[0].delivery_id
    async with post.database.write() as connection:
        if how == "disabled":
            await channels.change(connection, post.sealer, channel, enabled=False)
        else:
            await channels.delete(connection, channel)
    found = {one.id: one for one in await post.listed()}
    assert found[str(waiting)].state is State.CANCELLED
    assert found[str(waiting)].detail == f"The channel was {how}."
    assert await settle(post, claimed, FAILED) == store.Settled(State.CANCELLED)  # no further attempt


async def test_a_deleted_channel_keeps_no_config(post: Post) -> None:
    channel = await post.channel("http://127.0.0.1:9")
    await post.queue()
    async with post.database.write() as connection:
        await channels.delete(connection, channel)
        row = (await connection.execute(sa.select(notification_channels))).one()
    assert (row.config, row.enabled) == (None, False)


async def test_a_deleted_channel_that_no_delivery_names_is_gone(post: Post) -> None:
    channel, other = await post.channel("http://127.0.0.1:9"), await post.channel("http://127.0.0.1:9")
    await post.queue(Named([other.id]))
    async with post.database.write() as connection:
        for one in (channel, other):
            await channels.delete(connection, one)
        assert list(await connection.scalars(sa.select(notification_channels.c.id))) == [other.id]


async def test_another_config_is_another_receiver(post: Post) -> None:
    channel = await post.channel("http://127.0.0.1:9")
    async with post.database.write() as connection:
        await connection.execute(
            notification_channels.update().values(failing_since=post.clock(), off_reason="failing")
        )
        changed = {"name": "y"}, {"config": WebhookConfig(url="http://127.0.0.1:9/new", secret=SECRET)}
        rows = []
        for change in changed:
            await channels.change(connection, post.sealer, channel, **change)
            rows.append((await connection.execute(sa.select(notification_channels))).one())
    assert [(row.failing_since, row.off_reason) for row in rows] == [(post.clock(), "failing"), (None, None)]


@pytest.mark.parametrize("first", [Outcome(False, "Ours.", ours=True), Outcome(False, "Theirs.")])
async def test_a_fault_of_ours_is_none_of_the_channel(post: Post, first: Outcome) -> None:
    """Nothing comes through for five days; whose fault the first of them was decides whether that switches it off."""
    channel = await post.channel("http://127.0.0.1:9")
    for days, outcome, enabled in ((0, first, True), (5, FAILED, first.ours), (5, first, first.ours)):
        post.clock.pass_by(days * 86_400)
        async with post.database.write() as connection:
            (id_,) = await store.insert(connection, [channel], MESSAGE, post.clock())
            (claimed,) = await claim_these(connection, [id_], post.clock(), places=ALL)
        await post.sender._clerk.settle(claimed, outcome)
        assert (await post.found(channel)).enabled is enabled


async def test_what_an_operator_has_to_see_to_is_counted(post: Post) -> None:
    """No mail server is configured here."""
    async with post.database.write() as connection:
        await channels.create(
            connection, post.sealer, org_id=post.tenant.organization.id, project_id=None, name="x", kind=Kind.EMAIL,
            config=EmailConfig(["ada@example.org"]), enabled=True, created_by=post.tenant.owner_id,
        )  # fmt: skip
    worker = Worker(post.sender)
    await post.queue()
    post.clock.pass_by(HEAD_START.total_seconds() + 90)
    await worker.round()
    await post.sender.finish(5)
    assert 60 < post.sender.metrics.overdue._value.get() <= 90
    assert post.sender.metrics.faults.labels("email")._value.get() == 1
    assert (await post.one()).state is State.READY
    await worker.round()
    assert post.sender.metrics.overdue._value.get() == 0


async def test_tests_have_places_of_their_own_and_so_many(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = await post.channel(receiver.url())
    monkeypatch.setattr(post.sender, "_slots", 0)  # whatever else is under way
    async with post.database.write() as connection:
        claimed = await post.sender.insert_test(connection, channel, MESSAGE)
    assert (await post.sender.test(claimed)).ok
    monkeypatch.setattr("control.deliveries.sending.TEST_SLOTS", 0)
    async with post.database.write() as connection:
        with pytest.raises(ServiceUnavailable):
            await post.sender.insert_test(connection, channel, MESSAGE)


async def test_a_receiver_that_hangs_costs_its_attempt_and_no_more(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a kind of channel does with its time, the outcome is written while the lease lasts."""
    monkeypatch.setattr("control.deliveries.sending.ATTEMPT_S", 0.05)

    async def hang(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(1)
        return web.Response(status=204)

    receiver.answers = [hang]
    await post.channel(receiver.url())
    await post.sender.attempt(await post.queue())
    assert ((await post.one()).state, (await post.one()).detail) == (State.READY, "The attempt took too long.")


async def test_a_backlog_of_one_channel_is_not_sent_by_the_second(post: Post, receiver: Receiver) -> None:
    """As soon as one place is free it is taken, not at the next look."""

    async def slowly(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.05)
        return web.Response(status=204)

    receiver.answers = [slowly]
    channel = await post.channel(receiver.url())
    async with post.database.write() as connection:
        await store.insert(connection, [channel] * 60, MESSAGE, post.clock() - HEAD_START)
    running = Worker(post.sender, poll_s=30).running()
    await anext(running)
    await receiver.until(60, 15)
    await anext(running, None)


async def test_a_receiver_that_is_gone_switches_its_channel_off(post: Post, receiver: Receiver) -> None:
    receiver.says(410)
    channel = await post.channel(receiver.url())
    await post.sender.attempt(await post.queue())
    assert (await post.found(channel)).enabled is False
    assert (await post.one()).state is State.DEAD
    assert await post.queue() == []
    async with post.database.read() as connection:
        events = (await connection.execute(sa.text("SELECT action, data FROM audit_events"))).all()
    assert [(event.action, "gone" in event.data) for event in events] == [("channel.disabled", True)]


async def test_five_days_of_failures_switch_a_channel_off_and_one_success_in_between_does_not(post: Post) -> None:
    channel = await post.channel("http://127.0.0.1:9/")
    for days, outcome, enabled in (
        (0, FAILED, True),
        (4, FAILED, True),
        (0.9, OK, True),
        (1, FAILED, True),
        (4.9, FAILED, True),
        (0.1, FAILED, False),
    ):
        post.clock.pass_by(days * 86_400)
        async with post.database.write() as connection:
            (id_,) = await store.insert(connection, [channel], MESSAGE, post.clock())
            (claimed,) = await claim_these(connection, [id_], post.clock(), places=ALL)
        await post.sender._clerk.settle(claimed, outcome)
        assert (await post.found(channel)).enabled is enabled
    async with post.database.read() as connection:
        assert await connection.scalar(sa.select(notification_channels.c.off_reason)) == "failing"


async def test_enabling_a_channel_again_starts_anew(post: Post) -> None:
    channel = await post.channel("http://127.0.0.1:9")
    async with post.database.write() as connection:
        await connection.execute(
            notification_channels.update().values(failing_since=post.clock(), off_reason="failing", enabled=False)
        )
        await channels.change(connection, post.sealer, channel, enabled=True)
        row = (await connection.execute(sa.select(notification_channels))).one()
    assert (row.enabled, row.off_reason, row.failing_since) == (True, None, None)


async def test_a_config_that_does_not_open_is_no_reason_to_give_up(post: Post, receiver: Receiver) -> None:
    """An operator can bring the key back."""
    first, second = await post.channel(receiver.url()), await post.channel(receiver.url())
    async with post.database.write() as connection:  # moved from row to row, as only an attacker would
        stolen = await connection.scalar(
            sa.select(notification_channels.c.config).where(notification_channels.c.id == second.id)
        )
        await connection.execute(
            notification_channels.update().where(notification_channels.c.id == first.id).values(config=stolen)
        )
    await post.sender.attempt(await post.queue(Named([first.id])))
    one = await post.one()
    assert (one.state, one.detail) == (State.READY, "The config of the channel cannot be opened.")
    assert receiver.received == []


async def test_deliveries_are_made_while_the_database_comes_and_goes(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.deliveries.clerk.AGAIN_S", 0.01)
    real, failures = store.settle, iter([True, True, False])

    async def flaky(*args: object) -> object:
        if next(failures):
            raise DatabaseUnavailable
        return await real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "settle", flaky)
    await post.channel(receiver.url())
    assert (await post.sender.attempt(await post.queue()))[0].delivered is True
    assert (await post.one()).state is State.DONE
    assert len(receiver.received) == 1


async def test_an_outcome_that_is_not_written_in_time_is_lost_and_the_delivery_made_again(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_args: object) -> None:
        raise DatabaseUnavailable

    await post.channel(receiver.url())
    queued = await post.queue()
    with monkeypatch.context() as patched:
        patched.setattr("control.deliveries.clerk.AGAIN_S", 0.01)
        patched.setattr(post.sender._clerk, "_patience_s", 0.05)
        patched.setattr(store, "settle", away)
        assert (await post.sender.attempt(queued))[0].delivered is True
    assert (await post.one()).state is State.SENDING
    post.clock.pass_by(LEASE.total_seconds() + 1)
    await Worker(post.sender, poll_s=0.01).round()
    post.clock.pass_by(PAUSES_S[0])
    await Worker(post.sender).round()
    await post.sender.finish(5)
    assert ((await post.one()).state, (await post.one()).attempts) == (State.DONE, 1)
    assert len({one.headers["webhook-id"] for one in await receiver.until(2)}) == 1


async def test_one_outcome_that_cannot_be_written_costs_no_other(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = await post.channel(receiver.url())
    for _ in range(5):
        await post.channel(receiver.url())
    real = store.settle

    async def settle_but_one(connection: AsyncConnection, claimed: Claimed, *rest: Any) -> store.Settled | None:
        if claimed.channel_id == odd.id:
            raise ValueError("odd")
        return await real(connection, claimed, *rest)

    monkeypatch.setattr(store, "settle", settle_but_one)
    await post.sender.attempt(await post.queue())
    states = {one.channel_id: one.state for one in await post.listed()}
    assert states.pop(odd.id) is State.SENDING
    assert set(states.values()) == {State.DONE}


async def test_a_worker_sends_what_waits_and_stops(post: Post, receiver: Receiver) -> None:
    for _ in range(3):
        await post.channel(receiver.url())
    await post.queue()
    past_head_start(post)
    running = Worker(post.sender, poll_s=0.02).running()
    await anext(running)
    await receiver.until(3)
    await post.queue()
    past_head_start(post)
    await receiver.until(6)
    await anext(running, None)
    assert {one.state for one in await post.listed()} == {State.DONE}
    assert len({one.headers["webhook-id"] for one in receiver.received}) == 6


async def test_several_workers_send_each_delivery_once(post: Post, receiver: Receiver) -> None:
    for _ in range(10):
        await post.channel(receiver.url())
    for _ in range(10):
        await post.queue()
    past_head_start(post)
    workers = [Worker(post.sender, poll_s=0.01) for _ in range(4)]
    while any([await worker.round() == 0.0 for worker in workers]):
        await asyncio.sleep(0)
    await post.sender.finish(10)
    while (await post.listed(state=State.READY)) or (await post.listed(state=State.SENDING)):
        await asyncio.gather(*(worker.round() for worker in workers))
        await post.sender.finish(10)
    ids = [one.headers["webhook-id"] for one in receiver.received]
    assert (len(ids), len(set(ids))) == (100, 100)


async def test_a_worker_goes_on_after_a_fault(post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.deliveries.worker.AWAY_S", 0.01)
    worker, faults = Worker(post.sender, poll_s=0.01), iter([ValueError("odd"), None])
    real = worker.round

    async def flaky() -> float:
        fault = next(faults, None)
        if fault is not None:
            raise fault
        return await real()

    monkeypatch.setattr(worker, "round", flaky)
    await post.channel(receiver.url())
    await post.queue()
    past_head_start(post)
    running = worker.running()
    await anext(running)
    await receiver.until(1)
    await anext(running, None)


async def test_tidying_goes_on_after_a_fault(post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.deliveries.worker.TIDY_S", 0.01)
    faults, real = iter([ValueError("odd"), None]), store.expire

    async def flaky(connection: AsyncConnection, before: Any) -> int:
        fault = next(faults, None)
        if fault is not None:
            raise fault
        return await real(connection, before)

    monkeypatch.setattr(store, "expire", flaky)
    await post.channel(receiver.url())
    await post.sender.attempt(await post.queue())
    post.clock.pass_by(2 * 86_400)
    running = Worker(post.sender, keep_days=1).running()
    await anext(running)
    async with asyncio.timeout(5):
        while await post.listed():
            await asyncio.sleep(0.01)
    await anext(running, None)


async def test_a_hanging_receiver_holds_nobody_up(post: Post, receiver: Receiver) -> None:
    """Many deliveries to many channels, and as many to one that never answers: the former are all made meanwhile."""
    silent = socket.create_server(("127.0.0.1", 0))  # takes connections, and that is all
    hanging = await post.channel(f"http://127.0.0.1:{silent.getsockname()[1]}/")
    good = [await post.channel(receiver.url()) for _ in range(10)]
    async with post.database.write() as connection:
        for _ in range(40):
            await store.insert(connection, [hanging, *good], MESSAGE, post.clock())
    past_head_start(post)
    running = Worker(post.sender, poll_s=0.02).running()
    await anext(running)
    await receiver.until(400, 60)
    assert len(post.sender._under_way) <= Places().organization
    await anext(running, None)
    silent.close()
    found = [one for one in await post.listed() if one.channel_id != hanging.id]
    assert {one.state for one in found} == {State.DONE}


async def test_what_ended_long_ago_is_dropped(post: Post, receiver: Receiver) -> None:
    gone, kept = await post.channel(receiver.url()), await post.channel(receiver.url())
    await post.sender.attempt(await post.queue())
    async with post.database.write() as connection:
        await channels.delete(connection, gone)
    (waiting,) = await post.queue()
    worker = Worker(post.sender, keep_days=30)
    post.clock.pass_by(30 * 86_400 - 1)
    assert await worker.expire() == 0
    post.clock.pass_by(2)
    assert await worker.expire() == 2
    assert [one.id for one in await post.listed()] == [waiting.delivery_id]
    async with post.database.read() as connection:
        assert list(await connection.scalars(sa.select(notification_channels.c.id))) == [kept.id]


async def test_no_row_can_be_in_two_states(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    await post.queue()
    for values in ({"state": "DONE"}, {"state": "SENDING"}, {"next_at": None}, {"state": "LOST"}):
        with pytest.raises(sa.exc.IntegrityError):
            async with post.database.write() as connection:
                await connection.execute(deliveries.update().values(values))
