"""Converts OTLP/JSON to OTLP's protobuf encoding, so that the decoder processes both in the same way.

`to_protobuf` checks the number of objects before it allocates memory (`reading.check_object_count`), repairs text that
is not Unicode (`utf_repair.repair`), rewrites members that have other names or are given twice (`canonical.canonical`),
reads typed structures (`messages`) one resource, scope and item at a time (`reading.MessageDecoder`,
`reading.ItemReader`), and writes each of them as protobuf (`encode.Encoder`). An item with an invalid field is omitted
and counted. An invalid field in a resource or scope rejects all of its items.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from proto.otlp.json.canonical import shape_of
from proto.otlp.json.encode import Encoder
from proto.otlp.json.messages import InstrumentationScope, LogsRequest, Resource, TracesRequest, enumerate_present
from proto.otlp.json.names import FIELD_NAMES
from proto.otlp.json.reading import (
    FieldError,
    IllFormedError,
    ItemReader,
    MessageDecoder,
    check_object_count,
    decode_typed,
    encode_message,
    invalid_json_error,
    read_elements,
)
from proto.otlp.json.utf_repair import repair
from proto.otlp.policy import FieldFaults, ItemRejection, Policy, RequestRejection, Signal, decode_error
from proto.otlp.protobuf_writer import bytes_field

__all__ = ["ConvertedRequest", "FieldError", "ItemReader", "to_protobuf"]


class ConvertedRequest(NamedTuple):
    """A request as protobuf, without rejected items. `faults` counts the rejected items and contains the warnings."""

    body: bytes
    faults: FieldFaults


def to_protobuf(signal: Signal, body: bytes, policy: Policy) -> ConvertedRequest:
    """The protobuf encoding of the request whose OTLP/JSON encoding is `body`.

    Raises DecodeError with the reason `malformed` (the body is not JSON, or, as a FieldError, its items cannot be
    determined), `too_deep`, `too_many_items` or `too_many_parts`.
    """
    check_object_count(body, policy)
    try:
        return _RequestConverter(signal, policy, repaired=False).convert(body)
    except IllFormedError as error:
        repaired = repair(body)
        if repaired == body:
            raise invalid_json_error(error) from error
    try:
        return _RequestConverter(signal, policy, repaired=True).convert(repaired)
    except IllFormedError as error:
        raise invalid_json_error(error) from error


_REQUESTS: Final[dict[Signal, MessageDecoder]] = {
    "traces": MessageDecoder(msgspec.json.Decoder(TracesRequest), shape_of(TracesRequest, "traces", "request")),
    "logs": MessageDecoder(msgspec.json.Decoder(LogsRequest), shape_of(LogsRequest, "logs", "request")),
}
_RESOURCE: Final = MessageDecoder(msgspec.json.Decoder(Resource | None), shape_of(Resource))
_SCOPE: Final = MessageDecoder(msgspec.json.Decoder(InstrumentationScope | None), shape_of(InstrumentationScope))
_TEXT: Final = msgspec.json.Decoder(str | None)


def _is_null(raw: msgspec.Raw) -> bool:
    return memoryview(raw).nbytes == 4 and bytes(raw) == b"null"


class _RequestConverter:
    def __init__(self, signal: Signal, policy: Policy, *, repaired: bool) -> None:
        self._request = _REQUESTS[signal]
        self._names = FIELD_NAMES[signal]
        self._policy = policy
        self._items = 0
        self._item_reader = ItemReader(signal, repaired=repaired)
        self._warnings = self._item_reader.faults.warnings
        self._encoder = Encoder(self._warnings, repaired=repaired)

    def convert(self, body: bytes) -> ConvertedRequest:
        request = self._request.decode(body, "", self._warnings)
        out = bytearray()
        for index, resource in enumerate_present(request.resources):
            self._append_resource(index, resource, out)
        return ConvertedRequest(bytes(out), self._item_reader.faults)

    def _append_resource(self, index: int, resource: Any, out: bytearray) -> None:
        resources, scopes, _ = self._names
        path = f"{resources}[{index}]"
        fault = None
        inner = bytearray()
        try:
            inner += self._resource_or_scope(f"{path}.resource", _RESOURCE, self._encoder.resource, resource.resource)
            inner += self._schema_url(path, resource.schema_url)
        except FieldError as error:
            fault = error
        for scope_index, scope in enumerate_present(resource.scopes):
            scope_path = f"{path}.{scopes}[{scope_index}]"
            if fault is not None:
                self._reject(ItemRejection.INVALID_RESOURCE, fault, self._read_items(scope_path, scope.items))
            else:
                self._append_scope((index, scope_index), scope_path, scope, inner)
        if fault is None:
            out += bytes_field(1, inner)

    def _append_scope(self, indexes: tuple[int, int], path: str, scope: Any, out: bytearray) -> None:
        items = self._read_items(path, scope.items)
        try:
            inner = bytearray(self._resource_or_scope(f"{path}.scope", _SCOPE, self._encoder.scope, scope.scope))
            inner += self._schema_url(path, scope.schema_url)
        except FieldError as error:
            self._reject(ItemRejection.INVALID_SCOPE, error, items)
            return
        self._append_items(indexes, items, inner)
        out += bytes_field(2, inner)

    def _append_items(self, indexes: tuple[int, int], items: Sequence[msgspec.Raw], out: bytearray) -> None:
        for index, raw in enumerate(items):
            item = None if _is_null(raw) else self._item_reader(raw, *indexes, index)
            if item is not None:
                out += bytes_field(2, item)

    def _resource_or_scope(
        self, path: str, decoder: MessageDecoder, encode: Callable[[Any], bytes], raw: msgspec.Raw
    ) -> bytes:
        message = decoder.decode(raw, path, self._warnings) if memoryview(raw).nbytes else None
        return b"" if message is None else bytes_field(1, encode_message(encode, message, path))

    def _schema_url(self, path: str, raw: msgspec.Raw) -> bytes:
        return self._encoder.text(3, decode_typed(_TEXT, raw, f"{path}.schemaUrl") if memoryview(raw).nbytes else None)

    def _read_items(self, path: str, raw: msgspec.Raw) -> Sequence[msgspec.Raw]:
        """The items of a scope. They count toward `max_items` even if they are rejected later."""
        items = read_elements(raw, f"{path}.{self._names[2]}", self._policy.max_items - self._items)
        if items is None:
            raise decode_error(RequestRejection.TOO_MANY_ITEMS, self._policy)
        self._items += len(items)
        return items

    def _reject(self, reason: ItemRejection, fault: FieldError, items: Sequence[msgspec.Raw]) -> None:
        self._item_reader.faults.add(reason, sum(not _is_null(raw) for raw in items), fault.message)
