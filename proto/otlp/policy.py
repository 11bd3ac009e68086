"""The interface of the decoders: the policy with its limits, the reasons of rejections, and the decoded request.

See docs/codec.md.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from proto.otlp.sensitive_keys import SENSITIVE_WORDS, is_exemptible

__all__ = [
    "GROUP_DEPTH",
    "MAX_NANOS",
    "NANOS_PER_DAY",
    "SENSITIVE_WORDS",
    "VALUE_DEPTH",
    "YEAR_2000_NS",
    "Block",
    "DecodeError",
    "DecodedPayload",
    "FieldFaults",
    "ItemModification",
    "ItemRejection",
    "Policy",
    "RaisedException",
    "RequestRejection",
    "Signal",
    "decode_error",
    "is_exemptible",
]

Signal = Literal["traces", "logs"]

MAX_NANOS: Final = 2**63 - 1  # 2262-04-11, the last DateTime64(9)
NANOS_PER_DAY: Final = 86_400 * 10**9
YEAR_2000_NS: Final = 946_684_800 * 10**9
# The short names of severity numbers, upper case: https://opentelemetry.io/docs/specs/otel/logs/data-model/
SEVERITY_NUMBERS: Final[Mapping[bytes, int]] = {
    f"{name}{number or ''}".encode(): first + max(number - 1, 0)
    for first, name in ((1, "TRACE"), (5, "DEBUG"), (9, "INFO"), (13, "WARN"), (17, "ERROR"), (21, "FATAL"))
    for number in (0, 2, 3, 4)
}
# Bytes of the column `truncations` for an item, its resource and its scope. Truncations that do not fit are summed up.
MAX_ITEM_TRUNCATIONS: Final = 8 * 2**10
MAX_ORIGIN_TRUNCATIONS: Final = 2**10
VALUE_DEPTH: Final = 32
GROUP_DEPTH: Final = 32


class ItemRejection(StrEnum):
    """The reason why an item was rejected. A rejected item has exactly one reason."""

    INVALID_TRACE_ID = "invalid_trace_id"
    INVALID_SPAN_ID = "invalid_span_id"
    MISSING_START_TIME = "missing_start_time"
    START_TIME_IN_FUTURE = "start_time_in_future"
    START_TIME_TOO_OLD = "start_time_too_old"
    TIME_IN_FUTURE = "time_in_future"
    TIME_TOO_OLD = "time_too_old"
    INVALID_FIELD = "invalid_field"  # OTLP/JSON: the item has a value that its field cannot hold
    INVALID_RESOURCE = "invalid_resource"  # OTLP/JSON: the same in its resource
    INVALID_SCOPE = "invalid_scope"  # OTLP/JSON: the same in its scope


class ItemModification(StrEnum):
    """How accepted items were modified. An item counts once for each kind of modification."""

    TRUNCATED = "truncated"
    REPAIRED = "repaired"
    CLAMPED = "clamped"
    SCRUBBED = "scrubbed"
    DEDUPLICATED = "deduplicated"
    REVERSED = "reversed"


class RequestWarning(StrEnum):
    """The parts of an accepted request that Sluice did not read, or did not read as they were sent. The response names
    each kind once (`proto.otlp.responses`).
    """

    SNAKE_CASE = "snake_case"  # OTLP/JSON: members in snake_case, which are read
    ENUM_NAMES = "enum_names"  # OTLP/JSON: names of enum values, which are read
    REPEATED_LIST = "repeated_list"  # OTLP/JSON: a list given twice in one message, which is joined
    REPEATED_MEMBER = "repeated_member"  # OTLP/JSON: another member given twice, of which the last one is read
    RETIRED_NAMES = "retired_names"  # members of OTLP before 1.0, which are not read
    SPANS_SENT_AS_LOGS = "spans_sent_as_logs"  # not stored
    LOGS_SENT_AS_SPANS = "logs_sent_as_spans"  # not stored
    UNSUPPORTED_SIGNAL = "unsupported_signal"  # metrics or profiles; not stored


class RequestRejection(StrEnum):
    """The reason why the decoder refuses a request."""

    MALFORMED = "malformed"
    TOO_DEEP = "too_deep"
    TOO_MANY_ITEMS = "too_many_items"
    TOO_MANY_PARTS = "too_many_parts"
    RESOURCES_TOO_LARGE = "resources_too_large"
    IRREGULAR_JSON = "irregular_json"  # refused by the gateway, because reading it would take too long


class DecodeError(Exception):
    """The complete request is refused. The message names the limit or the error."""

    def __init__(self, reason: RequestRejection, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The limits for one request. Sizes are bytes of UTF-8, and times are nanoseconds. The journal records the policy
    of each request.
    """

    max_items: int = 50_000
    max_parts: int = 2_000_000
    max_key_bytes: int = 256
    max_value_bytes: int = 64 * 2**10
    max_name_bytes: int = 2**10
    max_body_bytes: int = 2**20
    max_attributes: int = 128
    max_events: int = 128
    max_links: int = 128
    max_exceptions: int = 4096
    # 0 means no limit, as in journals that were written before these limits existed.
    max_resource_bytes: int = 0
    max_scope_bytes: int = 0
    max_repeated_bytes: int = 0
    max_future_ns: int = 3600 * 10**9
    retention_ns: int = 30 * NANOS_PER_DAY  # 0: unlimited; items before the year 2000 are rejected anyway
    sensitive_words: tuple[str, ...] = SENSITIVE_WORDS
    exempt_keys: tuple[str, ...] = ()  # full keys to which the value rules apply, but not the key rule

    def min_time_ns(self, now_ns: int) -> int:
        """The earliest accepted time at `now_ns`, in nanoseconds since 1970."""
        if self.retention_ns == 0:
            return YEAR_2000_NS
        return max(now_ns - self.retention_ns, YEAR_2000_NS)


def decode_error(reason: RequestRejection, policy: Policy) -> DecodeError:
    """The error for `reason`, which must not be IRREGULAR_JSON. The message names the exceeded limit of `policy`."""
    messages = {
        RequestRejection.MALFORMED: "The body is not a valid OTLP protobuf message.",
        RequestRejection.TOO_DEEP: (
            f"Values are nested more than {VALUE_DEPTH} levels deep, or unknown protobuf groups are nested more than "
            f"{GROUP_DEPTH} levels deep."
        ),
        RequestRejection.TOO_MANY_ITEMS: (
            f"The request has more than {policy.max_items} spans or log records. Send smaller batches."
        ),
        RequestRejection.TOO_MANY_PARTS: (
            f"The request has more than {policy.max_parts} spans, log records, attributes, events, links and array "
            "elements. Send smaller batches."
        ),
        RequestRejection.RESOURCES_TOO_LARGE: (
            "The attributes of resources and scopes, which are stored with each item, exceed "
            f"{policy.max_repeated_bytes} bytes in total. Send fewer items per request, or fewer resource attributes."
        ),
    }
    return DecodeError(reason, messages[reason])


class FieldFaults:
    """The rejected items and the warnings of an OTLP/JSON request, found before the request is converted to
    protobuf.
    """

    __slots__ = ("first", "rejected", "warnings")

    def __init__(self) -> None:
        self.warnings: set[RequestWarning] = set()
        self.rejected: Counter[str] = Counter()  # by ItemRejection
        self.first = ""  # place and description of the first error

    def add(self, reason: ItemRejection, items: int, fault: str) -> None:
        if items:
            self.rejected[reason] += items
            self.first = self.first or fault


class RaisedException(NamedTuple):
    """An exception in an accepted item, as stored (scrubbed, truncated)."""

    time_ns: int
    trace_id: bytes  # 16 bytes, zeros for a log record without one
    span_id: bytes  # 8 bytes
    type: str
    message: str
    stacktrace: str
    service_name: str
    environment: str
    release: str


class Block(NamedTuple):
    """The data of one insert: the rows of `table` of one `day` (days since 1970-01-01) in the Native format, in several
    pieces.
    """

    table: str
    day: int
    rows: int
    pieces: Sequence[bytes]


class DecodedPayload(Protocol):
    """One decoded request. Every item of the request is accepted, or rejected for one reason."""

    @property
    def signal(self) -> Signal: ...
    @property
    def project_id(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def days(self) -> Sequence[int]:
        """The days of the accepted items (since 1970-01-01), ascending. Each day becomes a separate block."""

    @property
    def symbols(self) -> int:
        """The approximate number of distinct keys and names in the rows, by which the dictionaries of an insert grow.
        The two decoders may return different numbers.
        """

    def large_origins(self, over: int) -> Mapping[int, int]:
        """The sizes in bytes of the stored resources and scopes that exceed `over` bytes, by a 64-bit hash. The hash
        differs between processes.
        """

    @property
    def rejected(self) -> Mapping[str, int]:
        """The number of rejected items by `ItemRejection`, with only the reasons that occurred."""

    @property
    def first_fault(self) -> str:
        """For OTLP/JSON: place and description of the first value that its field cannot hold. Empty if there is
        none.
        """

    @property
    def warnings(self) -> Sequence[RequestWarning]:
        """The kinds of warnings, without repetitions, in the order of `RequestWarning`."""

    @property
    def modified(self) -> Mapping[str, int]:
        """The number of accepted items by `ItemModification`, with only the modifications that occurred."""

    @property
    def exceptions(self) -> Sequence[RaisedException]: ...
    @property
    def exceptions_over_limit(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """The approximate memory of the columns in bytes, for budgets. The two decoders may return different
        numbers.
        """
