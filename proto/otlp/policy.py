"""What a decoder is told and what it answers: limits and policy in, counts and columns out. See docs/codec.md."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

Signal = Literal["traces", "logs"]

MAX_NANOS: Final = 2**63 - 1  # 2262-04-11, the last DateTime64(9)
NANOS_PER_DAY: Final = 86_400 * 10**9
YEAR_2000_NS: Final = 946_684_800 * 10**9
VALUE_DEPTH: Final = 32
GROUP_DEPTH: Final = 32

SENSITIVE_WORDS: Final = (
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "secrets",
    "client_secret",
    "token",
    "access_token",
    "accesstoken",
    "refresh_token",
    "id_token",
    "authorization",
    "auth",
    "cookie",
    "set_cookie",
    "cookies",
    "api_key",
    "apikey",
    "access_key",
    "secret_key",
    "private_key",
    "privatekey",
    "credential",
    "credentials",
    "session_id",
    "sessionid",
    "csrf",
    "xsrf",
    "ssn",
    "card_number",
    "cardnumber",
    "cvv",
    "cvc",
)


class ItemRejection(StrEnum):
    """Why an item was rejected: exactly one per rejected item."""

    INVALID_TRACE_ID = "invalid_trace_id"
    INVALID_SPAN_ID = "invalid_span_id"
    MISSING_START_TIME = "missing_start_time"
    START_TIME_IN_FUTURE = "start_time_in_future"
    START_TIME_TOO_OLD = "start_time_too_old"
    TIME_IN_FUTURE = "time_in_future"
    TIME_TOO_OLD = "time_too_old"
    INVALID_FIELD = "invalid_field"  # OTLP/JSON: something in the item that its field cannot hold
    INVALID_RESOURCE = "invalid_resource"  # the same in the resource that it belongs to
    INVALID_SCOPE = "invalid_scope"


class ItemModification(StrEnum):
    """What was changed in accepted items; an item counts once for each that holds."""

    TRUNCATED = "truncated"
    REPAIRED = "repaired"
    CLAMPED = "clamped"
    SCRUBBED = "scrubbed"
    DEDUPLICATED = "deduplicated"
    REVERSED = "reversed"


class RequestRejection(StrEnum):
    """Why a whole request cannot be decoded."""

    MALFORMED = "malformed"
    TOO_DEEP = "too_deep"
    TOO_MANY_ITEMS = "too_many_items"
    TOO_MANY_PARTS = "too_many_parts"
    RESOURCES_TOO_LARGE = "resources_too_large"


class DecodeError(Exception):
    """The request as a whole is refused; `reason` says why, the message names the limit or the fault."""

    def __init__(self, reason: RequestRejection, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Limits in force for one request. Sizes are bytes of UTF-8; times are nanoseconds. Journals record it."""

    max_items: int = 50_000
    max_parts: int = 2_000_000
    max_key_bytes: int = 256
    max_value_bytes: int = 16 * 2**10
    max_name_bytes: int = 2**10
    max_body_bytes: int = 2**20
    max_attributes: int = 128
    max_events: int = 128
    max_links: int = 128
    max_exceptions: int = 4096
    # 0: no limit. So it is for the policies of journals from before there was one.
    max_resource_bytes: int = 0
    max_scope_bytes: int = 0
    max_repeated_bytes: int = 0
    max_future_ns: int = 3600 * 10**9
    retention_ns: int = 30 * NANOS_PER_DAY  # 0: keep for ever, then nothing before the year 2000 is taken
    sensitive_words: tuple[str, ...] = SENSITIVE_WORDS

    def min_time_ns(self, now_ns: int) -> int:
        """The oldest time that is accepted at `now_ns`."""
        if self.retention_ns == 0:
            return YEAR_2000_NS
        return max(now_ns - self.retention_ns, YEAR_2000_NS)


def decode_error(reason: RequestRejection, policy: Policy) -> DecodeError:
    """The error for `reason`, its message naming the limit of `policy` that was passed."""
    messages = {
        RequestRejection.MALFORMED: "The body is not a well-formed protobuf message of its kind.",
        RequestRejection.TOO_DEEP: (
            f"Values nest deeper than {VALUE_DEPTH} levels, or unknown groups deeper than {GROUP_DEPTH}."
        ),
        RequestRejection.TOO_MANY_ITEMS: f"More than {policy.max_items} spans or log records in one request.",
        RequestRejection.TOO_MANY_PARTS: (
            f"More than {policy.max_parts} spans, attributes, events, links and array elements in one request."
        ),
        RequestRejection.RESOURCES_TOO_LARGE: (
            f"Resource and scope attributes, counted for each item, are more than {policy.max_repeated_bytes} bytes: "
            "send fewer items in a request, or fewer resource attributes."
        ),
    }
    return DecodeError(reason, messages[reason])


class FieldFaults:
    """Items of one request in OTLP/JSON that are rejected before protobuf is made of the others."""

    __slots__ = ("first", "rejected")

    def __init__(self) -> None:
        self.rejected: Counter[str] = Counter()  # by Reason
        self.first = ""  # where the first fault is and what is wrong there

    def add(self, reason: ItemRejection, items: int, fault: str) -> None:
        if items:
            self.rejected[reason] += items
            self.first = self.first or fault


class RaisedException(NamedTuple):
    """An exception found in an accepted item, as it is stored (scrubbed, truncated)."""

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
    """One insert: the rows of `table` on `day` (days since 1970-01-01) as Native bytes in pieces, never joined."""

    table: str
    day: int
    rows: int
    pieces: Sequence[bytes]


class DecodedPayload(Protocol):
    """One request, decoded: every item is accepted or rejected for one reason."""

    @property
    def signal(self) -> Signal: ...
    @property
    def project_id(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def days(self) -> Sequence[int]:
        """Days of the accepted items (since 1970-01-01), ascending: each becomes a block of its own."""

    @property
    def symbols(self) -> int:
        """About how many distinct keys and names its rows have: what dictionaries of an insert grow by. The two
        decoders may differ here.
        """

    def large_origins(self, over: int) -> Mapping[int, int]:
        """Of the resources and scopes, as they are stored, that have more than so many bytes: their sizes by a hash of
        64 bits, which is another in each process.
        """

    @property
    def rejected(self) -> Mapping[str, int]:
        """Rejected items by `Reason`; only reasons that occurred."""

    @property
    def first_fault(self) -> str:
        """Of a request in OTLP/JSON: where the first value is that its field cannot hold, and why; empty for none."""

    @property
    def modified(self) -> Mapping[str, int]:
        """Accepted items by `Modification`; only those that occurred."""

    @property
    def exceptions(self) -> Sequence[RaisedException]: ...
    @property
    def exceptions_over_limit(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """About how much memory the columns hold, for budgets; the two decoders may differ here."""
