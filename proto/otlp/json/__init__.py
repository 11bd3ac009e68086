"""OTLP/JSON to OTLP's protobuf encoding, so that both take the same road through the decoder.

`to_protobuf` counts (`limits` before memory is spent), repairs text that is not Unicode (`repair`), reads typed
structures (`shapes`) item by item and writes each as protobuf (`encode`).
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from proto.otlp.json import shapes
from proto.otlp.json.encode import Encoder, Fault
from proto.otlp.json.repair import repair
from proto.otlp.json.shapes import present
from proto.otlp.policy import DecodeError, Policy, Refusal, Signal, refusal
from proto.otlp.wire import bytes_field

_TO_BRACE: Final = rb'(?:[^"{]++|"(?:[^"\\]++|\\.)*+"?)*+\{'  # past strings, whatever is in them
_STEP: Final = 1_000  # braces: a step of Python for each would take seconds, and all of them at once the interpreter
_BRACE: Final = re.compile(_TO_BRACE, re.DOTALL)
_BRACES: Final = re.compile(rb"(?:%s){%d}+" % (_TO_BRACE, _STEP), re.DOTALL)
_AT: Final = re.compile(r"(?P<fault>.*) - at `\$\.?(?P<path>.*)`", re.DOTALL)


class FieldError(DecodeError):
    """A value that its field cannot hold, anywhere in the request; `path` says where, `fault` what is wrong there."""

    def __init__(self, path: str, fault: str) -> None:
        super().__init__(Refusal.MALFORMED, f"{path}: {fault}" if path else fault)
        self.path = path
        self.fault = fault


def to_protobuf(signal: Signal, body: bytes, policy: Policy) -> bytes:
    """The protobuf encoding of the request whose OTLP/JSON encoding is `body`.

    Raises DecodeError: `malformed` for what is not JSON or not OTLP (a FieldError where a field is to blame),
    `too_deep`, `too_many_items`, `too_many_parts`.
    """
    _limit_objects(body, policy)
    try:
        return _Request(signal, policy, repaired=False).encode(body)
    except _IllFormedError as error:
        repaired = repair(body)
        if repaired == body:
            raise DecodeError(Refusal.MALFORMED, f"The body is not JSON: {error}.") from error
    try:
        return _Request(signal, policy, repaired=True).encode(repaired)
    except _IllFormedError as error:
        raise DecodeError(Refusal.MALFORMED, f"The body is not JSON: {error}.") from error


class _IllFormedError(Exception):
    """Not JSON, or text in it is not Unicode."""


def _limit_objects(body: bytes, policy: Policy) -> None:
    """Every part is an object, so there are no more parts than opening braces outside of strings."""
    if body.count(b"{") > policy.max_parts and _has_braces(body, policy.max_parts + 1):
        raise refusal(Refusal.TOO_MANY_PARTS, policy)


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


class _Shapes:
    """Decoders for one signal: they are built once and are safe to share."""

    def __init__(self, request: Any, item: Any, names: tuple[str, str, str]) -> None:
        self.request = msgspec.json.Decoder(request)
        self.item = msgspec.json.Decoder(item | None)
        self.names = names


_SHAPES: Final[dict[Signal, _Shapes]] = {
    "traces": _Shapes(shapes.TracesRequest, shapes.Span, ("resourceSpans", "scopeSpans", "spans")),
    "logs": _Shapes(shapes.LogsRequest, shapes.LogRecord, ("resourceLogs", "scopeLogs", "logRecords")),
}
_COUNT: Final = msgspec.json.Decoder(list[shapes.AnyObject | None] | None)
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)


class _Request:
    def __init__(self, signal: Signal, policy: Policy, *, repaired: bool) -> None:
        self._signal = signal
        self._shapes = _SHAPES[signal]
        self._policy = policy
        self._items = 0
        self._encoder = Encoder(repaired=repaired)
        self._encode_item: Callable[[Any], bytes] = (
            self._encoder.span if signal == "traces" else self._encoder.log_record
        )

    def encode(self, body: bytes) -> bytes:
        resources, scopes, _ = self._shapes.names
        request = _decode(self._shapes.request, body, "")
        out = bytearray()
        for place, sent in present(request.resources):
            path = f"{resources}[{place}]"
            inner = bytearray(self._origin(f"{path}.resource", self._encoder.resource, sent.resource))
            for scope_place, scoped in present(sent.scopes):
                inner += bytes_field(2, self._scoped(f"{path}.{scopes}[{scope_place}]", scoped))
            inner += self._encoder.text(3, sent.schema_url)
            out += bytes_field(1, inner)
        return bytes(out)

    def _scoped(self, path: str, scoped: Any) -> bytes:
        out = bytearray(self._origin(f"{path}.scope", self._encoder.scope, scoped.scope))
        self._append_items(f"{path}.{self._shapes.names[2]}", scoped.items, out)
        out += self._encoder.text(3, scoped.schema_url)
        return bytes(out)

    def _origin(self, path: str, encode: Callable[[Any], bytes], origin: Any) -> bytes:
        if origin is None:
            return b""
        try:
            return bytes_field(1, encode(origin))
        except Fault as fault:
            raise FieldError(f"{path}.{fault.path}", fault.fault) from fault

    def _append_items(self, path: str, raw: msgspec.Raw, out: bytearray) -> None:
        """Counts the items without keeping them, then reads and encodes one after the other."""
        if not memoryview(raw).nbytes:  # the field is absent
            return
        self._items += len(_decode(_COUNT, raw, path) or ())
        if self._items > self._policy.max_items:
            raise refusal(Refusal.TOO_MANY_ITEMS, self._policy)
        for place, item in enumerate(_decode(_ITEMS, raw, path) or ()):
            here = f"{path}[{place}]"
            message = _decode(self._shapes.item, item, here)
            try:
                if message is not None:
                    out += bytes_field(2, self._encode_item(message))
            except Fault as fault:
                raise FieldError(f"{here}.{fault.path}", fault.fault) from fault


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes | msgspec.Raw, path: str) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        found = _AT.fullmatch(str(error))
        where = ".".join(filter(None, (path, found["path"] if found else "")))
        raise FieldError(where.replace(".[", "["), found["fault"] if found else str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _IllFormedError(str(error).removeprefix("JSON is malformed: ")) from error
    except RecursionError as error:
        raise DecodeError(Refusal.TOO_DEEP, "The JSON is nested too deep.") from error
