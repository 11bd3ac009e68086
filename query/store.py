"""Reads from ClickHouse under the limits of the settings, and what their failures mean to whoever asked."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
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
from query import sql
from query.asking.filters import Filter, Op
from query.asking.window import Window
from query.settings import QuerySettings
from query.tree import Attribute, KnownKeys, Statement, Subject
from query.turns import Turns

MAX_RESULT_ROWS: Final = 100_000
MAX_RESULT_BYTES: Final = 128 * 2**20  # twice what one body may hold: every stored row can be read alone
_BAD_PATTERN: Final = 427  # CANNOT_COMPILE_REGEXP
_LIMITS_OF_PATTERNS: Final = QueryLimits(max_seconds=5)


class Store:
    """The tables, read only, for one principal, whose reads take their turn among those of others."""

    def __init__(self, clickhouse: ClickHouse, settings: QuerySettings, turns: Turns, principal: str) -> None:
        self._clickhouse = clickhouse
        self._turns = turns
        self._principal = principal
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

        Raises a StoreError (`Stores.reading` says what that means on the wire), or ServiceUnavailable when too many
        reads wait for their turn.
        """
        query = sql.emit(statement)
        limits = self._limits._replace(max_result_bytes=max_bytes, max_rows_to_group_by=max_groups)
        async with self._turns.turn(self._principal):
            rows = await self._clickhouse.query(query.sql, query.parameters, limits=limits)
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
            async with self._turns.turn(self._principal):
                await self._clickhouse.query(query.sql, query.parameters, limits=_LIMITS_OF_PATTERNS)
        except StoreRejected as error:
            if error.code == _BAD_PATTERN:
                return False
            raise
        return True


class Stores:
    """The tables for every principal: each reads through a `Store` of its own, and all share the engine's handles."""

    name = "clickhouse"

    def __init__(self, clickhouse: ClickHouse, settings: QuerySettings) -> None:
        self._clickhouse = clickhouse
        self._settings = settings
        self._turns = Turns(settings.handles, settings.handles_per_principal, settings.max_waiting)

    def of(self, principal: str) -> Store:
        """The tables as `principal` reads them."""
        return Store(self._clickhouse, self._settings, self._turns, principal)

    async def probe(self) -> None:
        """Raises when ClickHouse does not answer."""
        await self._clickhouse.probe()

    @asynccontextmanager
    async def reading(self, principal: str) -> AsyncIterator[Store]:
        """What a handler reads for `principal`: bounded in time as a whole, its failures turned into refusals."""
        timeout_s = self._settings.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                yield self.of(principal)
        except (TimeoutError, QueryTimeout) as error:
            message = (
                f"The query took longer than {timeout_s:g} seconds, with its wait for others; "
                "narrow the time range or the filters, or ask again later."
            )
            raise ServiceUnavailable(message) from error
        except QueryTooLarge as error:
            message = (
                "The query needs more memory, or more rows, than it may use; narrow the time range or the filters."
            )
            raise BadRequest(message, [Issue("query", message, "too_expensive")]) from error
        except (StoreUnavailable, StoreMisconfigured) as error:
            raise ServiceUnavailable("The telemetry store is not available.") from error
