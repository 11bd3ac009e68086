"""What can go wrong between us and ClickHouse, and whether the same call may succeed later.

| error | meaning | the same call again |
|---|---|---|
| StoreUnavailable | away, overloaded, full, or not set up as we need it | yes, later |
| StoreBusy | our own queue in front of it is full | yes, soon |
| StoreRejected | this statement or this block is refused | no |
| QueryTimeout, QueryTooLarge | a limit of this read was met | no, ask for less |
| StoreMisconfigured | the URL, the directory or the credentials are wrong | after an operator acted |
"""

from collections.abc import Mapping
from typing import Final

from chassis.errors import StartupError


class StoreError(Exception):
    """Base of the family. `code` is ClickHouse's error number, where it gave one."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class StoreUnavailable(StoreError):
    """ClickHouse cannot do this now; nothing is wrong with what was asked."""


class StoreBusy(StoreUnavailable):
    """Too many calls already wait for a handle."""


class StoreRejected(StoreError):
    """ClickHouse refuses this statement or block, and will again."""


class QueryTimeout(StoreError):
    """A read took longer than its limit."""


class QueryTooLarge(StoreError):
    """A read met its limit of memory or rows."""


class StoreMisconfigured(StoreUnavailable, StartupError):
    """The URL, the directory or the credentials cannot work; the message is one sentence for an operator."""

    def __init__(self, message: str, code: int | None = None) -> None:
        StoreUnavailable.__init__(self, message, code)
        self.exit_code = 2


TOO_MANY_PARTS: Final = 252
MEMORY_LIMIT_EXCEEDED: Final = 241
UNKNOWN_DATABASE: Final = 81

# Codes that speak about the store and not about the block or statement, and what they say.
_STORE_FAULTS: Final[Mapping[int, str]] = {
    **dict.fromkeys((16, 60, 81), "a column, table or database is missing"),
    **dict.fromkeys((164, 242), "read-only"),
    **dict.fromkeys((192, 193, 194, 497, 516), "credentials and rights"),
    **dict.fromkeys((201, 202, 203, 241, 252, 439, 745), "overload: quota, connections, memory, parts, threads"),
    **dict.fromkeys((159, 160, 198, 209, 210, 279, 1000), "time, name lookup, network"),
    **dict.fromkeys((225, 236, 244, 254, 285, 286, 289, 305, 319, 321, 659, 668, 999), "replication and its keeper"),
    **dict.fromkeys((74, 75, 76, 87, 88, 243, 425, 499), "files, disk space, object storage"),
    **dict.fromkeys((394, 473), "cancelled, deadlock avoided"),
}
# An insert's statement and settings are the same for every block: a server that does not understand them is set up
# otherwise, or of another release, and no block is to blame.
_INSERT_NOT_UNDERSTOOD: Final = frozenset((46, 48, 62, 73, 115, 344, 452))
_CREDENTIALS: Final = frozenset((192, 193, 194, 516))
_TIME_LIMITS: Final = frozenset((159, 160))
_SIZE_LIMITS: Final = frozenset((158, 307, 396))
_MESSAGE_CHARS: Final = 400


def from_insert(code: int | None, text: str) -> StoreError:
    """Classify the failure of an insert. Too many parts is backpressure; too many partitions, same code, is the
    block's fault.
    """
    message = _shorten(text)
    if code == TOO_MANY_PARTS and "partitions for single INSERT" in text:
        return StoreRejected(message, code)
    if code is None or code in _STORE_FAULTS or code in _INSERT_NOT_UNDERSTOOD:
        return StoreUnavailable(message, code)
    return StoreRejected(message, code)


def from_query(code: int | None, text: str) -> StoreError:
    """Classify the failure of a read. A limit of the query is the caller's, one of the whole server is not."""
    message = _shorten(text)
    if code in _TIME_LIMITS:
        return QueryTimeout(message, code)
    if code in _SIZE_LIMITS or (code == MEMORY_LIMIT_EXCEEDED and "(total)" not in text):
        return QueryTooLarge(message, code)
    if code is None or code in _STORE_FAULTS:
        return StoreUnavailable(message, code)
    return StoreRejected(message, code)


def from_open(code: int | None, text: str) -> StoreError:
    """Classify the failure of a first contact."""
    message = _shorten(text)
    if code in _CREDENTIALS:
        return StoreMisconfigured(f"ClickHouse refuses the user or the password: {message}", code)
    if code == UNKNOWN_DATABASE:
        return StoreMisconfigured(
            f"The ClickHouse database does not exist; `sluice migrate` creates it: {message}", code
        )
    return StoreUnavailable(f"ClickHouse cannot be reached: {message}", code)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE_CHARS else f"{line[:_MESSAGE_CHARS]}..."
