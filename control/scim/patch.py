"""PATCH requests (RFC 7644 3.5.2): what is read of them before the library applies them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from control.scim.errors import ScimError

MAX_OPERATIONS: Final = 100  # of a request
PATCH_SCHEMA: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


def operations_of(body: Mapping[str, Any], read_only: Sequence[str]) -> list[dict[str, Any]]:
    """The operations of a PATCH body. Read-only attributes in a value without a `path` are left out: Okta sends `id`.
    Raises ScimError: `invalidSyntax`, `tooMany`.
    """
    found = next((value for name, value in body.items() if name.lower() == "operations"), None)
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise ScimError("Operations must be an array of one or more objects.", "invalidSyntax")
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
