"""What an exporter needs of a stream: the rows behind a cursor, and the same rows again."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

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
class ExportSource:
    """Whose rows are exported: an organization, and the slugs of its projects by id."""

    org_id: str
    projects: Mapping[int, str]


class StreamReader(Protocol):
    """Reads one stream. The methods raise StoreError and DatabaseUnavailable."""

    async def read(self, source: ExportSource, cursor: bytes | None) -> Batch | None:
        """The next rows behind a cursor (None: from the beginning); None: there are none yet."""

    async def read_again(self, source: ExportSource, cursor: bytes | None, until: bytes) -> Any:
        """The rows between two cursors, in the same order: those of `read`, less what was erased or is newer since."""
