"""PATCH requests (RFC 7644 3.5.2): what is read of them before the library applies them, and how it does.

For each operation the library reads all of the resource, which takes about 3 us for each byte of it. So the work of a
request is bounded, and is left to a thread where the event loop would wait for it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from control.scim.errors import ScimError

T = TypeVar("T")

MAX_OPERATIONS: Final = 100  # of a request
MAX_WORK: Final = 500_000  # bytes that the operations of a request read together: a second or two
_THREAD_WORK: Final = 10_000
PATCH_SCHEMA: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


def operations_of(body: Mapping[str, Any], read_only: Sequence[str]) -> list[dict[str, Any]]:
    """The operations, without what a value without a path names and no client decides: Okta sends the `id` along.
    Raises ScimError.
    """
    found = next((value for name, value in body.items() if name.lower() == "operations"), None)
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise ScimError("Operations must be a list of objects.", "invalidSyntax")
    if len(found) > MAX_OPERATIONS:
        raise ScimError(f"A request can have at most {MAX_OPERATIONS} operations.", "tooMany")
    return [_without(each, read_only) for each in found]


def _without(operation: Mapping[str, Any], read_only: Sequence[str]) -> dict[str, Any]:
    kept = {name.lower(): value for name, value in operation.items()}
    value = kept.get("value")
    if not kept.get("path") and isinstance(value, dict):
        kept.pop("path", None)
        kept["value"] = {name: each for name, each in value.items() if name.lower() not in read_only}
    return kept


def require_bounded_work(operations: Sequence[Mapping[str, Any]], size: int) -> int:
    """The bytes that the operations read of a resource of `size` bytes. Raises ScimError: `tooMany`."""
    size += sum(len(msgspec.json.encode(value)) for value in map(_added_by, operations))
    work = len(operations) * size
    if work > MAX_WORK:
        raise ScimError("The resource is too large for so many operations in one request.", "tooMany")
    return work


async def apply_operations(
    operations: Sequence[Mapping[str, Any]], resource: Mapping[str, Any], apply: Callable[[], T]
) -> T:
    """What `apply` makes of the resource. Raises ScimError: `tooMany`, and what `apply` raises."""
    work = require_bounded_work(operations, len(msgspec.json.encode(resource)))
    return apply() if work < _THREAD_WORK else await asyncio.to_thread(apply)


def _added_by(operation: Mapping[str, Any]) -> Any:
    """What may make the resource larger."""
    value = operation.get("value")
    return value if isinstance(value, list | dict) else None
