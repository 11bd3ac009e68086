"""Who is in a group, and what follows from it: the roles of those who came and went."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import to_milliseconds
from control.audit.record import record
from control.identity.directory import group_store, user_store
from control.identity.directory.group_store import ProvisionedGroup
from control.identity.scim import roles
from control.identity.scim.errors import Refused
from control.identity.scim.members import MAX_MEMBERS, MemberChange, require_members
from control.identity.scim.provisioning import DirectoryCall

MAX_GROUPS_OF_USER: Final = 2_000
AUDITED_AT_ONCE: Final = 500  # members in one event of the audit log


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """The group as it is stored now. `access_changed`: a role has changed, of which the caller notifies the guards."""

    group: ProvisionedGroup
    access_changed: bool


async def apply(
    connection: AsyncConnection,
    call: DirectoryCall,
    group: ProvisionedGroup,
    change: MemberChange,
    *,
    renamed: bool = False,
) -> AppliedChange:
    """Change the members of a group, and apply the roles that follow: to who was added or removed, or to all members if
    the group was `renamed`, which has increased its version already. Adding a member who is in the group, and removing
    one who is not, changes nothing. Raises InvalidValue for an unknown user, Refused for a limit.
    """
    added, removed = await _difference(connection, group, change)
    require_members(added, await user_store.find_existing(connection, call.org_id, added))
    affected = added | removed
    now = to_milliseconds(call.now)
    await group_store.remove_members(connection, group.id, removed)
    await group_store.add_members(connection, group, added)
    if added:
        await _require_bounds(connection, group, added)
    if affected and not renamed:
        await group_store.touch(connection, [group.id], now)
    for action, ids in (("add", added), ("remove", removed)):
        await _record_members(connection, call, action, group, ids)
    if renamed:
        affected |= await group_store.list_member_ids(connection, group.id)
    await user_store.touch(connection, affected, now)
    changed = bool(affected) and await roles.apply_roles(connection, call.actor, affected, call.request_id)
    stored = await group_store.find(connection, call.org_id, group.id)
    return AppliedChange(stored or group, changed)


async def record_group(connection: AsyncConnection, call: DirectoryCall, action: str, group: ProvisionedGroup) -> None:
    """Record the creation, change or deletion of a group in the audit log."""
    data = {"displayName": group.display_name, "externalId": group.external_id or ""}
    await record(connection, call.actor, action, group.id, data, call.request_id)


async def _difference(
    connection: AsyncConnection, group: ProvisionedGroup, change: MemberChange
) -> tuple[set[str], set[str]]:
    """Who is to be added and who is to be removed."""
    if change.replaced is None:
        known = await group_store.find_members(connection, group.id, change.added | change.removed)
        return change.added - known, change.removed & known
    known = await group_store.list_member_ids(connection, group.id)
    wanted = (change.replaced | change.added) - change.removed
    return wanted - known, known - wanted


async def _require_bounds(connection: AsyncConnection, group: ProvisionedGroup, added: Collection[str]) -> None:
    """Raises Refused."""
    if (await group_store.count_members(connection, [group.id]))[group.id] > MAX_MEMBERS:
        raise Refused(f"A group can have at most {MAX_MEMBERS} members.")
    if max((await user_store.count_groups_of(connection, sorted(added))).values()) > MAX_GROUPS_OF_USER:
        raise Refused(f"A user can be in at most {MAX_GROUPS_OF_USER} groups.")


async def _record_members(
    connection: AsyncConnection, call: DirectoryCall, action: str, group: ProvisionedGroup, ids: Collection[str]
) -> None:
    ordered = sorted(ids)
    for start in range(0, len(ordered), AUDITED_AT_ONCE):
        data = {"members": ordered[start : start + AUDITED_AT_ONCE]}
        await record(connection, call.actor, f"scim.group.members.{action}", group.id, data, call.request_id)
