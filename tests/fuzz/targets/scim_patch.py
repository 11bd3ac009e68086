"""PATCH requests as a directory may send them: bytes to operations, applied to a stored user or a stored group.

The first byte chooses which. Whatever comes in is refused, or leaves a resource that can be stored. The members of a
group, where a request is taken apart, must be those that the library arrives at when it applies all of it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from scim2_models import Context, PatchOp

from control.identity.directory.group_store import ProvisionedGroup
from control.identity.scim.messages import PATCH_SCHEMA, ScimError, decode_object
from control.identity.scim.protocol.groups import READ_ONLY as READ_ONLY_OF_GROUP
from control.identity.scim.protocol.groups import group_to_patch, patched_group
from control.identity.scim.protocol.library import MAX_DETAIL_LENGTH, TOLERANT, ScimUser, translated
from control.identity.scim.protocol.members import MemberChange, split
from control.identity.scim.protocol.patch import is_path, operations_of
from control.identity.scim.protocol.users import READ_ONLY as READ_ONLY_OF_USER
from control.identity.scim.protocol.users import patched_user
from tests.fuzz.targets.scim_mutation import Mutate, changed
from tests.fuzz.targets.scim_users import check_description

MEMBERS: Final = tuple(f"scu_{number:026d}" for number in range(4))
KNOWN: Final = frozenset(MEMBERS[:3])
_NOW: Final = datetime(2026, 11, 20, tzinfo=UTC)
_GROUP: Final = ProvisionedGroup("scg_" + "0" * 26, "org_" + "0" * 26, "Platform", "g-1", 1, _NOW, _NOW)
_DOCUMENT: Final[dict[str, Any]] = {
    "schemas": [
        "urn:ietf:params:scim:schemas:core:2.0:User",
        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User",
    ],
    "userName": "ada@example.com",
    "externalId": "e-1",
    "active": True,
    "name": {"familyName": "Lovelace", "givenName": "Ada"},
    "emails": [{"value": "ada@example.com", "type": "work", "primary": True}, {"value": "a@b.c", "type": "home"}],
    "phoneNumbers": [{"value": "1", "type": "work"}],
    "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"department": "R", "manager": {"value": "x"}},
}


def check(data: bytes) -> None:
    try:
        body = decode_object(data[1:])
        if data[:1] in (b"", b"\0"):
            check_user(body)
        else:
            check_group(body)
    except ScimError as error:
        assert len(error.message) <= MAX_DETAIL_LENGTH


def check_user(body: dict[str, Any]) -> None:
    operations = operations_of(body, READ_ONLY_OF_USER)
    check_keys(operations)
    with translated(), TOLERANT:
        patch = PatchOp[ScimUser].model_validate(
            {"schemas": [PATCH_SCHEMA], "Operations": operations}, scim_ctx=Context.RESOURCE_PATCH_REQUEST
        )
    check_description(patched_user(_DOCUMENT, patch))


def check_keys(operations: Sequence[Mapping[str, Any]]) -> None:
    """Each path is that of an operation: no value without one has a path as a key, which the library drops."""
    assert operations
    for each in operations:
        if not each.get("path") and isinstance(each.get("value"), dict) and str(each.get("op")).lower() != "remove":
            assert not any(is_path(name) for name in each["value"])


def check_group(body: dict[str, Any]) -> None:
    operations = operations_of(body, READ_ONLY_OF_GROUP)
    check_keys(operations)
    parts = split(operations)
    apart = None if parts is None else patched_group(group_to_patch(_GROUP, None), parts.others)
    whole = patched_group(group_to_patch(_GROUP, KNOWN), operations)
    assert whole.members is not None
    assert whole.display_name.strip()
    if parts is not None and apart is not None:
        assert members_after(parts.members) == whole.members, operations
        assert (apart.display_name, apart.external_id) == (whole.display_name, whole.external_id), operations


def members_after(change: MemberChange) -> set[str]:
    return (set(KNOWN if change.replaced is None else change.replaced) | change.added) - change.removed


def mutate(data: bytes, max_size: int, random: Random, mutate: Mutate) -> bytes:
    if random.random() < 0.05:
        data = bytes((random.randrange(2),)) + data[1:]
    return data[:1] + changed(data[1:], max_size - 1, random, mutate)


def examples() -> Iterator[bytes]:
    """Inputs to begin with: what Okta and Entra send, for each kind of resource."""
    one, other = {"value": MEMBERS[0]}, {"value": MEMBERS[3], "type": "User"}
    of_group: tuple[list[dict[str, Any]], ...] = (
        [{"op": "Add", "path": "members", "value": [other]}],
        [{"op": "Remove", "path": "members", "value": [one]}],
        [{"op": "remove", "path": f'members[value eq "{MEMBERS[0]}"]'}],
        [{"op": "remove", "path": f'members[not (value eq "{MEMBERS[0]}")]'}],
        [{"op": "remove", "path": "members"}, {"op": "add", "path": "members", "value": other}],
        [{"op": "replace", "value": {"id": "x", "displayName": "Other", "members": [one, other]}}],
        [{"op": "replace", "path": "members", "value": []}],
        [{"op": "replace", "path": "displayName", "value": "x"}, {"op": "remove", "path": "externalId"}],
        [{"op": "add", "path": "urn:ietf:params:scim:schemas:core:2.0:Group:members", "value": [other]}],
        [{"op": "add", "path": "members", "value": [{"value": "scg_" + "0" * 26, "type": "Group"}]}],
    )
    enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
    of_user: tuple[list[dict[str, Any]], ...] = (
        [{"op": "Replace", "path": "active", "value": "False"}],
        [{"op": "replace", "value": {"active": False, "id": "x"}}],
        [{"op": "replace", "value": {"name.familyName": "L", f"{enterprise}:department": "D"}}],
        [{"op": "add", "path": 'emails[type eq "work"].value', "value": "b@example.com"}],
        [{"op": "Replace", "value": {'emails[type eq "work"].value': "b@example.com", "name.givenName": None}}],
        [{"op": "add", "value": {f"{enterprise}.department": "D", enterprise: {"manager.value": "m"}, "a.b": 1}}],
        [{"op": "replace", "path": 'emails[type eq "other"].value', "value": "c@example.com"}],
        [{"op": "remove", "path": 'emails[type eq "home"]'}, {"op": "add", "path": "title", "value": "x"}],
        [{"op": "add", "path": f"{enterprise}:manager", "value": "scu_1"}],
        [{"op": "replace", "path": "userName", "value": ""}],
        [{"op": "remove", "path": "name"}, {"op": "remove", "path": "phoneNumbers"}],
        [{"op": "add", "value": {"emails": [{"value": "x\u0000", "primary": True}], "roles": [{"value": "r"}]}}],
    )
    for first, requests in ((b"\0", of_user), (b"\1", of_group)):
        for operations in requests:
            yield first + json.dumps({"schemas": [PATCH_SCHEMA], "Operations": operations}).encode()
