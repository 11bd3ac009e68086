"""Claims: fenced by a number that never goes back, not counted when interrupted, shared fairly, and none for what is
over.
"""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec import structs

from chassis.errors import Conflict, RateLimited
from control.notify.channels import store as channels
from control.notify.channels.store import Channel
from control.notify.channels.tables import State, notification_channels
from control.notify.deliveries import api, store
from control.notify.deliveries.leases import (
    INTERRUPTED,
    LEASE,
    OBSOLETE,
    ConcurrencyLimits,
    claim_by_id,
    requeue_expired,
)
from control.notify.deliveries.outbox import ChannelIds, enqueue
from control.notify.deliveries.rules import MAX_ATTEMPTS, RETRY_DELAYS_S, AttemptResult
from control.notify.deliveries.store import MAX_CONCURRENT_TESTS, TEST_RETRY_AFTER_S, WORKER_DELAY, WrittenResult
from control.notify.message import Message
from tests.chassis.auth.tenants import new_tenant
from tests.control.notify.deliveries.conftest import FAILED, MESSAGE, OK, Post

pytestmark = pytest.mark.both_stores

ENDED = Message(type="approval.approved", subject=MESSAGE.subject, title="Approved.", resolved=True)


async def reaped(post: Post) -> int:
    post.clock.pass_by(LEASE.total_seconds() + 0.001)
    async with post.database.write() as connection:
        return await requeue_expired(connection, post.clock())


async def queued(post: Post, message: Message = MESSAGE, *, until_s: float | None = None) -> str:
    """To everyone, due now; the id of the first."""
    until = None
    if until_s is not None:
        post.clock.pass_by(until_s)
        until = post.clock()
        post.clock.pass_by(-until_s)
    async with post.database.write() as connection:
        found = await channels.resolve_targets(
            connection, post.tenant.organization.id, channel_ids=None, project_id=None
        )
        if message.resolved:
            await store.resolve_subject(connection, post.tenant.organization.id, message.subject, post.clock())
        ids = await store.insert(connection, found, message, post.clock() - WORKER_DELAY, until)
    return ids[0]


async def by_id(post: Post) -> dict[str, sa.Row[Any]]:
    return {one.id: one for one in await post.listed()}


async def test_a_delivery_with_an_expired_lease_is_sent_again_under_its_id(post: Post) -> None:
    await post.channel()
    await queued(post)
    (lost,) = await post.claim()
    post.clock.pass_by(LEASE.total_seconds())
    async with post.database.write() as connection:
        assert await requeue_expired(connection, post.clock()) == 0
    assert await reaped(post) == 1
    assert await post.settle(lost, OK) is None
    assert await post.claim() == []
    post.clock.pass_by(RETRY_DELAYS_S[0])
    (again,) = await post.claim()
    assert (again.id, again.attempts, again.claims) == (lost.id, 0, 2)
    assert await post.settle(lost, OK) is None  # the late one changes nothing
    assert await post.settle(again, OK) == WrittenResult(State.DONE)


async def test_an_interrupted_attempt_waits_as_long_as_the_one_before_it_and_is_not_counted(post: Post) -> None:
    """A process that crashes again and again has asked the receiver nothing."""
    await post.channel()
    await queued(post)
    for attempts in range(MAX_ATTEMPTS):
        for interrupted in range(1, 3):
            (claimed,) = await post.claim()
            assert (claimed.attempts, claimed.claims) == (attempts, 3 * attempts + interrupted)
            assert await reaped(post) == 1
            one = await post.one()
            assert (one.state, one.attempts, one.detail) == (State.READY, attempts, INTERRUPTED)
            assert one.next_at is not None
            assert (one.next_at - post.clock()).total_seconds() == RETRY_DELAYS_S[max(attempts - 1, 0)]
            post.clock.pass_by(86_400)
        (claimed,) = await post.claim()
        settled = await post.settle(claimed, FAILED)
        assert (settled and settled.state) is (State.DEAD if attempts == MAX_ATTEMPTS - 1 else State.READY)
        post.clock.pass_by(86_400)


async def test_an_outcome_from_before_a_redelivery_is_ignored(post: Post) -> None:
    await post.channel()
    await queued(post)
    (early,) = await post.claim()
    await reaped(post)
    post.clock.pass_by(RETRY_DELAYS_S[0])
    (later,) = await post.claim()
    await post.settle(later, AttemptResult(False, "Never.", permanent=True))
    async with post.database.write() as connection:
        await store.reset(connection, (await post.one()).id)
    post.clock.pass_by(3_600)
    (again,) = await post.claim()
    assert (again.attempts, again.claims) == (0, 3)
    assert await post.settle(early, OK) is None
    assert await post.settle(later, OK) is None
    assert await post.settle(again, OK) == WrittenResult(State.DONE)


async def test_delivered_recipients_are_stored_and_reset_the_failing_period(post: Post) -> None:
    channel = await post.channel()
    await queued(post)
    since = []
    for outcome in (
        FAILED,
        AttemptResult(False, "Some.", recipient_progress="+a"),
        FAILED,
        AttemptResult(False, "Still some.", recipient_progress="+a"),
    ):
        (claimed,) = await post.claim()
        await post.settle(claimed, outcome)
        async with post.database.read() as connection:
            found = sa.select(notification_channels.c.failing_since).where(notification_channels.c.id == channel.id)
            since.append(await connection.scalar(found) is not None)
        post.clock.pass_by(86_400)
    assert since == [True, False, True, True]
    (claimed,) = await post.claim()
    assert claimed.taken == "+a"
    await post.settle(claimed, OK)
    async with post.database.write() as connection:
        await store.reset(connection, (await post.one()).id)
    post.clock.pass_by(3_600)
    assert [one.taken for one in await post.claim()] == [None]


async def test_an_interrupted_attempt_to_a_disabled_channel_is_cancelled_and_a_test_dead(post: Post) -> None:
    channel = await post.channel()
    first = await queued(post)
    await post.claim()
    async with post.database.write() as connection:
        await channels.change(connection, post.sealer, channel, enabled=False)
        await store.insert_single(connection, channel, MESSAGE, post.clock())
    await reaped(post)
    found = await by_id(post)
    assert found.pop(first).state == State.CANCELLED
    assert [(one.state, one.attempts) for one in found.values()] == [(State.DEAD, 0)]


async def test_concurrent_tests_of_an_organization_are_limited(post: Post) -> None:
    channel = await post.channel()
    other = await foreign(post)
    async with post.database.write() as connection:
        for _ in range(MAX_CONCURRENT_TESTS):
            await store.insert_single(connection, channel, MESSAGE, post.clock())
        await store.insert_single(connection, other, MESSAGE, post.clock())
        with pytest.raises(RateLimited) as refused:
            await store.insert_single(connection, channel, MESSAGE, post.clock())
    assert refused.value.retry_after == TEST_RETRY_AFTER_S


async def test_organizations_take_turns_and_have_a_limit(post: Post) -> None:
    for _ in range(5):
        await post.channel()
    await queued(post)
    other, places = await foreign(post), ConcurrencyLimits(organization=3)
    post.clock.pass_by(60)  # it comes much later, and is not last
    async with post.database.write() as connection:
        await store.insert(connection, [other] * 2, MESSAGE, post.clock() - WORKER_DELAY)
    claimed = await post.claim(limit=4)
    assert [one.org_id == other.org_id for one in claimed] == [False, True, False, True]
    assert [one.org_id for one in await post.claim(places=places)] == [post.tenant.organization.id]
    assert await post.claim(places=places) == []


async def test_immediate_sending_respects_the_concurrency_limits(post: Post) -> None:
    well, failing = await post.channel(), await post.channel()
    async with post.database.write() as connection:
        where = notification_channels.c.id == failing.id
        await connection.execute(notification_channels.update().where(where).values(failing_since=post.clock()))
        ids = await store.insert(connection, [well] * 4 + [failing] * 4, MESSAGE, post.clock())
        places = ConcurrencyLimits(channel=2, organization=3)
        claimed = await claim_by_id(connection, ids, post.clock(), concurrency=places)
        assert sorted(one.channel_id for one in claimed) == sorted([well.id, well.id, failing.id])
        assert await claim_by_id(connection, ids, post.clock(), concurrency=places) == []


async def test_an_outcome_cancels_announcements_not_sent_yet(post: Post) -> None:
    """A pager that was away when somebody was asked is not to open an incident after the answer."""
    await post.channel()
    asked = await queued(post, until_s=3_600)
    (claimed,) = await post.claim()
    await post.settle(claimed, FAILED)
    ended = await queued(post, ENDED)
    found = await by_id(post)
    assert (found[asked].state, found[asked].detail, found[ended].state) == (State.CANCELLED, OBSOLETE, State.READY)
    post.clock.pass_by(RETRY_DELAYS_S[0])
    assert [one.id for one in await post.claim()] == [ended]


async def test_an_outcome_waits_for_announcements_in_flight(post: Post) -> None:
    await post.channel()
    other = await post.channel()
    for subject, outcome in (("apr_1", FAILED), ("apr_2", OK), ("apr_3", None)):
        await queued(post, structs.replace(MESSAGE, subject=subject), until_s=3_600)
        under_way = {one.channel_id: one for one in await post.claim()}
        await post.settle(under_way.pop(other.id), OK)
        await queued(post, structs.replace(ENDED, subject=subject))
        (told,) = await post.claim()
        assert told.channel_id == other.id
        await post.settle(told, OK)
        (asked,) = under_way.values()
        if outcome is None:
            await reaped(post)
        else:
            await post.settle(asked, outcome)
        assert (await by_id(post))[asked.id].state == (State.DONE if outcome is OK else State.CANCELLED)
        (told,) = await post.claim()
        assert (told.channel_id, told.message.resolved) == (asked.channel_id, True)
        await post.settle(told, OK)


async def test_immediate_sending_waits_for_deliveries_in_flight(post: Post) -> None:
    channel = await post.channel()
    await queued(post, until_s=3_600)
    await post.claim()
    (ended,) = await post.queue(ChannelIds([channel.id]), ENDED)
    async with post.database.write() as connection:
        ids = [str(ended.delivery_id)]
        assert await claim_by_id(connection, ids, post.clock(), concurrency=ConcurrencyLimits()) == []


async def test_expired_messages_are_not_sent(post: Post) -> None:
    await post.channel()
    asked = await queued(post, until_s=10)
    post.clock.pass_by(9.999)
    (claimed,) = await post.claim()
    await post.settle(claimed, FAILED)
    post.clock.pass_by(RETRY_DELAYS_S[0])
    assert await post.claim() == []
    assert ((await by_id(post))[asked].state, (await post.one()).detail) == (State.CANCELLED, OBSOLETE)
    await queued(post, until_s=10)
    (claimed,) = await post.claim()
    post.clock.pass_by(10)
    assert await post.settle(claimed, FAILED) == WrittenResult(State.CANCELLED), "an attempt that fails is the last"


async def test_obsolete_messages_are_not_redelivered(post: Post) -> None:
    channel = await post.channel()
    await queued(post, until_s=3_600)
    (claimed,) = await post.claim()
    await post.settle(claimed, AttemptResult(False, "Never.", permanent=True))
    async with post.database.write() as connection:
        await api.require_redeliverable(connection, await post.one())
        nobody = ChannelIds(["chn_" + "0" * 26])
        await enqueue(connection, channel.org_id, nobody, ENDED)  # and yet it is over
    async with post.database.write() as connection:
        with pytest.raises(Conflict, match="is obsolete"):
            await api.require_redeliverable(connection, await post.one())


async def test_other_subjects_and_organizations_are_not_affected(post: Post) -> None:
    await post.channel()
    await queued(post, Message(type=MESSAGE.type, subject="apr_2", title="?"), until_s=3_600)
    other = await foreign(post)
    async with post.database.write() as connection:
        await store.insert(connection, [other], MESSAGE, post.clock() - WORKER_DELAY)
        await store.resolve_subject(connection, post.tenant.organization.id, MESSAGE.subject, post.clock())
    assert len(await post.claim()) == 2


PLANS = (
    ("SELECT id FROM deliveries WHERE org_id = 'x' AND state = 'DEAD' ORDER BY id DESC", "org_id_state_id"),
    ("SELECT id FROM deliveries WHERE org_id = 'x' AND channel_id = 'y' ORDER BY id DESC", "channel_id_id"),
    ("SELECT id FROM deliveries WHERE org_id = 'x' ORDER BY id DESC", "org_id_id"),
    ("UPDATE deliveries SET until = '' WHERE org_id = 'x' AND subject = 'y'", "org_id_subject_channel_id"),
    ("DELETE FROM delivery_messages AS m WHERE NOT EXISTS (SELECT 1 FROM deliveries WHERE message_id = m.id)",
     "message_id"),
    ("DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE ended_at < 'x' LIMIT 1000)", "ended_at"),
)  # fmt: skip


def test_queries_of_deliveries_use_indexes(migrated_file: Path) -> None:
    """SQLite's plans. (PostgreSQL has the same indexes.) Neither who counts and lists channels that are there, nor who
    looks for those that may go, reads all that were deleted.
    """
    with sa.create_engine(f"sqlite:///{migrated_file}").connect() as connection:

        def planned(sql: str) -> list[str]:
            return [str(row[3]) for row in connection.execute(sa.text(f"EXPLAIN QUERY PLAN {sql}"))]

        for sql, index in PLANS:
            plan = planned(sql)
            assert any(f"INDEX ix_deliveries_{index} " in step for step in plan), plan
            assert not any("TEMP B-TREE" in step for step in plan), plan
        live = planned("SELECT count(*) FROM notification_channels WHERE org_id = 'x' AND deleted_at IS NULL")
        assert "ix_notification_channels_org_id_project_id_id" in live[0]
        named = "EXISTS (SELECT 1 FROM deliveries WHERE deliveries.channel_id = notification_channels.id)"
        gone = planned(f"SELECT id FROM notification_channels WHERE deleted_at IS NOT NULL AND NOT {named} LIMIT 1000")
        assert "ix_notification_channels_deleted_at" in gone[0]
        assert any("ix_deliveries_channel_id_id" in step for step in gone), gone


async def foreign(post: Post) -> Channel:
    """A channel of another organization."""
    tenant = await new_tenant(post.database, "globex")
    row = {"id": "chn_" + "z" * 26, "org_id": tenant.organization.id, "name": "x", "kind": "webhook", "enabled": True}
    row |= {"config": b"", "created_at": post.clock(), "updated_at": post.clock()}
    async with post.database.write() as connection:
        await connection.execute(notification_channels.insert().values(row))
        (found,) = await channels.resolve_targets(
            connection, tenant.organization.id, channel_ids=[str(row["id"])], project_id=None
        )
    return found
