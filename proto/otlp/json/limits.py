"""What is counted in a body before memory is spent on it: objects, and the elements of a list."""

import re
from typing import Any, Final

import msgspec

from proto.otlp.json.messages import AnyObject
from proto.otlp.json.reading import FieldError, decode_typed
from proto.otlp.policy import Policy, RequestRejection, decode_error

_TO_BRACE: Final = rb'(?:[^"{]++|"(?:[^"\\]++|\\.)*+"?)*+\{'  # past strings, whatever is in them
_STEP: Final = 1_000  # braces: a step of Python for each would take seconds, and all of them at once the interpreter
_BRACE: Final = re.compile(_TO_BRACE, re.DOTALL)
_BRACES: Final = re.compile(rb"(?:%s){%d}+" % (_TO_BRACE, _STEP), re.DOTALL)
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},]', re.DOTALL)

_OBJECTS: Final = msgspec.json.Decoder(list[AnyObject | None] | None)
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)


def check_object_count(body: bytes, policy: Policy) -> None:
    """Every part is an object, so there are no more parts than opening braces outside of strings."""
    if body.count(b"{") > policy.max_parts and _has_braces(body, policy.max_parts + 1):
        raise decode_error(RequestRejection.TOO_MANY_PARTS, policy)


def _has_braces(body: bytes, count: int) -> bool:
    """Whether there are so many opening ones outside of strings."""
    at = 0
    steps, single = divmod(count, _STEP)
    for pattern in (*[_BRACES] * steps, *[_BRACE] * single):
        found = pattern.match(body, at)
        if found is None:
            return False
        at = found.end()
    return True


def read_elements(raw: msgspec.Raw, path: str, max_elements: int) -> list[msgspec.Raw] | None:
    """The elements of a list, whatever they are; none where it is absent, None where they are more than `most`."""
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
    found: list[msgspec.Raw] = decode_typed(_ELEMENTS, raw, path) or []
    return found


def _count_elements(raw: Any, most: int) -> int:
    """How many elements a list has that is not empty; counted up to one more than `most`, and nothing of it is kept."""
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
            if count > most:
                break
    return count
