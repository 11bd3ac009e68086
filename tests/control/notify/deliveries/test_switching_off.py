"""Channels that are switched off, by people or by what their receivers do, and what becomes of their deliveries."""

import pytest
import sqlalchemy as sa

from control.notify.channels import store as channels
from control.notify.channels.config import WebhookConfig
from control.notify.channels.store import Channel
from control.notify.channels.tables import State, notification_channels
from control.notify.deliveries import store
from control.notify.deliveries.leases import claim_by_id
from control.notify.deliveries.outbox import ChannelIds
from control.notify.deliveries.rules import AttemptResult
from tests.control.notify.deliveries.conftest import ALL, FAILED, MESSAGE, OK, Post
from tests.control.receiver import SECRET, Receiver


async def attempted(post: Post, channel: Channel, days: float, outcome: AttemptResult) -> None:
    """A delivery, so much later."""
    post.clock.pass_by(days * 86_400)
    async with post.database.write() as connection:
        (id_,) = await store.insert(connection, [channel], MESSAGE, post.clock())
        (claimed,) = await claim_by_id(connection, [id_], post.clock(), concurrency=ALL)
    await post.sender._result_writer.record(claimed, outcome)


async def test_disabling_a_channel_cancels_its_waiting_deliveries(post: Post) -> None:
    for how in ("disabled", "deleted"):
        channel = await post.channel()
        first = await post.queue()
        post.past_head_start()
        (claimed,) = await post.claim()
        waiting = str((await post.queue())[0].delivery_id)
        async with post.database.write() as connection:
            if how == "disabled":
                await channels.change(connection, post.sealer, channel, enabled=False)
            else:
                await channels.delete(connection, channel)
        found = {one.id: one for one in await post.listed()}
        assert (found[waiting].state, found[waiting].detail) == (State.CANCELLED, f"The channel was {how}.")
        cancelled = store.WrittenResult(State.CANCELLED)
        assert (claimed.id, await post.settle(claimed, FAILED)) == (first[0].delivery_id, cancelled)  # no further one


async def test_a_deleted_channel_keeps_no_config_and_stays_as_long_as_its_deliveries(post: Post) -> None:
    channel, other = await post.channel(), await post.channel()
    await post.queue(ChannelIds([other.id]))
    async with post.database.write() as connection:
        for one in (channel, other):
            await channels.delete(connection, one)
        row = (await connection.execute(sa.select(notification_channels))).one()
    assert (row.id, row.config, row.enabled) == (other.id, None, False)


@pytest.mark.both_stores
async def test_another_config_is_another_receiver(post: Post) -> None:
    channel = await post.channel()
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


OURS, THEIRS = AttemptResult(False, "Ours.", service_fault=True), AttemptResult(False, "Theirs.")
# Days after the one before, what became of the attempt, and whether the channel is enabled then.
STORIES: list[list[tuple[float, AttemptResult, bool]]] = [
    # Five days of failures without a success
    [(0, FAILED, True), (2, FAILED, True), (2, FAILED, True), (0.9, OK, True),
     (1, FAILED, True), (2, FAILED, True), (2, FAILED, True), (0.9, FAILED, True), (0.1, FAILED, False)],
    # Whose fault the first one was decides.
    [(0, OURS, True), (1, FAILED, True), (2, FAILED, True), (2, FAILED, True), (0.9, OURS, True)],
    [(0, THEIRS, True), (1, FAILED, True), (2, FAILED, True), (2, FAILED, False), (0.9, THEIRS, False)],
    # A long gap
    [(0, FAILED, True), (6, FAILED, True), (6, FAILED, True), (2.1, FAILED, True), (2, FAILED, True),
     (2, FAILED, True), (1, FAILED, False)],
]  # fmt: skip


@pytest.mark.both_stores
async def test_five_days_of_failures_without_a_success_disable_a_channel(post: Post) -> None:
    for story in STORIES:
        channel = await post.channel()
        for days, outcome, enabled in story:
            await attempted(post, channel, days, outcome)
            assert (await post.found(channel)).enabled is enabled, (story, days)
        reason = sa.select(notification_channels.c.off_reason).where(notification_channels.c.id == channel.id)
        async with post.database.read() as connection:
            assert await connection.scalar(reason) == (None if enabled else "failing")


async def record_test(post: Post, channel: Channel, outcome: AttemptResult) -> None:
    async with post.database.write() as connection:
        claimed = await store.insert_single(connection, channel, MESSAGE, post.clock())
    await post.sender._result_writer.record(claimed, outcome)


async def test_a_successful_test_resets_the_failing_period(post: Post) -> None:
    """One that does not says nothing: there may be nothing to tell but tests."""
    for outcome in (OK, FAILED):
        channel = await post.channel()
        for days in (0, 2, 2):
            await attempted(post, channel, days, FAILED)
        await record_test(post, channel, outcome)
        await attempted(post, channel, 1, FAILED)
        assert (await post.found(channel)).enabled is outcome.ok
    channel = await post.channel()
    for _ in range(6):
        post.clock.pass_by(86_400)
        await record_test(post, channel, FAILED)
    await attempted(post, channel, 1, FAILED)
    assert (await post.found(channel)).enabled


@pytest.mark.both_stores
async def test_a_410_disables_the_channel(post: Post, receiver: Receiver) -> None:
    receiver.says(410)
    channel = await post.channel(receiver.url())
    await post.sender.send_now(await post.queue())
    assert (await post.found(channel)).enabled is False
    assert (await post.one()).state == State.DEAD
    assert await post.queue() == []
    async with post.database.read() as connection:
        events = (await connection.execute(sa.text("SELECT action, data FROM audit_events"))).all()
    assert [(event.action, "gone" in event.data) for event in events] == [("channel.disabled", True)]


@pytest.mark.both_stores
async def test_enabling_a_channel_resets_its_failing_period(post: Post) -> None:
    channel = await post.channel()
    async with post.database.write() as connection:
        await connection.execute(
            notification_channels.update().values(failing_since=post.clock(), off_reason="failing", enabled=False)
        )
        await channels.change(connection, post.sealer, channel, enabled=True)
        row = (await connection.execute(sa.select(notification_channels))).one()
    assert (row.enabled, row.off_reason, row.failing_since) == (True, None, None)


@pytest.mark.both_stores
async def test_a_config_that_cannot_be_decrypted_is_retried(post: Post, receiver: Receiver) -> None:
    """An operator can bring the key back."""
    first, second = await post.channel(receiver.url()), await post.channel(receiver.url())
    async with post.database.write() as connection:  # moved from row to row, as only an attacker would
        stolen = await connection.scalar(
            sa.select(notification_channels.c.config).where(notification_channels.c.id == second.id)
        )
        await connection.execute(
            notification_channels.update().where(notification_channels.c.id == first.id).values(config=stolen)
        )
    await post.sender.send_now(await post.queue(ChannelIds([first.id])))
    one = await post.one()
    assert (one.state, one.detail) == (State.READY, "The config of the channel cannot be decrypted.")
    assert receiver.received == []
