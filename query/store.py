"""Reads from ClickHouse under the limits of the settings, and what their failures mean to whoever asked."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from chassis.clickhouse import (
    ClickHouse,
    QueryLimits,
    QueryTimeout,
    QueryTooLarge,
    StoreMisconfigured,
    StoreRejected,
    StoreUnavailable,
)
from chassis.errors import BadRequest, Issue, ServiceUnavailable
from chassis.validation import Issues
from query import metrics, sql
from query.asking.filters import Filter, Op
from query.asking.window import Window
from query.metrics import QueryMetrics
from query.settings import QuerySettings
from query.tree import Attribute, KnownKeys, Statement, Subject
from query.turns import Asker, Shares, Turns

MAX_RESULT_ROWS: Final = 100_000
MAX_RESULT_BYTES: Final = 128 * 2**20  # twice what one body may hold: every stored row can be read alone
_BAD_PATTERN: Final = 427  # CANNOT_COMPILE_REGEXP
_LIMITS_OF_PATTERNS: Final = QueryLimits(max_seconds=5)

# In the engine a read pauses between blocks while one of a lesser number runs, and all while an insert runs (1): who
# reads one thing at a time does not share the processors with one who reads many.
PRIORITY: Final = 2
PRIORITY_OF_MANY: Final = 3


class Store:
    """The tables, read only, for one asker, whose reads take their turn among those of others."""

    def __init__(self, engine: "_Engine", settings: QuerySettings, asker: Asker) -> None:
        self._engine = engine
        self._asker = asker
        self.max_page_bytes = settings.max_page_bytes
        self._limits = QueryLimits(
            max_seconds=settings.timeout_s,
            max_memory_bytes=settings.max_memory_bytes,
            max_result_rows=max(MAX_RESULT_ROWS, settings.max_trace_spans + 1),
            max_result_bytes=MAX_RESULT_BYTES,
            max_rows_to_read=settings.max_read_rows,
            max_threads=settings.max_threads,
        )

    async def rows(
        self, statement: Statement, max_bytes: int = MAX_RESULT_BYTES, max_groups: int = 0
    ) -> list[tuple[Any, ...]]:
        """The rows of one statement, QueryTooLarge when they have more than `max_bytes` (at least 1) in the engine, or
        when it groups by more than about `max_groups` keys (0: any number).

        Raises a StoreError; `Stores.reading` says what that means on the wire.
        """
        query = sql.emit(statement)
        limits = self._limits._replace(max_result_bytes=max_bytes, max_rows_to_group_by=max_groups)
        rows = await self._engine.read(self._asker, query.sql, query.parameters, limits)
        if not query.guarded:
            return rows
        if any(row[-1] for row in rows):
            return await self.rows(replace(statement, known=None), max_bytes, max_groups)
        return [row[:-1] for row in rows]

    async def known(self, project_id: int, window: Window, subjects: Iterable[Subject]) -> frozenset[str]:
        """The names of attributes that are worth looking for in spans of `window` when `subjects` are asked for."""
        names = sorted({name for each in subjects if isinstance(each, Attribute) for name in sql.names(each.key)})
        if not names:
            return frozenset()
        rows = await self.rows(KnownKeys(project_id=project_id, names=tuple(names), window=window))
        return frozenset(name for (name,) in rows)

    async def check_patterns(self, filters: Sequence[Filter], path: str) -> None:
        """BadRequest naming each regular expression that the engine cannot compile."""
        issues = Issues()
        for n, filter_ in enumerate(filters):
            if filter_.op is Op.REGEX and not await self._compiles(filter_.values[0]):
                issues.add(f"{path}[{n}].value", "Must be a regular expression in RE2 syntax.", "format")
        issues.raise_if_any()

    async def _compiles(self, pattern: str) -> bool:
        query = sql.pattern_probe(pattern)
        try:
            await self._engine.read(self._asker, query.sql, query.parameters, _LIMITS_OF_PATTERNS)
        except StoreRejected as error:
            if error.code == _BAD_PATTERN:
                return False
            raise
        return True


class _Engine:
    """The handles on ClickHouse: one asker has all but one of them at most, so that the next finds one free."""

    def __init__(self, clickhouse: ClickHouse, settings: QuerySettings, counted: QueryMetrics) -> None:
        self._clickhouse = clickhouse
        self._seconds = counted.read_seconds
        handles = settings.handles_used
        # An answer reads one thing at a time, so that its place bounds how many reads wait.
        self._turns = Turns(handles, Shares.all_but_one(handles), 2 * settings.max_answers)
        counted.gauge("handles", "Reads that may run at once.", lambda: handles)
        counted.gauge("reads_waiting", "Reads that wait for ClickHouse.", lambda: self._turns.waiting)
        counted.gauge("reads_running", "Reads that ClickHouse works on.", lambda: self._turns.held)

    async def read(
        self, asker: Asker, text: str, parameters: Mapping[str, object], limits: QueryLimits
    ) -> list[tuple[Any, ...]]:
        """The rows, in the turn of `asker`."""
        async with self._turns.turn(asker):
            first = self._turns.wanted(asker) == 1
            begin = time.monotonic()
            try:
                priority = PRIORITY if first else PRIORITY_OF_MANY
                return await self._clickhouse.query(text, parameters, limits=limits._replace(priority=priority))
            finally:
                self._seconds.observe(time.monotonic() - begin)


class Stores:
    """The tables for everybody: each reads through a `Store` of his own, and all share the engine's handles."""

    name = "clickhouse"

    def __init__(self, clickhouse: ClickHouse, settings: QuerySettings, counted: QueryMetrics) -> None:
        self._clickhouse = clickhouse
        self._settings = settings
        self._metrics = counted
        self._engine = _Engine(clickhouse, settings, counted)

    def of(self, asker: Asker) -> Store:
        """The tables as `asker` reads them."""
        return Store(self._engine, self._settings, asker)

    async def probe(self) -> None:
        """Raises when ClickHouse does not answer."""
        await self._clickhouse.probe()

    @asynccontextmanager
    async def reading(self, asker: Asker) -> AsyncIterator[Store]:
        """What a handler reads for `asker`: bounded in time as a whole, its failures turned into refusals."""
        timeout_s = self._settings.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                yield self.of(asker)
        except (TimeoutError, QueryTimeout) as error:
            self._metrics.refused(metrics.TIMEOUT)
            message = (
                f"Reading took longer than {timeout_s:g} seconds, with waits between reads; "
                "narrow the time range or the filters, or ask again later."
            )
            raise ServiceUnavailable(message) from error
        except QueryTooLarge as error:
            self._metrics.refused(metrics.TOO_EXPENSIVE)
            message = (
                "The query needs more memory, or more rows, than it may use; narrow the time range or the filters."
            )
            raise BadRequest(message, [Issue("query", message, "too_expensive")]) from error
        except (StoreUnavailable, StoreMisconfigured) as error:
            self._metrics.refused(metrics.STORE_UNAVAILABLE)
            raise ServiceUnavailable("The telemetry store is not available.") from error
