"""What is wrong with the type of a member of a source map, in a sentence that names the member."""

import re
from typing import Final

_EXPECTED: Final = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`| ([<>]=) (-?\d+))")
_MISSING: Final = re.compile(r"Object missing required field `([^`]+)`")
_PLACE: Final = re.compile(r" - at `\$\.?([^`]+)`\Z")
_BOUNDS: Final = {">=": "at least", "<=": "at most"}
_TYPES: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number with a fraction",
    "bool": "a boolean",
    "object": "an object",
    "array": "a list",
}


def type_fault(message: str) -> str:
    """The sentence for a message of msgspec. `[...]` in it is an entry of an object."""
    place = _PLACE.search(message)
    path = "" if place is None else place[1]
    name = f"`{path}`" if path else "It"
    if missing := _MISSING.match(message):
        return f"`{path}{'.' * bool(path)}{missing[1]}` is missing."
    if (expected := _EXPECTED.match(message)) is None:
        return f"{name} has a value that is not allowed."
    wanted, got, order, bound = expected.groups()
    if got is None:
        return f"{name} must be {_BOUNDS[order]} {bound}."
    return f"{name} must be {_in_words(wanted)}, not {_in_words(got)}."


def _in_words(types: str) -> str:
    return " or ".join(_TYPES.get(one, one) for one in types.split(" | "))
