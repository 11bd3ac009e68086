"""Pre-validation: one pass over the wire format that refuses a request before memory is allocated, and finds items of
another signal (docs/codec.md 1).
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from proto.otlp.policy import (
    GROUP_DEPTH,
    VALUE_DEPTH,
    DecodeError,
    Policy,
    RequestRejection,
    RequestWarning,
    Signal,
    decode_error,
)

_VARINT, _FIXED64, _LENGTH, _GROUP, _GROUP_END, _FIXED32 = range(6)


@dataclass(eq=False)
class _MessageType:
    """A message type: the fields that are messages, repeated or not."""

    repeated: dict[int, Self] = field(default_factory=dict)
    single: dict[int, Self] = field(default_factory=dict)


_RETIRED_LIST: Final = 1000  # of InstrumentationLibrarySpans, InstrumentationLibraryLogs
_RETIRED_NAME: Final = 4  # of a log record
_TRACE_ID_BYTES: Final = 16
# Fields of a log record whose wire type differs from the wire type of the field with the same number in a span.
_ONLY_IN_LOGS: Final = frozenset(
    {
        *((1, _FIXED64), (2, _VARINT), (6, _LENGTH), (7, _VARINT), (8, _FIXED32)),
        *((10, _LENGTH), (11, _FIXED64), (12, _LENGTH)),
    }
)
_ITEM_FIELD_TO_UNKNOWN: Final = (2 ^ 4) << 3  # in a tag: ScopeSpans and ScopeLogs have no field 4

_LEAF: Final = _MessageType()  # Status, EntityRef: no messages inside
_ANY: Final = _MessageType()
_KEY_VALUE: Final = _MessageType(single={2: _ANY})
_ANY.single = {5: _MessageType(repeated={1: _ANY}), 6: _MessageType(repeated={1: _KEY_VALUE})}
_RESOURCE: Final = _MessageType(repeated={1: _KEY_VALUE, 3: _LEAF})
_SCOPE: Final = _MessageType(repeated={3: _KEY_VALUE})
_EVENT: Final = _MessageType(repeated={3: _KEY_VALUE})
_LINK: Final = _MessageType(repeated={4: _KEY_VALUE})
_SPAN: Final = _MessageType(repeated={9: _KEY_VALUE, 11: _EVENT, 13: _LINK}, single={15: _LEAF})
_LOG: Final = _MessageType(repeated={6: _KEY_VALUE}, single={5: _ANY})


def _request(item: _MessageType) -> _MessageType:
    scoped = _MessageType(repeated={2: item}, single={1: _SCOPE})
    return _MessageType(repeated={1: _MessageType(repeated={2: scoped}, single={1: _RESOURCE})})


_REQUESTS: Final[dict[Signal, _MessageType]] = {"traces": _request(_SPAN), "logs": _request(_LOG)}
_RESOURCES: Final = [request.repeated[1] for request in _REQUESTS.values()]


class Findings(NamedTuple):
    """The warnings and other findings of a request that is not refused. `foreign_items`: the tags of items of another
    signal.
    """

    warnings: set[RequestWarning]
    foreign_items: list[int]

    def without_foreign_items(self, body: bytes) -> bytes:
        """`body`, in which items of another signal have the number of an unknown field."""
        if not self.foreign_items:
            return body
        changed = bytearray(body)
        for at in self.foreign_items:
            changed[at] ^= _ITEM_FIELD_TO_UNKNOWN
        return bytes(changed)


def prevalidate(signal: Signal, body: bytes, policy: Policy) -> Findings:
    """Check a request. Raises DecodeError for the first error in wire order: malformed, too deep, too many items or
    parts.
    """
    prevalidator = _Prevalidator(body, policy)
    prevalidator.message(_REQUESTS[signal], 0, len(body), 0)
    return prevalidator.findings


class _Prevalidator:
    def __init__(self, body: bytes, policy: Policy) -> None:
        self.body = body
        self.policy = policy
        self.items = 0
        self.parts = 0
        self.findings = Findings(set(), [])

    def error(self, reason: RequestRejection) -> DecodeError:
        return decode_error(reason, self.policy)

    def message(self, message: _MessageType, at: int, end: int, depth: int) -> None:
        """Walk the fields of `message` in body[at:end]. `depth` is the depth of the innermost enclosing value."""
        seen: set[int] = set()
        while at < end:
            tag_at = at
            number, wire, at = self.tag(at, end)
            if wire != _LENGTH:
                at = self.skip(number, wire, at, end, 0)
                continue
            size, at = self.length(at, end)
            if (message in _RESOURCES and number == _RETIRED_LIST) or (
                message is _LOG and number == _RETIRED_NAME and size
            ):
                self.findings.warnings.add(RequestWarning.RETIRED_NAMES)
            inner = message.repeated.get(number)
            if inner is not None:
                self.count(inner)
            else:
                inner = message.single.get(number)
                if inner is not None and number in seen:
                    self.count(inner)
                seen.add(number)
            if (inner is _SPAN or inner is _LOG) and (warning := self.other_signal(inner, at, at + size)):
                self.findings.warnings.add(warning)
                self.findings.foreign_items.append(tag_at)
            elif inner is not None:
                self.message(inner, at, at + size, self.enter_value(depth) if inner is _ANY else depth)
            at += size

    def other_signal(self, message: _MessageType, at: int, end: int) -> RequestWarning | None:
        """The warning for an item that evidently belongs to another signal. None for any other item."""
        if at == end:
            return None
        begins_with_bytes = self.body[at] == 1 << 3 | _LENGTH  # a trace id, or the name of a metric
        if message is _LOG:
            if not begins_with_bytes:
                return None
            is_span = self.body[at + 1 : at + 2] == bytes((_TRACE_ID_BYTES,))
            return RequestWarning.SPANS_SENT_AS_LOGS if at + 1 < end and is_span else RequestWarning.UNSUPPORTED_SIGNAL
        return RequestWarning.LOGS_SENT_AS_SPANS if not begins_with_bytes and self.is_log(at, end) else None

    def is_log(self, at: int, end: int) -> bool:
        """Whether a field of a log record comes before a trace id of a span, and before any malformed field."""
        try:
            while at < end:
                number, wire, at = self.tag(at, end)
                at = self.skip(number, wire, at, end, 0)
                if (number, wire) in _ONLY_IN_LOGS:
                    return True
                if (number, wire) == (1, _LENGTH):
                    return False
        except DecodeError:
            pass
        return False

    def count(self, message: _MessageType) -> None:
        if message is _SPAN or message is _LOG:
            self.items += 1
            if self.items > self.policy.max_items:
                raise self.error(RequestRejection.TOO_MANY_ITEMS)
        self.parts += 1
        if self.parts > self.policy.max_parts:
            raise self.error(RequestRejection.TOO_MANY_PARTS)

    def enter_value(self, depth: int) -> int:
        if depth == VALUE_DEPTH:
            raise self.error(RequestRejection.TOO_DEEP)
        return depth + 1

    def tag(self, at: int, end: int) -> tuple[int, int, int]:
        tag, after = self.varint(at, end, 5)
        if tag > 0xFFFFFFFF:
            raise self.error(RequestRejection.MALFORMED)  # a tag of more than 32 bits
        if tag >> 3 == 0:
            raise self.error(RequestRejection.MALFORMED)  # field number 0
        return tag >> 3, tag & 7, after

    def length(self, at: int, end: int) -> tuple[int, int]:
        size, after = self.varint(at, end, 5)
        if size > end - after:
            raise self.error(RequestRejection.MALFORMED)  # a length beyond the end of its message
        return size, after

    def varint(self, at: int, end: int, max_bytes: int) -> tuple[int, int]:
        value = 0
        for index in range(max_bytes):
            if at + index >= end:
                raise self.error(RequestRejection.MALFORMED)  # a truncated varint
            byte = self.body[at + index]
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value, at + index + 1
        raise self.error(RequestRejection.MALFORMED)  # a varint with too many bytes

    def skip(self, number: int, wire: int, at: int, end: int, groups: int) -> int:
        """The end of the field whose tag ends at `at`, inside `groups` nested groups."""
        if wire == _VARINT:
            value, after = self.varint(at, end, 10)
            if value >= 1 << 64:
                raise self.error(RequestRejection.MALFORMED)  # a number of more than 64 bits
            return after
        if wire == _LENGTH:
            size, at = self.length(at, end)
            return at + size
        if wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
            if at > end:
                raise self.error(RequestRejection.MALFORMED)  # a truncated fixed-width number
            return at
        if wire == _GROUP:
            return self.group(number, at, end, groups + 1)
        raise self.error(RequestRejection.MALFORMED)  # wire types 6 and 7, and the end of a group that is not open

    def group(self, number: int, at: int, end: int, groups: int) -> int:
        if groups > GROUP_DEPTH:
            raise self.error(RequestRejection.TOO_DEEP)
        while at < end:
            inner, wire, at = self.tag(at, end)
            if wire == _GROUP_END and inner == number:
                return at
            at = self.skip(inner, wire, at, end, groups)
        raise self.error(RequestRejection.MALFORMED)  # an unterminated group
