"""Whether the blocks of a batch are in ClickHouse: counted by batch id, whatever the deduplication log says.

That log outlives the parts that it tells of: after a power loss a part may be gone while its token is still known, and
an insert under that token is answered with success and stores nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from chassis.clickhouse import QueryLimits
from gateway.journal import Batch, Place
from proto.storage.tables import ERROR_OCCURRENCES, INGEST_OUTCOMES, LOGS, SPANS

_TIMES: Final[Mapping[str, str]] = {
    SPANS.name: "start_time",
    LOGS.name: "time",
    ERROR_OCCURRENCES.name: "time",
    INGEST_OUTCOMES.name: "time",
}
COUNTED: Final = frozenset(_TIMES)  # the other tables add rows up, and know of no batch
_LIMITS: Final = QueryLimits(max_seconds=300, max_result_rows=0, max_threads=1)
_AT_ONCE: Final = 1_000  # batches a statement names


class Reader(Protocol):
    """What is needed of ClickHouse."""

    async def query(
        self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits
    ) -> list[tuple[object, ...]]: ...


class Presence:
    """Asks ClickHouse; raises StoreError."""

    def __init__(self, store: Reader) -> None:
        self._store = store

    async def missing(self, batches: Sequence[Batch], oldest_day: int) -> dict[int, set[Place]]:
        """Of finished batches, the places of which not one row is there. Days before `oldest_day` are past their
        retention, and not looked at.
        """
        asked: dict[Place, list[int]] = defaultdict(list)
        for batch in batches:
            for place in batch.rows or ():
                if place[0] in COUNTED and place[1] >= oldest_day:
                    asked[place].append(batch.batch_id)
        missing: dict[int, set[Place]] = defaultdict(set)
        for place, ids in asked.items():
            there = await self.present(place, ids)
            for batch_id in set(ids) - there:
                missing[batch_id].add(place)
        return missing

    async def present(self, place: Place, batch_ids: Sequence[int]) -> set[int]:
        """Those of the batches that have a row there."""
        there: set[int] = set()
        for start in range(0, len(batch_ids), _AT_ONCE):
            there |= await self._present(place, batch_ids[start : start + _AT_ONCE])
        return there

    async def _present(self, place: Place, batch_ids: Sequence[int]) -> set[int]:
        table, day = place
        sql = (
            f"SELECT batch_id FROM {table} WHERE toDate({_TIMES[table]}) = toDate({{day:UInt16}}) "
            "AND batch_id IN {ids:Array(UInt64)} GROUP BY batch_id"
        )
        rows = await self._store.query(sql, {"day": day, "ids": list(batch_ids)}, limits=_LIMITS)
        return {int(str(batch_id)) for (batch_id,) in rows}
