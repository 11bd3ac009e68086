"""PATCH requests (RFC 7644 3.5.2): preparation and checks before the library applies them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from control.identity.scim.messages import ScimError

MAX_OPERATIONS: Final = 100  # per request
MAX_PATH_LENGTH: Final = 4_096  # characters
MAX_WORK: Final = 20_000  # steps of applying a request to a resource, each of about 10 us

# The library's cost in steps: per operation, per value in it, and, for an operation with a filter, per value of the
# resource and comparison of the filter.
_OPERATION_WORK: Final = 10
_VALUE_WORK: Final = 4
_FILTER_WORK: Final = 8
_COMPARISON_WORK: Final = 3
_NAME: Final = re.compile(r"[\w$-]+")
# In lower case. Not taken from the library, which is imported with the first request of a directory.
_SCHEMAS: Final = (
    "urn:ietf:params:scim:schemas:core:2.0:user",
    "urn:ietf:params:scim:schemas:core:2.0:group",
    "urn:ietf:params:scim:schemas:extension:enterprise:2.0:user",
)
_WITHIN_SCHEMAS: Final = tuple(f"{schema}{separator}" for schema in _SCHEMAS for separator in ":.")
_LOGICAL: Final = re.compile(r"\b(?:and|or)\b", re.IGNORECASE)


def operations_of(body: Mapping[str, Any], read_only: Sequence[str]) -> list[dict[str, Any]]:
    """The operations of a PATCH body. Read-only attributes in a value without a `path` are left out, because Okta sends
    `id`. A key of a value that is a path, as Entra sends them, becomes a separate operation with that path.
    Raises ScimError: `invalidSyntax`, `invalidPath`, `tooMany`.
    """
    found = next((value for name, value in body.items() if name.lower() == "operations"), None)
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise ScimError("Operations must be an array of one or more objects.", "invalidSyntax")
    if len(found) > MAX_OPERATIONS:
        raise ScimError(f"A request can have at most {MAX_OPERATIONS} operations.", "tooMany")
    operations = [one for each in found for one in _split(_without(each, read_only))]
    if any(len(target) > MAX_PATH_LENGTH for each in operations for target in _targets(each)):
        raise ScimError(f"A path can have at most {MAX_PATH_LENGTH} characters.", "invalidPath")
    return operations


def _split(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The operation without the keys of its value that are paths, followed by one operation for each of these keys. The
    keys in the object of a schema, which are attributes of the resource, are treated in the same way.
    """
    value, path = operation.get("value"), operation.get("path") or ""
    is_removal = str(operation.get("op")).lower() == "remove"  # remove needs a path
    if is_removal or not isinstance(value, dict) or (path and not _is_schema(path)):
        require_names(value)
        yield operation
        return
    names, paths = dict[str, Any](), []
    for name, item in value.items():
        if is_path(name) or (isinstance(item, dict) and _is_schema(name)):
            verb = "replace" if item is None else operation.get("op")  # null cannot be added, but it removes the value
            target = f"{path}:{name.strip()}" if path else _spelled(name)
            paths.append({**operation, "op": verb, "path": target, "value": item})
        else:
            require_names(item)
            names[name] = item
    if names or not paths:
        yield {**operation, "value": names}
    for each in paths:
        yield from _split(each)


def _is_schema(path: Any) -> bool:
    return str(path).strip().lower() in _SCHEMAS


def _spelled(path: str) -> str:
    """The path with a colon after the schema. Entra wrote a point there until 2018, and may still do so."""
    text = path.strip()
    known = next((each for each in _SCHEMAS if text.lower().startswith(f"{each}.")), None)
    return text if known is None else f"{text[: len(known)]}:{text[len(known) + 1 :]}"


def is_path(name: str) -> bool:
    """Whether the key of a resource is a path rather than the name of an attribute or a schema, known or not."""
    text = name.strip().lower()
    if text.startswith(("urn:", "http")):
        return "[" in text or text.startswith(_WITHIN_SCHEMAS)
    return _NAME.fullmatch(text) is None


def require_no_paths(resource: Mapping[str, Any]) -> None:
    """Raises ScimError for a resource with a path as a key. Only PATCH accepts paths, so the value would be lost."""
    for name in resource:
        if is_path(name):
            raise ScimError(f"{name[:100]!r} is a path. Only PATCH accepts paths as keys.", "invalidPath")
    require_names(list(resource.values()))


def require_names(value: Any) -> None:
    """Raises ScimError for a key with a filter within a value, because filters are not applied there."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            for name in each:
                if "[" in name:
                    raise ScimError(f"{name[:100]!r} is a path, which cannot be a key within a value.", "invalidPath")
            left += each.values()
        elif isinstance(each, list):
            left += each


def _targets(operation: Mapping[str, Any]) -> list[str]:
    """The path. Without a path, the names in the value, which may also be paths."""
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
    if isinstance(kept.get("path"), str):
        kept["path"] = _spelled(kept["path"])
    return kept


def require_affordable(operations: Sequence[Mapping[str, Any]], values: int) -> None:
    """Raises ScimError for operations that would occupy the process too long. `values`: the number of values in the
    lists of the resource. The library compares each of them with every filter, and with every value to add or remove.
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
            raise ScimError("The operations take too long together. Send fewer operations.", "tooMany")


def _steps(operations: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    """Verb, path and value of each operation. Without a path, the value has several, by path."""
    for each in operations:
        verb, path, value = str(each.get("op", "")).lower(), each.get("path"), each.get("value")
        if not path and isinstance(value, Mapping):
            yield from ((verb, name, item) for name, item in value.items())
        else:
            yield verb, str(path or ""), value
