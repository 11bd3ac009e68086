"""Counts objects of a body and elements of a list before memory is allocated for them."""

import re
from typing import Any, Final

import msgspec

from proto.otlp.json.messages import AnyObject
from proto.otlp.json.reading import FieldError, decode_typed
from proto.otlp.policy import Policy, RequestRejection, decode_error

_TO_BRACE: Final = rb'(?:[^"{]++|"(?:[^"\\]++|\\.)*+"?)*+\{'  # skips strings with any content
# Braces per match: one Python step per brace would take seconds, one match for all would block the interpreter.
_STEP: Final = 1_000
_BRACE: Final = re.compile(_TO_BRACE, re.DOTALL)
_BRACES: Final = re.compile(rb"(?:%s){%d}+" % (_TO_BRACE, _STEP), re.DOTALL)
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},]', re.DOTALL)

_OBJECTS: Final = msgspec.json.Decoder(list[AnyObject | None] | None)
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)


def check_object_count(body: bytes, policy: Policy) -> None:
    """Raises DecodeError `too_many_parts` if the body has more than `max_parts` objects: every part is an object, so
    the opening braces outside of strings are an upper bound of the parts.
    """
    if body.count(b"{") > policy.max_parts and _has_braces(body, policy.max_parts + 1):
        raise decode_error(RequestRejection.TOO_MANY_PARTS, policy)


def _has_braces(body: bytes, count: int) -> bool:
    """Whether the body has at least `count` opening braces outside of strings."""
    at = 0
    steps, single = divmod(count, _STEP)
    for pattern in (*[_BRACES] * steps, *[_BRACE] * single):
        found = pattern.match(body, at)
        if found is None:
            return False
        at = found.end()
    return True


def read_elements(raw: msgspec.Raw, path: str, max_elements: int) -> list[msgspec.Raw] | None:
    """The elements of a list, of any type: an empty list if it is absent, None if it has more than `max_elements`."""
    if not memoryview(raw).nbytes:
        return []
    try:
        count = len(decode_typed(_OBJECTS, raw, path) or ())
    except FieldError:
        if memoryview(raw)[0] != ord("["):
            raise
        count = _count_elements(raw, max_elements)  # not all of them are objects
    if count > max_elements:
        return None
    elements: list[msgspec.Raw] = decode_typed(_ELEMENTS, raw, path) or []
    return elements


def _count_elements(raw: Any, limit: int) -> int:
    """The number of elements of a non-empty list, counted up to `limit` + 1 without keeping any."""
    text = memoryview(raw)
    depth, count = 0, 1
    for token in _TOKEN.finditer(text):
        letter = text[token.start()]
        if letter in b"[{":
            depth += 1
        elif letter in b"]}":
            depth -= 1
        elif letter == ord(",") and depth == 1:
            count += 1
            if count > limit:
                break
    return count
