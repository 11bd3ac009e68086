"""PATCH requests (RFC 7644 3.5.2): what is read of them before the library applies them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from control.scim.errors import ScimError

MAX_OPERATIONS: Final = 100  # of a request
MAX_PATH_LENGTH: Final = 4_096  # characters
MAX_VISITS: Final = 20_000  # of values, by all operations of a request: the library takes 50 us for one
PATCH_SCHEMA: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"

_CONNECTIVE: Final = re.compile(r"\b(?:and|or)\b", re.IGNORECASE)


def operations_of(body: Mapping[str, Any], read_only: Sequence[str]) -> list[dict[str, Any]]:
    """The operations, without what a value without a path names and no client decides: Okta sends the `id` along.
    Raises ScimError.
    """
    found = next((value for name, value in body.items() if name.lower() == "operations"), None)
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise ScimError("Operations must be a list of objects.", "invalidSyntax")
    if len(found) > MAX_OPERATIONS:
        raise ScimError(f"A request can have at most {MAX_OPERATIONS} operations.", "tooMany")
    operations = [_without(each, read_only) for each in found]
    if any(len(target) > MAX_PATH_LENGTH for each in operations for target in _targets(each)):
        raise ScimError(f"A path can have at most {MAX_PATH_LENGTH} characters.", "invalidPath")
    return operations


def require_bounded(operations: Sequence[Mapping[str, Any]], values: int) -> None:
    """Raises ScimError (`tooMany`) for operations that would take too long on a resource whose lists have `values`:
    each comparison of each filter visits all of them, and so does each list that is written.
    """
    visits = 0
    for each in operations:
        written = _count_values(each.get("value"))
        values += written
        for target in _targets(each):
            visits += values * (1 + len(_CONNECTIVE.findall(target))) if written or "[" in target else 1
    if visits > MAX_VISITS:
        raise ScimError("The operations compare too many values; send several requests.", "tooMany")


def _targets(operation: Mapping[str, Any]) -> list[str]:
    """The path; without one the names in the value, which may be paths as well."""
    path, value = operation.get("path"), operation.get("value")
    if path:
        return [str(path)]
    return list(value) if isinstance(value, dict) else []


def _count_values(value: Any) -> int:
    if isinstance(value, dict):
        return sum(len(each) for each in value.values() if isinstance(each, list))
    return len(value) if isinstance(value, list) else 0


def _without(operation: Mapping[str, Any], read_only: Sequence[str]) -> dict[str, Any]:
    kept = {name.lower(): value for name, value in operation.items()}
    value = kept.get("value")
    if not kept.get("path") and isinstance(value, dict):
        kept.pop("path", None)
        kept["value"] = {name: each for name, each in value.items() if name.lower() not in read_only}
    return kept
