"""Changes of a group's members: read from the operations of a PATCH, and applied together with the roles of members who
were added or removed.

A directory adds one person to a group of fifty thousand with a request of a few lines. `split` reads such operations
without loading the existing members. If `split` does not know a path, such as `members[display co "x"]`, the library
applies the operations to the whole group.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import to_milliseconds
from control.audit.record import record
from control.identity.directory import group_store, user_store
from control.identity.directory.group_store import ProvisionedGroup
from control.identity.scim import options
from control.identity.scim.messages import InvalidValue, Refused, ScimError
from control.identity.scim.protocol.library import Group
from control.identity.scim.protocol.provisioning import DirectoryCall

MAX_MEMBERS: Final = 100_000  # per group

_MEMBERS: Final = "members"
_PREFIX: Final = f"{Group.__schema__}:".lower()
_ONE_MEMBER: Final = re.compile(r'members\[\s*value\s+eq\s+"([^"\\]*)"\s*\]', re.IGNORECASE)
_USER_ID: Final = re.compile(r"scu_[0-9a-z]{26}")


@dataclass(slots=True)
class MemberChange:
    """A change of members: `replaced` replaces all members (None: no replacement), then some are added and removed."""

    replaced: set[str] | None = None
    added: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)

    def replace(self, ids: set[str]) -> None:
        """Replace all members."""
        self.replaced, self.added, self.removed = ids, set(), set()

    def add(self, ids: set[str]) -> None:
        """Add members."""
        self.added |= ids
        self.removed -= ids

    def remove(self, ids: set[str]) -> None:
        """Remove members."""
        self.removed |= ids
        self.added -= ids


@dataclass(frozen=True, slots=True)
class SplitPatch:
    """A PATCH of a group: the change of its members, and the operations on other attributes."""

    members: MemberChange
    others: list[dict[str, Any]]


def split(operations: Sequence[dict[str, Any]]) -> SplitPatch | None:
    """Split the operations. None if they must be applied to the existing members. Raises InvalidValue."""
    change, others = MemberChange(), []
    for each in operations:
        verb, path = str(each.get("op", "")).lower(), _path(each)
        value = each.get("value")
        if path == _MEMBERS:
            if not _add_operation(change, verb, value):
                return None
        elif path is not None and path.startswith(_MEMBERS):
            match = _ONE_MEMBER.fullmatch(str(each["path"]).strip()[-len(path) :])
            if match is None or verb != "remove":
                return None
            change.remove({match[1]} if _is_user_id(match[1]) else set())
        elif path is None and isinstance(value, dict) and verb != "remove":  # remove needs a path
            named = [name for name in value if _stripped(name.strip()) == _MEMBERS]  # names are paths here
            for name in named:
                if not _add_operation(change, verb, value[name]):
                    return None
            rest = {name: item for name, item in value.items() if name not in named}
            if rest or not named:
                others.append({**each, "value": rest})
        else:
            others.append(each)
    return SplitPatch(change, others)


def member_ids(value: Any) -> set[str]:
    """The ids in a value of `members`. Raises InvalidValue for a malformed id, and for groups in groups."""
    entries = value if isinstance(value, list) else [value]
    return {_member_id(each) for each in entries}


def require_members(wanted: Iterable[str], known: set[str]) -> None:
    """Raises InvalidValue for a user that the directory does not have."""
    for one in wanted:
        if one not in known:
            raise InvalidValue(f"There is no user {one}.")


def _add_operation(change: MemberChange, verb: str, value: Any) -> bool:
    """Add an operation to the change. False for an operation that this module does not know."""
    if verb == "remove":
        if value is None:  # equal to an empty list
            change.replace(set())
        else:
            change.remove(member_ids(value))
    elif verb == "add":
        change.add(member_ids(value) if value is not None else set())
    elif verb == "replace":
        change.replace(set() if value in (None, []) else member_ids(value))
    else:
        return False
    return True


def _member_id(entry: Any) -> str:
    if isinstance(entry, Mapping):
        named = {str(name).lower(): value for name, value in entry.items()}
        if str(named.get("type") or "User").lower() != "user":
            raise InvalidValue("Only users can be members of a group.")
        entry = named.get("value")
    if not isinstance(entry, str):
        raise InvalidValue("A member needs a value: the id of a user.")
    if not _is_user_id(entry):
        raise InvalidValue(f"There is no user {entry[:100]}.")
    return entry


def _is_user_id(text: str) -> bool:
    """Whether the text has the form of a user's id. Other texts may hold characters that no database column accepts."""
    return _USER_ID.fullmatch(text) is not None


def _path(operation: Mapping[str, Any]) -> str | None:
    """The path in lower case, without the schema, None without a path. Raises ScimError."""
    path = operation.get("path")
    if path is None or path == "":
        return None
    if not isinstance(path, str):
        raise ScimError("path must be a string.", "invalidPath")
    return _stripped(path.strip())


def _stripped(name: str) -> str:
    return name.lower().removeprefix(_PREFIX)


MAX_GROUPS_OF_USER: Final = 2_000
AUDITED_AT_ONCE: Final = 500  # members in one event of the audit log


async def change_members(
    connection: AsyncConnection,
    call: DirectoryCall,
    group: ProvisionedGroup,
    change: MemberChange,
    *,
    renamed: bool = False,
) -> tuple[ProvisionedGroup, bool]:
    """Change the members of a group, and apply the resulting roles to the members who were added or removed, or to all
    members if the group was `renamed` (its version is then increased already). Adding a member who is in the group, and
    removing one who is not, changes nothing. Returns the stored group, and whether a role has changed. If so, the
    caller notifies the guards. Raises InvalidValue for an unknown user, Refused for a limit.
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
    changed = bool(affected) and await options.update_roles(connection, call.actor, affected, call.request_id)
    return await group_store.find(connection, call.org_id, group.id) or group, changed


async def record_group(connection: AsyncConnection, call: DirectoryCall, action: str, group: ProvisionedGroup) -> None:
    """Record the creation, change or deletion of a group in the audit log."""
    data = {"displayName": group.display_name, "externalId": group.external_id or ""}
    await record(connection, call.actor, action, group.id, data, call.request_id)


async def _difference(
    connection: AsyncConnection, group: ProvisionedGroup, change: MemberChange
) -> tuple[set[str], set[str]]:
    """The ids of users to add and of users to remove."""
    if change.replaced is None:
        known = await group_store.find_members(connection, group.id, change.added | change.removed)
        return change.added - known, change.removed & known
    known = await group_store.list_member_ids(connection, group.id)
    wanted = (change.replaced | change.added) - change.removed
    return wanted - known, known - wanted


async def _require_bounds(connection: AsyncConnection, group: ProvisionedGroup, added: Collection[str]) -> None:
    """Raises Refused if the group or a user would exceed a limit."""
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
