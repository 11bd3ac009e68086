"""How many deliveries an organization has at most."""

import json
from datetime import timedelta

import msgspec
import pytest
import sqlalchemy as sa

from chassis.errors import RateLimited
from control.notify.channels.tables import deliveries, delivery_messages
from control.notify.deliveries import store
from control.notify.deliveries.outbox import AllChannels, ChannelIds, EnqueueResult, enqueue
from control.notify.deliveries.rules import AttemptResult
from tests.chassis.auth.tenants import new_tenant
from tests.control.notify.deliveries.conftest import MESSAGE, OK, Post

REFUSED = AttemptResult(False, "Never.", permanent=True)
OTHER = msgspec.structs.replace(MESSAGE, subject="another")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_DELIVERIES", 6)


async def three_channels(post: Post) -> list[str]:
    return [(await post.channel()).id for _ in range(3)]


async def end_all(post: Post, outcome: AttemptResult) -> list[str]:
    post.past_head_start()
    claimed = await post.claim()
    for one in claimed:
        await post.settle(one, outcome)
    return sorted(one.id for one in claimed)


@pytest.mark.both_stores
async def test_channels_get_too_many_at_the_delivery_limit(post: Post) -> None:
    made = await three_channels(post)
    await post.queue()
    await post.channel()
    queued = await post.queue()
    waiting = {one.id for one in await post.listed()}
    assert [one.error for one in queued] == [None] * 3 + ["too_many"]
    assert [one.channel_id for one in queued][:3] == made
    assert await post.queue() == [EnqueueResult(one.channel_id, "webhook", error="too_many") for one in queued]
    assert (len(waiting), {one.id for one in await post.listed()}) == (6, waiting)


async def test_the_oldest_ended_deliveries_are_deleted_at_the_limit(post: Post) -> None:
    await three_channels(post)
    await post.queue()
    first = await end_all(post, REFUSED)
    await post.queue()
    second = await end_all(post, OK)
    assert sorted(one.id for one in await post.listed()) == first + second
    third = [one.delivery_id for one in await post.queue()]
    assert None not in third
    assert {one.id for one in await post.listed()} == {*second, *third}


async def test_notified_channels_get_the_outcome_beyond_the_delivery_limit(post: Post) -> None:
    told = await post.channel()
    await post.queue(ChannelIds([told.id]))
    await end_all(post, OK)
    await three_channels(post)
    for _ in range(2):
        await post.queue(message=OTHER)
    assert {one.error for one in await post.queue(message=OTHER)} == {"too_many"}
    (queued,) = await post.queue(ChannelIds([told.id]), msgspec.structs.replace(MESSAGE, resolved=True))
    assert queued.error is None
    assert {one.error for one in await post.queue(message=OTHER)} == {"too_many"}


async def test_a_test_counts_towards_the_delivery_limit(post: Post) -> None:
    channel = await post.channel()
    for _ in range(6):
        await post.queue()
    async with post.database.write() as connection:
        with pytest.raises(RateLimited, match="wait"):
            await store.insert_single(connection, channel, MESSAGE, post.clock())
    (oldest, *_) = await end_all(post, OK)
    async with post.database.write() as connection:
        made = await store.insert_single(connection, channel, MESSAGE, post.clock())
    listed = {one.id for one in await post.listed()}
    assert (len(listed), made.id in listed, oldest in listed) == (6, True, False)


async def test_other_organizations_are_not_touched(post: Post) -> None:
    await three_channels(post)
    await post.queue()
    await end_all(post, OK)
    other = await new_tenant(post.database, "globex")
    for _ in range(2):
        await post.queue()
    async with post.database.write() as connection:
        assert await store.ensure_capacity(connection, other.organization.id, 100) == 6
        assert await enqueue(connection, other.organization.id, AllChannels(), MESSAGE) == []
    assert len(await post.listed()) == 6


@pytest.mark.both_stores
async def test_a_message_is_stored_once_and_as_long_as_a_delivery_names_it(post: Post) -> None:
    async def deleted(which: sa.ColumnElement[bool]) -> int:
        async with post.database.write() as connection:
            return await store.delete_deliveries(connection, sa.select(deliveries.c.id).where(which))

    await post.queue()
    assert await stored(post) == [], "it goes nowhere"
    await three_channels(post)
    (kept, *_), (_, *others) = await post.queue(), await post.queue()
    assert len(await stored(post)) == 2
    assert await deleted(deliveries.c.id.in_([one.delivery_id for one in others])) == 2
    assert len(await stored(post)) == 2
    assert await deleted(deliveries.c.id != kept.delivery_id) == 3
    assert await deleted(deliveries.c.id == "dlv_x") == 0
    assert [json.loads(one)["title"] for one in await stored(post)] == [MESSAGE.title]
    assert json.loads((await post.one()).message)["title"] == MESSAGE.title
    await end_all(post, OK)
    async with post.database.write() as connection:
        assert await store.purge_ended(connection, post.clock() + timedelta(1)) == 1
    assert await stored(post) == []


async def stored(post: Post) -> list[str]:
    async with post.database.read() as connection:
        return list(await connection.scalars(sa.select(delivery_messages.c.message)))
