"""PATCH requests (RFC 7644 3.5.2): what is read of them before the library applies them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from control.scim.errors import ScimError

MAX_OPERATIONS: Final = 100  # of a request
MAX_PATH_LENGTH: Final = 4_096  # characters
MAX_WORK: Final = 20_000  # steps of applying a request to a resource, each of about 10 us
PATCH_SCHEMA: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"

# What the library takes, in steps: for an operation, for a value in it, and for a value of the resource if
# it has a filter, and for each comparison of that.
_OPERATION_WORK: Final = 10
_VALUE_WORK: Final = 4
_FILTER_WORK: Final = 8
_COMPARISON_WORK: Final = 3
_LOGICAL: Final = re.compile(r"\b(?:and|or)\b", re.IGNORECASE)


def operations_of(body: Mapping[str, Any], read_only: Sequence[str]) -> list[dict[str, Any]]:
    """The operations of a PATCH body. Read-only attributes in a value without a `path` are left out: Okta sends `id`.
    Raises ScimError: `invalidSyntax`, `tooMany`.
    """
    found = next((value for name, value in body.items() if name.lower() == "operations"), None)
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise ScimError("Operations must be an array of one or more objects.", "invalidSyntax")
    if len(found) > MAX_OPERATIONS:
        raise ScimError(f"A request can have at most {MAX_OPERATIONS} operations.", "tooMany")
    operations = [_without(each, read_only) for each in found]
    if any(len(target) > MAX_PATH_LENGTH for each in operations for target in _targets(each)):
        raise ScimError(f"A path can have at most {MAX_PATH_LENGTH} characters.", "invalidPath")
    return operations


def _targets(operation: Mapping[str, Any]) -> list[str]:
    """The path; without one the names in the value, which may be paths as well."""
    path, value = operation.get("path"), operation.get("value")
    if path:
        return [str(path)]
    return list(value) if isinstance(value, dict) else []


def _without(operation: Mapping[str, Any], read_only: Sequence[str]) -> dict[str, Any]:
    kept = {name.lower(): value for name, value in operation.items()}
    value = kept.get("value")
    if not kept.get("path") and isinstance(value, dict):
        kept.pop("path", None)
        kept["value"] = {name: each for name, each in value.items() if name.strip().lower() not in read_only}
    return kept


def require_affordable(operations: Sequence[Mapping[str, Any]], values: int) -> None:
    """Raises ScimError for operations that would occupy the process for long. `values`: in the lists of the resource,
    each of which the library compares with every filter, and with every value to add or to remove.
    """
    work = 0
    for verb, path, value in _steps(operations):
        named = len(value) if isinstance(value, list) else 1
        work += _OPERATION_WORK + named * _VALUE_WORK
        if verb == "remove":
            work += values * _COMPARISON_WORK * named
        else:
            values += named
        if "[" in path:
            work += values * (_FILTER_WORK + _COMPARISON_WORK * (1 + len(_LOGICAL.findall(path))))
        work += values
        if work > MAX_WORK:
            raise ScimError("The operations take too long together; send fewer of them.", "tooMany")


def _steps(operations: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    """Verb, path and value of each operation. Without a path, the value has several, by path."""
    for each in operations:
        verb, path, value = str(each.get("op", "")).lower(), each.get("path"), each.get("value")
        if not path and isinstance(value, Mapping):
            yield from ((verb, name, item) for name, item in value.items())
        else:
            yield verb, str(path or ""), value
