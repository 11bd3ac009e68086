"""How many deliveries an organization has at most."""

import json
from datetime import timedelta

import msgspec
import pytest
import sqlalchemy as sa

from chassis.errors import RateLimited
from control.channels.delivery_tables import deliveries, delivery_messages
from control.deliveries import capacity, repository
from control.deliveries.outbox import AllChannels, ChannelIds, EnqueueResult, enqueue
from control.deliveries.outcome import AttemptOutcome
from tests.chassis.auth.tenants import new_tenant
from tests.control.deliveries.conftest import MESSAGE, Post
from tests.control.deliveries.test_outbox import OK, claim, past_head_start, settle

REFUSED = AttemptOutcome(False, "Never.", permanent=True)
OTHER = msgspec.structs.replace(MESSAGE, subject="another")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MAX_DELIVERIES", 6)


async def three_channels(post: Post) -> list[str]:
    return [(await post.channel("http://127.0.0.1:9")).id for _ in range(3)]


async def end_all(post: Post, outcome: AttemptOutcome) -> list[str]:
    past_head_start(post)
    claimed = await claim(post)
    for one in claimed:
        await settle(post, one, outcome)
    return sorted(one.id for one in claimed)


@pytest.mark.both_stores
async def test_channels_get_too_many_at_the_delivery_limit(post: Post) -> None:
    made = await three_channels(post)
    await post.queue()
    await post.channel("http://127.0.0.1:9")
    queued = await post.queue()
    assert [one.error for one in queued] == [None] * 3 + ["too_many"]
    assert [one.channel_id for one in queued][:3] == made
    assert await post.queue() == [EnqueueResult(one.channel_id, "webhook", error="too_many") for one in queued]
    assert len(await post.listed()) == 6


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
    told = await post.channel("http://127.0.0.1:9")
    await post.queue(ChannelIds([told.id]))
    await end_all(post, OK)
    await three_channels(post)
    for _ in range(2):
        await post.queue(message=OTHER)
    assert {one.error for one in await post.queue(message=OTHER)} == {"too_many"}
    (queued,) = await post.queue(ChannelIds([told.id]), msgspec.structs.replace(MESSAGE, resolved=True))
    assert queued.error is None
    assert {one.error for one in await post.queue(message=OTHER)} == {"too_many"}


async def test_waiting_deliveries_are_never_deleted(post: Post) -> None:
    await three_channels(post)
    waiting = [one.delivery_id for one in await post.queue()]
    later = [one.delivery_id for one in await post.queue()]
    assert {one.error for one in await post.queue()} == {"too_many"}
    assert {one.id for one in await post.listed()} == {*waiting, *later}


async def test_a_test_counts_towards_the_delivery_limit(post: Post) -> None:
    channel = await post.channel("http://127.0.0.1:9")
    for _ in range(6):
        await post.queue()
    async with post.database.write() as connection:
        with pytest.raises(RateLimited, match="wait"):
            await repository.insert_single(connection, channel, MESSAGE, post.clock())
    (oldest, *_) = await end_all(post, OK)
    async with post.database.write() as connection:
        made = await repository.insert_single(connection, channel, MESSAGE, post.clock())
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
        assert await capacity.ensure_capacity(connection, other.organization.id, 100) == 6
        assert await enqueue(connection, other.organization.id, AllChannels(), MESSAGE) == []
    assert len(await post.listed()) == 6


@pytest.mark.both_stores
async def test_a_message_is_stored_once_and_as_long_as_a_delivery_names_it(post: Post) -> None:
    await three_channels(post)
    (kept, *_), (_, *others) = await post.queue(), await post.queue()
    assert len(await stored(post)) == 2
    ids = [str(one.delivery_id) for one in others]
    async with post.database.write() as connection:
        assert (
            await capacity.delete_deliveries(connection, sa.select(deliveries.c.id).where(deliveries.c.id.in_(ids)))
            == 2
        )
    assert len(await stored(post)) == 2
    async with post.database.write() as connection:
        assert (
            await capacity.delete_deliveries(
                connection, sa.select(deliveries.c.id).where(deliveries.c.id != kept.delivery_id)
            )
            == 3
        )
        assert (
            await capacity.delete_deliveries(connection, sa.select(deliveries.c.id).where(deliveries.c.id == "dlv_x"))
            == 0
        )
    assert [json.loads(one)["title"] for one in await stored(post)] == [MESSAGE.title]
    assert (await post.one()).title == MESSAGE.title


async def test_a_message_without_channels_is_not_stored(post: Post) -> None:
    await post.queue()
    assert await stored(post) == []


async def test_messages_are_deleted_with_their_deliveries(post: Post) -> None:
    await three_channels(post)
    await post.queue()
    await end_all(post, OK)
    async with post.database.write() as connection:
        assert await repository.purge_ended(connection, post.clock() + timedelta(1)) == 3
    assert await stored(post) == []


async def stored(post: Post) -> list[str]:
    async with post.database.read() as connection:
        return list(await connection.scalars(sa.select(delivery_messages.c.message)))
