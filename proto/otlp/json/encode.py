"""Encode typed OTLP/JSON messages in protobuf's wire format, with the field numbers of opentelemetry-proto 1.11."""

import base64
import binascii
import math
import re
from collections.abc import Callable
from typing import Final, Never, TypeVar

from proto.otlp.json.messages import (
    AnyValue,
    ArrayValue,
    EntityRef,
    Enum,
    Event,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
    KeyValues,
    Link,
    LogRecord,
    Number,
    Resource,
    Span,
    Status,
    enumerate_present,
)
from proto.otlp.json.names import ENUM_EXAMPLES, ENUM_NUMBERS
from proto.otlp.json.utf_repair import restore
from proto.otlp.policy import VALUE_DEPTH, DecodeError, RequestRejection, RequestWarning
from proto.otlp.protobuf_writer import bytes_field, double_field, fixed32_field, fixed64_field, varint_field

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}")
_DECIMAL: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NON_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_URL_SAFE: Final = str.maketrans("-_", "+/")
_INVALID_ID: Final = b"\x00"  # no id has this length, so the rules for ids of another length apply to the item

T = TypeVar("T")


class FieldFault(Exception):
    """A value that its field cannot hold. Callers prepend their field names to `path`."""

    def __init__(self, field: str, fault: str) -> None:
        super().__init__(fault)
        self.path = field
        self.fault = fault


def _fail(field: str, fault: str) -> Never:
    raise FieldFault(field, fault)


class Encoder:
    """Encodes the messages of one request. `repaired`: the text of the request was repaired and has markers to restore.
    Adds a warning to `warnings` if a value is the name of an enum value.
    """

    def __init__(self, warnings: set[RequestWarning], *, repaired: bool) -> None:
        self._warnings = warnings
        self._repaired = repaired

    def resource(self, resource: Resource) -> bytes:
        return (
            self._attributes(1, resource.attributes)
            + _uint32(2, "droppedAttributesCount", resource.dropped_attributes_count)
            + self._messages(3, "entityRefs", resource.entity_refs, self._entity_ref)
        )

    def scope(self, scope: InstrumentationScope) -> bytes:
        return (
            self.text(1, scope.name)
            + self.text(2, scope.version)
            + self._attributes(3, scope.attributes)
            + _uint32(4, "droppedAttributesCount", scope.dropped_attributes_count)
        )

    def span(self, span: Span) -> bytes:
        return b"".join(
            (
                _id(1, span.trace_id),
                _id(2, span.span_id),
                self.text(3, span.trace_state),
                _id(4, span.parent_span_id),
                self.text(5, span.name),
                self._enum(6, "kind", span.kind),
                _fixed64(7, "startTimeUnixNano", span.start_time_unix_nano),
                _fixed64(8, "endTimeUnixNano", span.end_time_unix_nano),
                self._attributes(9, span.attributes),
                _uint32(10, "droppedAttributesCount", span.dropped_attributes_count),
                self._messages(11, "events", span.events, self._event),
                _uint32(12, "droppedEventsCount", span.dropped_events_count),
                self._messages(13, "links", span.links, self._link),
                _uint32(14, "droppedLinksCount", span.dropped_links_count),
                b"" if span.status is None else bytes_field(15, _encode_at("status", self._status, span.status)),
                _fixed32(16, "flags", span.flags),
            )
        )

    def log_record(self, log: LogRecord) -> bytes:
        return b"".join(
            (
                _fixed64(1, "timeUnixNano", log.time_unix_nano),
                self._enum(2, "severityNumber", log.severity_number),
                self.text(3, log.severity_text),
                bytes_field(5, _encode_at("body", self._any_value, log.body, 1)) if log.body is not None else b"",
                self._attributes(6, log.attributes),
                _uint32(7, "droppedAttributesCount", log.dropped_attributes_count),
                _fixed32(8, "flags", log.flags),
                _id(9, log.trace_id),
                _id(10, log.span_id),
                _fixed64(11, "observedTimeUnixNano", log.observed_time_unix_nano),
                self.text(12, log.event_name),
            )
        )

    def text(self, number: int, text: str | None) -> bytes:
        """A string field. No bytes if the text is absent or empty."""
        if not text:
            return b""
        return bytes_field(number, self._utf8(text))

    def _enum(self, number: int, field: str, value: Enum | None) -> bytes:
        if value is None:
            return b""
        if isinstance(value, str):
            if value not in ENUM_NUMBERS[field]:
                enum, example = ENUM_EXAMPLES[field]
                _fail(field, f"not a name or number of {enum}, for example {example}")
            self._warnings.add(RequestWarning.ENUM_NAMES)
            value = ENUM_NUMBERS[field][value]
        return varint_field(number, _integer(field, value, -(2**31), 2**31 - 1))

    def _utf8(self, text: str) -> bytes:
        raw = text.encode()
        return restore(raw) if self._repaired else raw

    def _entity_ref(self, ref: EntityRef) -> bytes:
        return b"".join(
            (
                self.text(1, ref.schema_url),
                self.text(2, ref.type),
                self._texts(3, ref.id_keys),
                self._texts(4, ref.description_keys),
            )
        )

    def _texts(self, number: int, texts: list[str] | None) -> bytes:
        out = bytearray()
        for text in texts or ():
            out += bytes_field(number, self._utf8(text))
        return bytes(out)

    def _event(self, event: Event) -> bytes:
        return (
            _fixed64(1, "timeUnixNano", event.time_unix_nano)
            + self.text(2, event.name)
            + self._attributes(3, event.attributes)
            + _uint32(4, "droppedAttributesCount", event.dropped_attributes_count)
        )

    def _link(self, link: Link) -> bytes:
        return (
            _id(1, link.trace_id)
            + _id(2, link.span_id)
            + self.text(3, link.trace_state)
            + self._attributes(4, link.attributes)
            + _uint32(5, "droppedAttributesCount", link.dropped_attributes_count)
            + _fixed32(6, "flags", link.flags)
        )

    def _status(self, status: Status) -> bytes:
        return self.text(2, status.message) + self._enum(3, "code", status.code)

    def _messages(
        self, number: int, field: str, messages: list[T | None] | None, encode: Callable[[T], bytes]
    ) -> bytes:
        out = bytearray()
        for index, message in enumerate_present(messages):
            out += bytes_field(number, _encode_at(f"{field}[{index}]", encode, message))
        return bytes(out)

    def _attributes(self, number: int, attributes: KeyValues | None, depth: int = 1) -> bytes:
        """A list of attributes whose values are at nesting level `depth`."""
        out = bytearray()  # a list of millions of pieces would take 80 bytes per piece
        index = -1
        try:
            for index, attribute in enumerate(attributes or ()):  # noqa: B007 - for the path of a fault
                if attribute is not None:
                    out += bytes_field(number, self._key_value(attribute, depth))
        except FieldFault as fault:
            fault.path = f"{'attributes' if depth == 1 else 'values'}[{index}].value.{fault.path}"
            raise
        return bytes(out)

    def _key_value(self, attribute: KeyValue, depth: int) -> bytes:
        key = self.text(1, attribute.key)
        if attribute.value is None:
            return key
        return key + bytes_field(2, self._any_value(attribute.value, depth))

    def _any_value(self, value: AnyValue, depth: int) -> bytes:
        """The members that are present, in field order. If there are several, the last one applies."""
        if depth > VALUE_DEPTH:
            raise DecodeError(RequestRejection.TOO_DEEP, f"A value is nested more than {VALUE_DEPTH} levels deep.")
        out = b""
        if value.string_value is not None:
            out = bytes_field(1, self._utf8(value.string_value))
        if value.bool_value is not None:
            out += varint_field(2, value.bool_value)
        if value.int_value is not None:
            out += _int_value(value.int_value)
        if value.double_value is not None:
            out += double_field(4, _double(value.double_value))
        if value.array_value is not None:
            out += bytes_field(5, _encode_at("arrayValue", self._array, value.array_value, depth))
        if value.kvlist_value is not None:
            out += bytes_field(6, _encode_at("kvlistValue", self._kvlist, value.kvlist_value, depth))
        if value.bytes_value is not None:
            out += bytes_field(7, _base64(value.bytes_value))
        if value.string_value_strindex is not None:
            out += varint_field(8, 0)  # an index into a table that exists only in profiles
        return out

    def _array(self, array: ArrayValue, depth: int) -> bytes:
        out = bytearray()
        for index, element in enumerate(array.values or ()):
            encoded = b"" if element is None else _encode_at(f"values[{index}]", self._any_value, element, depth + 1)
            out += bytes_field(1, encoded)
        return bytes(out)

    def _kvlist(self, entries: KeyValueList, depth: int) -> bytes:
        return self._attributes(1, entries.values, depth + 1)


def _encode_at(path: str, encode: Callable[..., bytes], *arguments: object) -> bytes:
    try:
        return encode(*arguments)
    except FieldFault as fault:
        fault.path = f"{path}.{fault.path}"
        raise


def _id(number: int, text: str | None) -> bytes:
    if not text:
        return b""
    try:
        return bytes_field(number, binascii.unhexlify(text))
    except ValueError:  # not ASCII, not hex, or an odd number of digits
        return bytes_field(number, _INVALID_ID)


def _fixed64(number: int, field: str, value: Number | None) -> bytes:
    return fixed64_field(number, _integer(field, value, 0, 2**64 - 1)) if value is not None else b""


def _fixed32(number: int, field: str, value: Number | None) -> bytes:
    return fixed32_field(number, _integer(field, value, 0, 2**32 - 1)) if value is not None else b""


def _uint32(number: int, field: str, value: Number | None) -> bytes:
    return varint_field(number, _integer(field, value, 0, 2**32 - 1)) if value is not None else b""


def _integer(field: str, value: Number, minimum: int, maximum: int) -> int:
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            _fail(field, "not an integer")
        value = int(value)
    elif isinstance(value, float):
        if not value.is_integer():
            _fail(field, "not an integer")
        value = int(value)
    if not minimum <= value <= maximum:
        _fail(field, f"not between {minimum} and {maximum}")
    return value


def _int_value(value: Number) -> bytes:
    """An `intValue`, or a double for a JSON number beyond 64 bits of any size. The JavaScript SDK writes every number
    without a fraction as `intValue` (in protobuf it writes a double), and such an item must not be lost.
    """
    if not isinstance(value, str) and not _INT64_MIN <= value <= _INT64_MAX:
        return double_field(4, _double(value, "intValue"))
    return varint_field(3, _integer("intValue", value, _INT64_MIN, _INT64_MAX))


def _double(value: Number, field: str = "doubleValue") -> float:
    if isinstance(value, str):
        if value in _NON_FINITE:
            return _NON_FINITE[value]
        if not _DECIMAL.fullmatch(value):
            _fail(field, "not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        _fail(field, "beyond the range of a double")
    return number


def _base64(text: str) -> bytes:
    """A `bytesValue` in the standard or URL-safe alphabet, with or without padding, as in protobuf's JSON mapping."""
    digits = text.translate(_URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except ValueError:
        _fail("bytesValue", "not base64")
