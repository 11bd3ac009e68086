"""Who has something sent through a channel of the whole organization, how often, and who reads what it told."""

import pytest

from control.identity.organizations import organization_store
from control.notify.deliveries.outbox import ChannelIds
from control.notify.deliveries.sender import TEST_SLOTS
from control.notify.deliveries.store import MAX_CONCURRENT_TESTS
from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.notify.channels.conftest import CHANNELS
from tests.control.notify.channels.test_deliveries import DELIVERIES, MESSAGE, channel, queue, until
from tests.control.receiver import SECRET, Receiver
from tests.control.test_rights_meanwhile import sent_slowly

pytestmark = pytest.mark.background

READER = frozenset({Scope.CHANNELS_READ})


async def told(control: Control, channel_id: str) -> str:
    """A delivery that has ended."""
    (delivery_id,) = await queue(control, ChannelIds([channel_id]))
    await until(control, delivery_id, "DONE")
    return delivery_id


async def test_only_administrators_test_and_redeliver_organization_channels(
    control: Control, receiver: Receiver
) -> None:
    shared, own = await channel(control, receiver, "org"), await channel(control, receiver)
    paths = [path for id_ in (shared, own) for path in (
        f"{CHANNELS}/{id_}/test", f"{DELIVERIES}/{await told(control, id_)}/redeliver",
    )]  # fmt: skip
    before = len(receiver.received)
    tokens = {
        role: (await new_member_token(control.checks.database, control.acme, role))[1]
        for role in (Role.MEMBER, Role.ADMIN)
    }
    for role, expected in ((Role.MEMBER, [403, 403, 200, 202]), (Role.ADMIN, [200, 202, 200, 409])):
        statuses = []
        for path in paths:
            status, answer, _ = await control.call("POST", path, token=tokens[role])
            statuses.append(status)
            if status == 202:
                await until(control, answer["id"], "DONE")
        assert statuses[:3] == expected[:3]
    assert len(receiver.received) == before + 6


async def test_a_former_administrator_cannot_change_organization_channels(control: Control, receiver: Receiver) -> None:
    path = f"{CHANNELS}/{await channel(control, receiver, 'org')}"
    holder, token = await new_member_token(control.checks.database, control.acme, Role.ADMIN)

    async def demote() -> None:  # by another process, of which this one has not heard
        async with control.checks.database.write() as connection:
            await organization_store.set_role(connection, control.acme.organization.id, holder, Role.MEMBER)

    assert await sent_slowly(control, token, ("PATCH", path, {"name": "Mine"}), demote) == 403
    assert (await control.call("GET", CHANNELS))[1]["data"][0]["name"] != "Mine"
    for change in (("POST", f"{path}/test"), ("DELETE", path)):
        assert (await control.call(*change, token=token))[0] == 403


async def test_tests_and_redeliveries_of_a_channel_share_a_rate_limit(control: Control, receiver: Receiver) -> None:
    tested, other = [await channel(control, receiver, "org") for _ in range(2)]
    repeated = f"{DELIVERIES}/{await told(control, tested)}/redeliver"
    tokens = [(await new_member_token(control.checks.database, control.acme, Role.ADMIN))[1] for _ in range(2)]
    statuses = [200]
    while statuses[-1] == 200:
        path, token = f"{CHANNELS}/{tested}/test", tokens[len(statuses) % 2]
        statuses.append((await control.call("POST", path, token=token))[0])
    assert statuses[-1] == 429
    assert len(statuses) in range(21, 39)  # neither of the two has come to an end of his own
    status, answer, headers = await control.call("POST", repeated, token=tokens[0])
    assert (status, answer["error"]["code"]) == (429, "rate_limited")
    assert int(headers["Retry-After"]) >= 1
    assert headers["x-ratelimit-remaining"] == "0"
    status, _, headers = await control.call("POST", f"{CHANNELS}/{other}/test", token=tokens[0])
    assert status == 200
    assert int(headers["x-ratelimit-remaining"]) > 0  # of the bucket of who asks


async def test_approval_messages_are_shown_only_with_the_read_scope(control: Control, receiver: Receiver) -> None:
    """A token for channels alone sees that something was told, and not what."""
    channel_id = await channel(control, receiver)
    delivery_id = await told(control, channel_id)
    _, tested, _ = await control.call("POST", f"{CHANNELS}/{channel_id}/test")
    database = control.checks.database
    _, blind = await new_member_token(database, control.acme, Role.ADMIN, READER)
    _, seeing = await new_member_token(database, control.acme, Role.ADMIN, READER | {Scope.APPROVALS_READ})
    for token, expected in ((blind, (None, None)), (seeing, (MESSAGE.subject, MESSAGE.title))):
        _, one, _ = await control.call("GET", f"{DELIVERIES}/{delivery_id}", token=token)
        assert (one["subject"], one["title"]) == expected
        _, page, _ = await control.call("GET", DELIVERIES, token=token)
        shown = {one["id"]: (one["subject"], one["title"]) for one in page["data"]}
        assert shown[delivery_id] == expected
        assert shown[tested["deliveryId"]] == (channel_id, "Test message for the channel On call")


async def test_approval_messages_are_redelivered_only_with_the_read_scope(control: Control, receiver: Receiver) -> None:
    """A token for channels alone leads the channel to a receiver of its own, and is sent nothing of before."""
    channel_id = await channel(control, receiver)
    path = f"{DELIVERIES}/{await told(control, channel_id)}/redeliver"
    scopes = READER | {Scope.CHANNELS_WRITE}
    _, blind = await new_member_token(control.checks.database, control.acme, Role.ADMIN, scopes)
    more = scopes | {Scope.APPROVALS_READ}
    _, seeing = await new_member_token(control.checks.database, control.acme, Role.ADMIN, more)
    change = {"config": {"url": receiver.url("/mine"), "secret": SECRET}}
    assert (await control.call("PATCH", f"{CHANNELS}/{channel_id}", change, token=blind))[0] == 200
    status, answer, _ = await control.call("POST", path, token=blind)
    assert (status, answer["error"]["code"]) == (403, "forbidden")
    assert "approvals:read" in answer["error"]["message"]
    assert (await control.call("POST", path, token=seeing))[0] == 202
    assert (await receiver.until(2))[-1].path == "/mine"


def test_one_organization_cannot_use_all_test_slots() -> None:
    assert MAX_CONCURRENT_TESTS < TEST_SLOTS
