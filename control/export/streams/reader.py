"""What an exporter needs of a stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
MAX_ROWS: Final = 50_000  # of a batch
MAX_BYTES: Final = 24 * 2**20  # of a batch as columns of Arrow, some more with its last page


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as a `pyarrow.Table` of the stream's schema; the cursor behind them, and how it is shown. Without rows, only
    the cursor has moved.
    """

    table: Any
    until: bytes
    until_at: datetime | None
    until_id: str
    is_last: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """The organization whose rows are exported, and the slugs of its projects by id."""

    org_id: str
    projects: Mapping[int, str]


class StreamReader(Protocol):
    """Reads one stream. The methods raise StoreError and DatabaseUnavailable."""

    async def read(self, scope: Scope, cursor: bytes | None) -> Batch | None:
        """The next rows behind a cursor (None: from the beginning); None: there are none yet."""

    async def read_again(self, scope: Scope, cursor: bytes | None, until: bytes) -> Any:
        """The rows between two cursors, in the same order: those of `read`, less what was erased or is newer since."""


def from_micros(time_us: int) -> datetime:
    """A time in microseconds since 1970."""
    return _EPOCH + time_us * _MICROSECOND


def to_micros(time: datetime) -> int:
    """Reverses `from_micros`."""
    return (time - _EPOCH) // _MICROSECOND
