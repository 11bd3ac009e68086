"""The interface of a stream that an exporter uses: read the rows behind a cursor, and read the same rows again."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

MAX_ROWS: Final = 50_000  # per batch
MAX_BYTES: Final = 24 * 2**20  # per batch as Arrow columns, slightly more with its last page


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as a `pyarrow.Table` with the stream's schema, the cursor behind them, and the cursor as text. If there are
    no rows, only the cursor has moved.
    """

    table: Any
    until: bytes
    until_at: datetime | None
    until_id: str
    is_last: bool


@dataclass(frozen=True, slots=True)
class ExportSource:
    """The source of exported rows: an organization, and the slugs of its projects by id."""

    org_id: str
    projects: Mapping[int, str]


class StreamReader(Protocol):
    """Reads one stream. The methods raise StoreError and DatabaseUnavailable."""

    async def read(self, source: ExportSource, cursor: bytes | None) -> Batch | None:
        """Read the next rows behind a cursor (None: from the beginning). Returns None if there are none yet."""

    async def read_again(self, source: ExportSource, cursor: bytes | None, until: bytes) -> Any:
        """Read the rows between two cursors again, in the same order. Rows that were erased or replaced by newer ones
        since `read` are missing.
        """
