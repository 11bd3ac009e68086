"""The outbox on both databases: what is queued, claimed, sent, tried again, given up, cancelled."""

import asyncio
import contextlib

import msgspec
import pytest
import sqlalchemy as sa
from aiohttp import web

from control.channels.delivery_tables import State, deliveries
from control.deliveries import repository
from control.deliveries.leases import ClaimedDelivery, ConcurrencyLimits, claim_due
from control.deliveries.outbox import AllChannels, ChannelIds, DeliveryResult, EnqueueResult, enqueue
from control.deliveries.outcome import RETRY_DELAYS_S, AttemptOutcome
from control.deliveries.repository import WORKER_DELAY
from tests.chassis.auth.tenants import new_tenant
from tests.control.deliveries.conftest import MESSAGE, Post
from tests.control.receiver import Receiver

pytestmark = pytest.mark.both_stores

FAILED = AttemptOutcome(False, "No.")
OK = AttemptOutcome(True, "Yes.")


ALL = ConcurrencyLimits(channel=100, failing=1, organization=100)


async def claim(post: Post, limit: int = 100, places: ConcurrencyLimits = ALL) -> list[ClaimedDelivery]:
    async with post.database.write() as connection:
        return await claim_due(connection, post.clock(), limit=limit, concurrency=places)


async def settle(post: Post, claimed: ClaimedDelivery, outcome: AttemptOutcome) -> repository.OutcomeResult | None:
    async with post.database.write() as connection:
        return await repository.write_outcome(connection, claimed, outcome, post.clock(), 0.5)


def past_head_start(post: Post) -> None:
    post.clock.pass_by(WORKER_DELAY.total_seconds() + 1)


async def test_a_message_goes_to_everyone_who_is_enabled(post: Post) -> None:
    shared, own = await post.channel("http://127.0.0.1:9"), await post.channel("http://127.0.0.1:9", project=True)
    await post.channel("http://127.0.0.1:9", enabled=False)
    assert [one.channel_id for one in await post.queue()] == [shared.id]
    assert [one.channel_id for one in await post.queue(AllChannels(post.tenant.project.id))] == [shared.id, own.id]
    assert len(await post.listed()) == 3


async def test_results_of_named_channels_are_in_order(post: Post) -> None:
    on, off = await post.channel("http://127.0.0.1:9"), await post.channel("http://127.0.0.1:9", enabled=False)
    missing = "chn_" + "0" * 26
    queued = await post.queue(ChannelIds([missing, off.id, "\0", on.id, on.id]))
    assert queued == [
        EnqueueResult(missing, "unknown", error="not_found"),
        EnqueueResult(off.id, "webhook", error="disabled"),
        EnqueueResult("\0", "unknown", error="not_found"),
        EnqueueResult(on.id, "webhook", queued[3].delivery_id),
    ]
    assert [one.id for one in await post.listed()] == [queued[3].delivery_id]


async def test_channels_of_another_organization_are_not_found(post: Post) -> None:
    mine = await post.channel("http://127.0.0.1:9")
    other = await new_tenant(post.database, "globex")
    async with post.database.write() as connection:
        queued = await enqueue(connection, other.organization.id, ChannelIds([mine.id]), MESSAGE)
        assert await enqueue(connection, other.organization.id, AllChannels(), MESSAGE) == []
    assert queued == [EnqueueResult(mine.id, "unknown", error="not_found")]


async def test_nothing_is_queued_when_the_transaction_does_not_commit(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    with contextlib.suppress(ZeroDivisionError):
        async with post.database.write() as connection:
            await enqueue(connection, post.tenant.organization.id, AllChannels(), MESSAGE)
            raise ZeroDivisionError
    assert await post.listed() == []


async def test_a_message_with_a_too_long_type_or_subject_is_rejected(post: Post) -> None:
    for change in ({"type": "x" * 65}, {"subject": "x" * 65}):
        with pytest.raises(ValueError, match="too long"):
            await post.queue(message=msgspec.structs.replace(MESSAGE, **change))


async def test_a_delivery_is_attempted_at_once_after_the_commit(post: Post, receiver: Receiver) -> None:
    channel = await post.channel(receiver.url())
    queued = await post.queue()
    assert await post.sender.send_now(queued) == [DeliveryResult(channel.id, "webhook", delivered=True, error=None)]
    one = await post.one()
    assert (one.state, one.attempts, one.failed, one.ended_at) == (State.DONE, 1, False, post.clock())
    assert receiver.received[0].headers["webhook-id"] == one.id == queued[0].delivery_id


async def test_send_now_reports_the_state_of_each_channel(post: Post, receiver: Receiver) -> None:
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
    queued = await post.queue(ChannelIds([off.id, refusing.id, later.id, slow.id, "x"]))
    assert await post.sender.send_now(queued, budget_s=0.5) == [
        DeliveryResult(off.id, "webhook", False, "disabled"),
        DeliveryResult(refusing.id, "webhook", False, "The receiver rejected the message (HTTP 403)."),
        DeliveryResult(later.id, "webhook", False, "queued"),
        DeliveryResult(slow.id, "webhook", False, "queued"),
        DeliveryResult("x", "unknown", False, "not_found"),
    ]
    hanging.set()
    await post.sender.finish(5)
    assert [one.state for one in await post.listed()].count(State.READY) == 2


async def test_attempts_follow_the_schedule_and_end(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    await post.queue()
    past_head_start(post)
    for attempt, wait in enumerate(RETRY_DELAYS_S, 1):
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


async def test_retry_after_of_a_receiver_is_respected(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    await post.queue()
    past_head_start(post)
    (claimed,) = await claim(post)
    await settle(post, claimed, AttemptOutcome(False, "Busy.", retry_after_s=600))
    one = await post.one()
    assert one.next_at is not None
    assert ((one.next_at - post.clock()).total_seconds(), one.retry_after_s) == (600, 600)


async def test_a_permanent_failure_is_dead_at_once(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    await post.queue()
    past_head_start(post)
    (claimed,) = await claim(post)
    await settle(post, claimed, AttemptOutcome(False, "Never.", permanent=True))
    one = await post.one()
    assert (one.state, one.attempts, one.permanent) == (State.DEAD, 1, True)


async def test_deliveries_in_flight_are_limited_per_channel(post: Post) -> None:
    many, few = await post.channel("http://127.0.0.1:9"), await post.channel("http://127.0.0.1:9")
    for _ in range(20):
        await post.queue(ChannelIds([many.id]))
    await post.queue(ChannelIds([few.id]))
    past_head_start(post)
    first = await claim(post, places=ConcurrencyLimits(channel=4))
    assert sorted(one.channel_id for one in first) == sorted([many.id] * 4 + [few.id])
    assert await claim(post, places=ConcurrencyLimits(channel=4)) == []
    await settle(post, first[0], OK)
    assert [one.channel_id for one in await claim(post, places=ConcurrencyLimits(channel=4))] == [many.id]


async def test_a_failing_channel_has_one_delivery_in_flight(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    for _ in range(3):
        await post.queue()
    past_head_start(post)
    (claimed, *_) = await claim(post, limit=1)
    await settle(post, claimed, FAILED)
    assert len(await claim(post, places=ConcurrencyLimits(channel=4))) == 1


async def test_the_longest_waiting_go_first(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    ids = []
    for _ in range(5):
        ids += [one.delivery_id for one in await post.queue()]
        await asyncio.sleep(0.005)
    past_head_start(post)
    assert [one.id for one in await claim(post, limit=3)] == ids[:3]


async def test_no_row_can_be_in_two_states(post: Post) -> None:
    await post.channel("http://127.0.0.1:9")
    await post.queue()
    for values in ({"state": "DONE"}, {"state": "SENDING"}, {"next_at": None}, {"state": "LOST"}):
        with pytest.raises(sa.exc.IntegrityError):
            async with post.database.write() as connection:
                await connection.execute(deliveries.update().values(values))
