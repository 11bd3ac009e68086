"""The outbox on both databases: what is queued, claimed, sent, tried again, given up, cancelled."""

import asyncio
import contextlib

import msgspec
import pytest
import sqlalchemy as sa
from aiohttp import web

from control.notify.channels.tables import State, deliveries
from control.notify.deliveries.leases import ConcurrencyLimits
from control.notify.deliveries.outbox import AllChannels, ChannelIds, DeliveryResult, EnqueueResult, enqueue
from control.notify.deliveries.rules import RETRY_DELAYS_S, AttemptResult
from tests.chassis.auth.tenants import new_tenant
from tests.control.notify.deliveries.conftest import FAILED, MESSAGE, OK, Post
from tests.control.receiver import Receiver

pytestmark = pytest.mark.both_stores


async def test_a_message_goes_to_everyone_who_is_enabled(post: Post) -> None:
    shared, own = await post.channel(), await post.channel(project=True)
    await post.channel(enabled=False)
    assert [one.channel_id for one in await post.queue()] == [shared.id]
    assert [one.channel_id for one in await post.queue(AllChannels(post.tenant.project.id))] == [shared.id, own.id]
    assert len(await post.listed()) == 3


async def test_results_of_named_channels_are_in_order(post: Post) -> None:
    on, off = await post.channel(), await post.channel(enabled=False)
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
    mine = await post.channel()
    other = await new_tenant(post.database, "globex")
    async with post.database.write() as connection:
        queued = await enqueue(connection, other.organization.id, ChannelIds([mine.id]), MESSAGE)
        assert await enqueue(connection, other.organization.id, AllChannels(), MESSAGE) == []
    assert queued == [EnqueueResult(mine.id, "unknown", error="not_found")]


async def test_nothing_is_queued_when_the_transaction_does_not_commit(post: Post) -> None:
    """Nor with a type or subject that is too long."""
    await post.channel()
    with contextlib.suppress(ZeroDivisionError):
        async with post.database.write() as connection:
            await enqueue(connection, post.tenant.organization.id, AllChannels(), MESSAGE)
            raise ZeroDivisionError
    for change in ({"type": "x" * 65}, {"subject": "x" * 65}):
        with pytest.raises(ValueError, match="too long"):
            await post.queue(message=msgspec.structs.replace(MESSAGE, **change))
    assert await post.listed() == []


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
    """The process that has queued claims before workers."""
    await post.channel()
    await post.queue()
    assert await post.claim() == []
    post.past_head_start()
    for attempt, wait in enumerate(RETRY_DELAYS_S, 1):
        (claimed,) = await post.claim()
        assert (claimed.attempts, claimed.claims) == (attempt - 1, attempt)
        await post.settle(claimed, FAILED)
        one = await post.one()
        assert (one.state, one.attempts, one.failed, one.detail) == (State.READY, attempt, True, "No.")
        assert one.next_at is not None
        assert (one.next_at - post.clock()).total_seconds() == wait
        post.clock.pass_by(wait - 1)
        assert await post.claim() == []
        post.clock.pass_by(1)
    (claimed,) = await post.claim()
    await post.settle(claimed, FAILED)
    one = await post.one()
    assert (one.state, one.attempts, one.next_at, one.ended_at) == (State.DEAD, 10, None, post.clock())


async def test_an_outcome_may_say_when_the_next_attempt_is_or_that_there_is_none(post: Post) -> None:
    await post.channel()
    await post.queue()
    post.past_head_start()
    (claimed,) = await post.claim()
    await post.settle(claimed, AttemptResult(False, "Busy.", retry_after_s=600))
    one = await post.one()
    assert one.next_at is not None
    assert ((one.next_at - post.clock()).total_seconds(), one.retry_after_s) == (600, 600)
    post.clock.pass_by(600)
    (claimed,) = await post.claim()
    await post.settle(claimed, AttemptResult(False, "Never.", permanent=True))
    one = await post.one()
    assert (one.state, one.attempts, one.permanent) == (State.DEAD, 2, True)


async def test_deliveries_in_flight_are_limited_per_channel(post: Post) -> None:
    """To one for a channel that is failing."""
    many, few, places = await post.channel(), await post.channel(), ConcurrencyLimits(channel=4)
    for _ in range(20):
        await post.queue(ChannelIds([many.id]))
    await post.queue(ChannelIds([few.id]))
    post.past_head_start()
    first = await post.claim(places=places)
    assert sorted(one.channel_id for one in first) == sorted([many.id] * 4 + [few.id])
    assert await post.claim(places=places) == []
    of_many = [one for one in first if one.channel_id == many.id]
    await post.settle(of_many.pop(), OK)
    (claimed,) = await post.claim(places=places)
    assert claimed.channel_id == many.id
    for one in of_many:
        await post.settle(one, FAILED)
    await post.settle(claimed, FAILED)
    assert len(await post.claim(places=places)) == 1


async def test_no_row_can_be_in_two_states(post: Post) -> None:
    await post.channel()
    await post.queue()
    for values in ({"state": "DONE"}, {"state": "SENDING"}, {"next_at": None}, {"state": "LOST"}):
        with pytest.raises(sa.exc.IntegrityError):
            async with post.database.write() as connection:
                await connection.execute(deliveries.update().values(values))
