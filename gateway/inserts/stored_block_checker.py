"""Checks whether the blocks of a batch are in ClickHouse, by batch id and not by ClickHouse's deduplication log.

That log outlives the parts that it records: after a power loss a part may be gone while its token is still known, and
an insert under that token is answered with success and stores nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from chassis.clickhouse import QueryLimits
from gateway.journal import Batch, TableDay
from proto.storage.tables import ERROR_OCCURRENCES, INGEST_OUTCOMES, LOGS, SPANS

_TIME_COLUMNS: Final[Mapping[str, str]] = {
    SPANS.name: "start_time",
    LOGS.name: "time",
    ERROR_OCCURRENCES.name: "time",
    INGEST_OUTCOMES.name: "time",
}
TABLES_WITH_BATCH_ID: Final = frozenset(_TIME_COLUMNS)  # the other tables aggregate rows, and have no batch id
_LIMITS: Final = QueryLimits(max_seconds=300, max_result_rows=0, max_threads=1)
_BATCHES_PER_QUERY: Final = 1_000  # batch ids in a statement


class TelemetryReader(Protocol):
    """The ClickHouse operations that the checks use. They raise StoreError."""

    async def query(
        self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits
    ) -> list[tuple[object, ...]]: ...


class StoredBlockChecker:
    """Queries ClickHouse. Its methods raise StoreError."""

    def __init__(self, store: TelemetryReader) -> None:
        self._store = store

    async def find_missing(self, batches: Sequence[Batch], oldest_day: int) -> dict[int, set[TableDay]]:
        """The tables and days of finished batches, by batch id, of which not one row is stored. Days before
        `oldest_day` are past their retention and are not checked.
        """
        expected: dict[TableDay, list[int]] = defaultdict(list)
        for batch in batches:
            for table_day in batch.rows or ():
                if table_day[0] in TABLES_WITH_BATCH_ID and table_day[1] >= oldest_day:
                    expected[table_day].append(batch.batch_id)
        missing: dict[int, set[TableDay]] = defaultdict(set)
        for table_day, ids in expected.items():
            stored = await self.find_stored(table_day, ids)
            for batch_id in set(ids) - stored:
                missing[batch_id].add(table_day)
        return missing

    async def find_stored(self, table_day: TableDay, batch_ids: Sequence[int]) -> set[int]:
        """Those of the batches that have a row in the table on that day."""
        stored: set[int] = set()
        for start in range(0, len(batch_ids), _BATCHES_PER_QUERY):
            stored |= await self._query_stored(table_day, batch_ids[start : start + _BATCHES_PER_QUERY])
        return stored

    async def _query_stored(self, table_day: TableDay, batch_ids: Sequence[int]) -> set[int]:
        table, day = table_day
        sql = (
            f"SELECT batch_id FROM {table} WHERE toDate({_TIME_COLUMNS[table]}) = toDate({{day:UInt16}}) "
            "AND batch_id IN {ids:Array(UInt64)} GROUP BY batch_id"
        )
        rows = await self._store.query(sql, {"day": day, "ids": list(batch_ids)}, limits=_LIMITS)
        return {int(str(batch_id)) for (batch_id,) in rows}
