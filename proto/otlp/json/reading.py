"""Typed reading of parts of a body, and the errors for values that their fields cannot hold.

Objects of a body and elements of a list are counted before memory is allocated for them.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from proto.json_keys import count_strings
from proto.otlp.json.canonical import MessageShape, RepeatedTooOftenError, canonical, shape_of
from proto.otlp.json.encode import Encoder, FieldFault
from proto.otlp.json.messages import AnyObject, LogRecord, Span
from proto.otlp.json.names import FIELD_NAMES
from proto.otlp.json.utf_repair import repair
from proto.otlp.policy import (
    DecodeError,
    FieldFaults,
    ItemRejection,
    Policy,
    RequestRejection,
    RequestWarning,
    Signal,
    decode_error,
)

_ERROR_LOCATION: Final = re.compile(r"(?P<fault>.*) - at `\$\.?(?P<path>.*)`", re.DOTALL)


class FieldError(DecodeError):
    """A value that its field cannot hold. `path` is its place in the request, and `fault` describes the error."""

    def __init__(self, path: str, fault: str) -> None:
        super().__init__(RequestRejection.MALFORMED, f"{path}: {fault}" if path else fault)
        self.path = path
        self.fault = fault


class IllFormedError(Exception):
    """The body is not JSON, or has text that is not Unicode."""


def invalid_json_error(error: IllFormedError) -> DecodeError:
    """The error for a body that is not JSON even after repair."""
    return DecodeError(RequestRejection.MALFORMED, f"The body is not JSON: {error}.")


class MessageDecoder:
    """Decodes one kind of message. The members may have any known spelling of their names."""

    def __init__(self, decoder: msgspec.json.Decoder[Any], shape: MessageShape) -> None:
        self._decoder = decoder
        self._shape = shape

    def decode(self, raw: bytes | msgspec.Raw, path: str, warnings: set[RequestWarning]) -> Any:
        """Decode the message at `path`. Adds warnings to `warnings`. Raises the same errors as `decode_typed`."""
        message = self._decode_usual(raw)
        if message is not None:
            return message
        return decode_typed(self._decoder, raw, path, lambda: canonical(raw, self._shape, warnings))

    def _decode_usual(self, raw: bytes | msgspec.Raw) -> Any:
        """The message, if it contains every string of its text. Then no member has another name, is unknown or is given
        twice, so the text need not be rewritten, which takes several times as long. Otherwise None.
        """
        try:
            message = self._decoder.decode(raw)
            return message if count_strings(raw) == count_strings(msgspec.json.encode(message)) else None
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None


def decode_typed(
    decoder: msgspec.json.Decoder[Any],
    raw: bytes | msgspec.Raw,
    path: str,
    text: Callable[[], bytes | msgspec.Raw] | None = None,
) -> Any:
    """Decode the JSON at `path`, after `text` has converted it if it is given. Raises FieldError, IllFormedError, or
    DecodeError with the reason `too_deep`.
    """
    try:
        return decoder.decode(text() if text is not None else raw)
    except msgspec.ValidationError as error:
        match = _ERROR_LOCATION.fullmatch(str(error))
        full_path = ".".join(filter(None, (path, match["path"] if match else "")))
        raise FieldError(full_path.replace(".[", "["), match["fault"] if match else str(error)) from error
    except RepeatedTooOftenError as error:
        raise FieldError(path, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise IllFormedError(str(error).removeprefix("JSON is malformed: ")) from error
    except RecursionError as error:
        raise DecodeError(RequestRejection.TOO_DEEP, "The JSON is nested too deeply.") from error


def encode_message(encode: Callable[[Any], bytes], message: Any, path: str) -> bytes:
    """Encode `message`, which is at `path`, as protobuf. Raises FieldError if a field cannot hold its value."""
    try:
        return encode(message)
    except FieldFault as fault:
        raise FieldError(f"{path}.{fault.path}" if path else fault.path, fault.fault) from fault


_ITEMS: Final[Mapping[Signal, MessageDecoder]] = {
    "traces": MessageDecoder(msgspec.json.Decoder(Span), shape_of(Span, "traces", "item")),
    "logs": MessageDecoder(msgspec.json.Decoder(LogRecord), shape_of(LogRecord, "logs", "item")),
}


class ItemReader:
    """Reads the items of one request, one at a time. `faults` counts rejected items and contains the warnings."""

    def __init__(self, signal: Signal, *, repaired: bool = False) -> None:
        """`repaired`: the body was repaired, so text that is still ill-formed is not JSON."""
        self.faults = FieldFaults()
        self._signal = signal
        self._repaired = repaired
        self._encode = self._encoder(repaired=repaired)

    def _encoder(self, *, repaired: bool) -> Callable[[Any], bytes]:
        encoder = Encoder(self.faults.warnings, repaired=repaired)
        return encoder.span if self._signal == "traces" else encoder.log_record

    def __call__(self, raw: bytes | msgspec.Raw, *indexes: int) -> bytes | None:
        """The protobuf encoding of an item that is not null, or None if the item is rejected. `indexes` are the indexes
        of the resource, the scope and the item in their lists. Raises DecodeError with the reason `too_deep`, which
        refuses the complete request.
        """
        try:
            try:
                return self._read(raw, self._encode)
            except IllFormedError:
                if self._repaired:
                    raise
            return self._read(repair(bytes(raw)), self._encoder(repaired=True))
        except FieldError as error:
            path = ".".join(f"{name}[{index}]" for name, index in zip(FIELD_NAMES[self._signal], indexes, strict=True))
            self.faults.add(
                ItemRejection.INVALID_FIELD, 1, f"{path}.{error.message}" if error.path else f"{path}: {error.fault}"
            )
            return None
        except IllFormedError as error:
            raise invalid_json_error(error) from error

    def _read(self, raw: bytes | msgspec.Raw, encode: Callable[[Any], bytes]) -> bytes:
        return encode_message(encode, _ITEMS[self._signal].decode(raw, "", self.faults.warnings), "")


_TO_BRACE: Final = rb'(?:[^"{]++|"(?:[^"\\]++|\\.)*+"?)*+\{'  # skips strings with any content
# Braces per match. One Python step per brace would take seconds, and one match for all would block the interpreter.
_STEP: Final = 1_000
_BRACE: Final = re.compile(_TO_BRACE, re.DOTALL)
_BRACES: Final = re.compile(rb"(?:%s){%d}+" % (_TO_BRACE, _STEP), re.DOTALL)
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},]', re.DOTALL)

_OBJECTS: Final = msgspec.json.Decoder(list[AnyObject | None] | None)
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)


def check_object_count(body: bytes, policy: Policy) -> None:
    """Raises DecodeError with the reason `too_many_parts` if the body has more than `max_parts` objects. Every part is
    an object, so the opening braces outside of strings are an upper bound of the parts.
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
    """The elements of a list, of any type. Empty if the list is absent, None if it has more than `max_elements`."""
    if not memoryview(raw).nbytes:
        return []
    try:
        count = len(decode_typed(_OBJECTS, raw, path) or ())
    except FieldError:
        if memoryview(raw)[0] != ord("["):
            raise
        count = _count_elements(raw, max_elements)  # elements may not be objects
    if count > max_elements:
        return None
    elements: list[msgspec.Raw] = decode_typed(_ELEMENTS, raw, path) or []
    return elements


def _count_elements(raw: Any, limit: int) -> int:
    """The number of elements of a non-empty list, counted up to `limit` + 1 without keeping an element."""
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
