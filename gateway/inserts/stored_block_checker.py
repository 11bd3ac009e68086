"""Whether the blocks of a batch are in ClickHouse: counted by batch id, whatever the deduplication log says.

That log outlives the parts that it tells of: after a power loss a part may be gone while its token is still known, and
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
TABLES_WITH_BATCH_ID: Final = frozenset(_TIME_COLUMNS)  # the other tables add rows up, and know of no batch
_LIMITS: Final = QueryLimits(max_seconds=300, max_result_rows=0, max_threads=1)
_BATCHES_PER_QUERY: Final = 1_000  # batches a statement names


class TelemetryReader(Protocol):
    """What is needed of ClickHouse."""

    async def query(
        self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits
    ) -> list[tuple[object, ...]]: ...


class StoredBlockChecker:
    """Asks ClickHouse; raises StoreError."""

    def __init__(self, store: TelemetryReader) -> None:
        self._store = store

    async def find_missing(self, batches: Sequence[Batch], oldest_day: int) -> dict[int, set[TableDay]]:
        """Of finished batches, the places of which not one row is there. Days before `oldest_day` are past their
        retention, and not looked at.
        """
        asked: dict[TableDay, list[int]] = defaultdict(list)
        for batch in batches:
            for place in batch.rows or ():
                if place[0] in TABLES_WITH_BATCH_ID and place[1] >= oldest_day:
                    asked[place].append(batch.batch_id)
        missing: dict[int, set[TableDay]] = defaultdict(set)
        for place, ids in asked.items():
            there = await self.find_stored(place, ids)
            for batch_id in set(ids) - there:
                missing[batch_id].add(place)
        return missing

    async def find_stored(self, table_day: TableDay, batch_ids: Sequence[int]) -> set[int]:
        """Those of the batches that have a row there."""
        there: set[int] = set()
        for start in range(0, len(batch_ids), _BATCHES_PER_QUERY):
            there |= await self._query_stored(table_day, batch_ids[start : start + _BATCHES_PER_QUERY])
        return there

    async def _query_stored(self, table_day: TableDay, batch_ids: Sequence[int]) -> set[int]:
        table, day = table_day
        sql = (
            f"SELECT batch_id FROM {table} WHERE toDate({_TIME_COLUMNS[table]}) = toDate({{day:UInt16}}) "
            "AND batch_id IN {ids:Array(UInt64)} GROUP BY batch_id"
        )
        rows = await self._store.query(sql, {"day": day, "ids": list(batch_ids)}, limits=_LIMITS)
        return {int(str(batch_id)) for (batch_id,) in rows}
