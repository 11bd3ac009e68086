"""Typed reading of pieces of a body, and what comes of one whose fields cannot hold what is in it."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from proto.otlp.json import messages
from proto.otlp.json.encode import Encoder, FieldFault
from proto.otlp.json.utf_repair import repair
from proto.otlp.policy import DecodeError, FieldFaults, ItemRejection, RequestRejection, Signal

_ERROR_LOCATION: Final = re.compile(r"(?P<fault>.*) - at `\$\.?(?P<path>.*)`", re.DOTALL)


class FieldError(DecodeError):
    """A value that its field cannot hold, anywhere in the request; `path` says where, `fault` what is wrong there."""

    def __init__(self, path: str, fault: str) -> None:
        super().__init__(RequestRejection.MALFORMED, f"{path}: {fault}" if path else fault)
        self.path = path
        self.fault = fault


class IllFormedError(Exception):
    """Not JSON, or text in it is not Unicode."""


def invalid_json_error(error: IllFormedError) -> DecodeError:
    """Refuses the body for what is no JSON even after it was repaired."""
    return DecodeError(RequestRejection.MALFORMED, f"The body is not JSON: {error}.")


def decode_typed(decoder: msgspec.json.Decoder[Any], raw: bytes | msgspec.Raw, path: str) -> Any:
    """What `decoder` makes of the JSON at `path`; FieldError, IllFormedError, or DecodeError `too_deep`."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        found = _ERROR_LOCATION.fullmatch(str(error))
        where = ".".join(filter(None, (path, found["path"] if found else "")))
        raise FieldError(where.replace(".[", "["), found["fault"] if found else str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise IllFormedError(str(error).removeprefix("JSON is malformed: ")) from error
    except RecursionError as error:
        raise DecodeError(RequestRejection.TOO_DEEP, "The JSON is nested too deep.") from error


def encode_message(encode: Callable[[Any], bytes], message: Any, path: str) -> bytes:
    """`message`, which stands at `path`, as protobuf; FieldError where a field cannot hold its value."""
    try:
        return encode(message)
    except FieldFault as fault:
        raise FieldError(f"{path}.{fault.path}" if path else fault.path, fault.fault) from fault


FIELD_NAMES: Final[Mapping[Signal, tuple[str, str, str]]] = {
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
}
_ITEMS: Final[Mapping[Signal, msgspec.json.Decoder[Any]]] = {
    "traces": msgspec.json.Decoder(messages.Span),
    "logs": msgspec.json.Decoder(messages.LogRecord),
}


class ItemReader:
    """Reads the items of one request, one by one; `faults` has those that are rejected."""

    def __init__(self, signal: Signal, *, repaired: bool = False) -> None:
        """`repaired`: the body was, so that what is still ill-formed is no JSON."""
        self.faults = FieldFaults()
        self._signal = signal
        self._repaired = repaired
        self._encode = self._encoder(repaired=repaired)

    def _encoder(self, *, repaired: bool) -> Callable[[Any], bytes]:
        encoder = Encoder(repaired=repaired)
        return encoder.span if self._signal == "traces" else encoder.log_record

    def __call__(self, raw: bytes | msgspec.Raw, *places: int) -> bytes | None:
        """The protobuf encoding of an item that is not null; None when it is rejected. `places`: those of its resource,
        its scope and its own in their lists. Raises DecodeError `too_deep`, which no item has to itself.
        """
        try:
            try:
                return self._read(raw, self._encode)
            except IllFormedError:
                if self._repaired:
                    raise
            return self._read(repair(bytes(raw)), self._encoder(repaired=True))
        except FieldError as error:
            path = ".".join(f"{name}[{place}]" for name, place in zip(FIELD_NAMES[self._signal], places, strict=True))
            self.faults.add(
                ItemRejection.INVALID_FIELD, 1, f"{path}.{error.message}" if error.path else f"{path}: {error.fault}"
            )
            return None
        except IllFormedError as error:
            raise invalid_json_error(error) from error

    def _read(self, raw: bytes | msgspec.Raw, encode: Callable[[Any], bytes]) -> bytes:
        return encode_message(encode, decode_typed(_ITEMS[self._signal], raw, ""), "")
