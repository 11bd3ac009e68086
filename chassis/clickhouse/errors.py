"""Errors of ClickHouse, and whether the same call may succeed later.

| error | meaning | retry the same call |
|---|---|---|
| StoreUnavailable | unavailable, overloaded, full, or not set up as required | yes, later |
| StoreBusy | this process's queue for ClickHouse is full | yes, soon |
| StoreRejected | this statement or this block is rejected | no |
| QueryTimeout, QueryTooLarge | a limit of this read was reached | no, request less |
| StoreMisconfigured | the URL, the directory or the credentials are wrong | after an operator has corrected them |
"""

from collections.abc import Mapping
from typing import Final

from chassis.errors import StartupError


class StoreError(Exception):
    """Base of the family. `code` is ClickHouse's error number, if it sent one."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class StoreUnavailable(StoreError):
    """ClickHouse cannot do this now; the call itself is valid."""


class StoreBusy(StoreUnavailable):
    """Too many calls already wait for a handle."""


class StoreRejected(StoreError):
    """ClickHouse rejects this statement or block, and will reject it again."""


class QueryTimeout(StoreError):
    """A read took longer than its limit."""


class QueryTooLarge(StoreError):
    """A read reached its limit of memory or rows."""


class StoreMisconfigured(StoreUnavailable, StartupError):
    """The URL, the directory or the credentials cannot work; the message is one sentence for an operator."""

    def __init__(self, message: str, code: int | None = None, *, exit_code: int = 2) -> None:
        StoreUnavailable.__init__(self, message, code)
        self.exit_code = exit_code


TOO_MANY_PARTS: Final = 252
MEMORY_LIMIT_EXCEEDED: Final = 241
UNKNOWN_DATABASE: Final = 81

# Error codes of a read that are caused by the store and not by the statement, with their meaning.
_STORE_FAULTS: Final[Mapping[int, str]] = {
    **dict.fromkeys((16, 60, 81), "a column, table or database is missing"),
    **dict.fromkeys((164, 242), "read-only"),
    115: "an older release, without one of Sluice's settings",
    **dict.fromkeys((192, 193, 194, 497, 516), "credentials and rights"),
    **dict.fromkeys((201, 202, 203, 241, 252, 439, 745), "overload: quota, connections, memory, parts, threads"),
    **dict.fromkeys((159, 160, 198, 209, 210, 279, 1000), "time, name lookup, network"),
    **dict.fromkeys((225, 236, 244, 254, 285, 286, 289, 305, 319, 659, 668, 999), "replication and its keeper"),
    **dict.fromkeys((74, 75, 76, 87, 88, 243, 425, 499), "files, disk space, object storage"),
    **dict.fromkeys((394, 473), "cancelled, deadlock avoided"),
}
# Error codes of an insert that only its block can cause. The statement, its columns and its settings are the same for
# every block, so errors about them (60, 62, 115, ...) mean that the server is set up wrongly, and no block is rejected
# because of them. An unexpected end of data (3, 32, 33) does not reject a block either: Sluice's blocks are complete,
# so a broken connection truncated the data.
_BLOCK_FAULTS: Final[Mapping[int, str]] = {
    **dict.fromkeys((6, 25, 26, 27, 38, 41, 72, 130, 376, 441, 467, 563, 632, 675, 676), "a value cannot be parsed"),
    **dict.fromkeys((53, 70, 122, 169, 170, 386), "a type does not fit"),
    **dict.fromkeys((7, 9, 13, 19, 20, 120, 190, 366), "columns, tuples or arrays of the wrong size"),
    **dict.fromkeys((69, 128, 131, 321, 407, 691), "a value out of range: number, length, decimal, enumeration"),
    **dict.fromkeys((117, 248, 349, 469, 760), "data, partition, NULL, constraint, text encoding"),
}
_CREDENTIALS: Final = frozenset((192, 193, 194, 516))
_TIME_LIMITS: Final = frozenset((159, 160))
_SIZE_LIMITS: Final = frozenset((158, 307, 396))
_MESSAGE_CHARS: Final = 400


def from_insert(code: int | None, text: str) -> StoreError:
    """Classify the failure of an insert. An unknown code counts as retryable, because clients drop data that is
    rejected permanently. One code has two meanings: too many parts, which is backpressure, and too many partitions,
    which the block causes.
    """
    message = _shorten(text)
    if code in _BLOCK_FAULTS or (code == TOO_MANY_PARTS and "partitions for single INSERT" in text):
        return StoreRejected(message, code)
    return StoreUnavailable(message, code)


def from_query(code: int | None, text: str) -> StoreError:
    """Classify the failure of a read. Reaching a limit of the query is the caller's fault, reaching a limit of the
    whole server is not.
    """
    message = _shorten(text)
    if code in _TIME_LIMITS:
        return QueryTimeout(message, code)
    if code in _SIZE_LIMITS or (code == MEMORY_LIMIT_EXCEEDED and "(total)" not in text):
        return QueryTooLarge(message, code)
    if code is None or code in _STORE_FAULTS:
        return StoreUnavailable(message, code)
    return StoreRejected(message, code)


def from_open(code: int | None, text: str) -> StoreError:
    """Classify the failure of opening a client."""
    message = _shorten(text)
    if code in _CREDENTIALS:
        return StoreMisconfigured(f"ClickHouse rejected the user or password: {message}", code)
    if code == UNKNOWN_DATABASE:
        return StoreMisconfigured(
            f"The ClickHouse database does not exist. Run `sluice migrate` to create it: {message}", code
        )
    return StoreUnavailable(f"ClickHouse cannot be reached: {message}", code)


def reason(error: BaseException) -> str:
    """The text of an error. For a network error this is the operating system's text, because the HTTP client's own
    errors around it only describe its pools and retries.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return cause.strerror or str(cause)
        cause = cause.__cause__ or cause.__context__
    return str(error)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE_CHARS else f"{line[:_MESSAGE_CHARS]}..."
