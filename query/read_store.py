"""Reads from ClickHouse under the limits of the settings, and maps their failures to HTTP errors."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
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
from chassis.http.validation import Issues
from chassis.limits.fairness import FairSemaphore, Requester, ShareLimits
from query import metrics, sql
from query.request.filters import Filter, Op, members_of
from query.rows import SPANS, TelemetryTable
from query.settings import QuerySettings
from query.statements import Attribute, ExistingAttributeKeys, Statement, Subject, TraceBounds, Window

MAX_RESULT_ROWS: Final = 100_000
MAX_RESULT_BYTES: Final = 128 * 2**20  # twice the limit of one body: every stored row can be read alone
# Bytes of the texts of groups. In JSON a control character is six times as long, and groups with series are repeated.
MAX_GROUP_BYTES: Final = 4 * 2**20
_CANNOT_COMPILE_REGEXP: Final = 427  # CANNOT_COMPILE_REGEXP
_REGEX_PROBE_LIMITS: Final = QueryLimits(max_seconds=5)

# Priorities of ClickHouse: a read pauses between blocks while a read with a lower number runs, and every read pauses
# while an insert (1) runs. So a requester with one read at a time does not share processors with a requester with many.
SINGLE_READ_PRIORITY: Final = 2
PARALLEL_READ_PRIORITY: Final = 3
SHRINK_FACTOR: Final = 4  # the limit of a read is divided by this number if its rows exceed the byte limit


class ReadStore:
    """Read-only access to the tables for one requester. Its reads are queued fairly with the reads of other
    requesters."""

    def __init__(self, reader: "_FairReader", settings: QuerySettings, requester: Requester) -> None:
        self._reader = reader
        self._requester = requester
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
        """Return the rows of one statement. Raises QueryTooLarge if they exceed `max_bytes` (at least 1) in ClickHouse,
        or if the statement groups by more than about `max_groups` keys (0: any number).

        Raises a StoreError; `ReadStores.session` maps it to an HTTP error.
        """
        query = sql.emit(statement)
        limits = self._limits._replace(max_result_bytes=max_bytes, max_rows_to_group_by=max_groups)
        rows = await self._reader.read(self._requester, query.sql, query.parameters, limits)
        if not query.needs_recheck:
            return rows
        if any(row[-1] for row in rows):
            return await self.rows(replace(statement, existing_attributes=None), max_bytes, max_groups)
        return [row[:-1] for row in rows]

    async def find_existing_attributes(
        self, project_id: int, window: Window, subjects: Iterable[Subject], signal: TelemetryTable = SPANS
    ) -> frozenset[str]:
        """Return the names of the attributes of `subjects` that the roll-up has for `window`. There is no roll-up for
        log records, so all of their attributes may exist.
        """
        names = sorted(
            {name for each in subjects if isinstance(each, Attribute) for name in sql.attribute_names(each.key)}
        )
        if not names or signal is not SPANS:
            return frozenset(names)
        rows = await self.rows(ExistingAttributeKeys(project_id=project_id, names=tuple(names), window=window))
        return frozenset(name for (name,) in rows)

    async def trace_windows(self, project_id: int, trace_id: bytes) -> dict[int, Window]:
        """The time ranges of a trace's spans and log records, by the signal's code, from the trace index: reads of its
        rows are limited to these windows. Empty for an unknown trace.
        """
        bounds = await self.rows(TraceBounds(project_id=project_id, trace_id=trace_id))
        return {code: Window(low, high + 1) for code, low, high in bounds}

    async def validate_regexes(self, filters: Sequence[Filter], path: str) -> None:
        """Raise BadRequest naming each regular expression that ClickHouse cannot compile."""
        issues = Issues()
        for n, filter_ in enumerate(filters):
            for where, each in members_of(filter_, f"{path}[{n}]"):
                if each.op is Op.REGEX and not await self._compiles(each.values[0]):
                    issues.add(f"{where}.value", "Must be a regular expression in RE2 syntax.", "format")
        issues.raise_if_any()

    async def _compiles(self, pattern: str) -> bool:
        query = sql.regex_probe(pattern)
        try:
            await self._reader.read(self._requester, query.sql, query.parameters, _REGEX_PROBE_LIMITS)
        except StoreRejected as error:
            if error.code == _CANNOT_COMPILE_REGEXP:
                return False
            raise
        return True


class _FairReader:
    """The ClickHouse handles. A requester cannot use the last free handle if it already uses others, so that other
    requesters find a free one."""

    def __init__(self, clickhouse: ClickHouse, settings: QuerySettings, query_metrics: metrics.QueryMetrics) -> None:
        self._clickhouse = clickhouse
        self._read_seconds = query_metrics.read_seconds
        handles = settings.effective_handles
        # An execution runs one read at a time, so the response slots bound the number of waiting reads.
        self._slots = FairSemaphore(handles, ShareLimits.all_but_one(handles), 2 * settings.max_answers)
        query_metrics.register_gauge("handles", "Maximum number of concurrent reads.", lambda: handles)
        query_metrics.register_gauge(
            "reads_waiting", "Reads waiting for a ClickHouse connection.", lambda: self._slots.waiting
        )
        query_metrics.register_gauge("reads_running", "Reads in progress in ClickHouse.", lambda: self._slots.in_use)

    async def read(
        self, requester: Requester, text: str, parameters: Mapping[str, object], limits: QueryLimits
    ) -> list[tuple[Any, ...]]:
        """Return the rows; waits for a slot in fair order."""
        async with self._slots.slot(requester):
            is_single_read = self._slots.demand(requester) == 1
            begin = time.monotonic()
            try:
                priority = SINGLE_READ_PRIORITY if is_single_read else PARALLEL_READ_PRIORITY
                return await self._clickhouse.query(text, parameters, limits=limits._replace(priority=priority))
            finally:
                self._read_seconds.observe(time.monotonic() - begin)


class ReadStores:
    """Creates a `ReadStore` per requester; all share the ClickHouse handles."""

    name = "clickhouse"

    def __init__(self, clickhouse: ClickHouse, settings: QuerySettings, query_metrics: metrics.QueryMetrics) -> None:
        self._clickhouse = clickhouse
        self._settings = settings
        self._metrics = query_metrics
        self._reader = _FairReader(clickhouse, settings, query_metrics)

    def for_requester(self, requester: Requester) -> ReadStore:
        """The tables as `requester` reads them."""
        return ReadStore(self._reader, self._settings, requester)

    async def probe(self) -> None:
        """Raises if ClickHouse does not respond."""
        await self._clickhouse.probe()

    @asynccontextmanager
    async def session(self, requester: Requester) -> AsyncIterator[ReadStore]:
        """The reads of one handler for `requester`, with a time limit for all of them together. Failures become
        ServiceUnavailable, or BadRequest for a query that is too expensive.
        """
        timeout_s = self._settings.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                yield self.for_requester(requester)
        except (TimeoutError, QueryTimeout) as error:
            self._metrics.record_refusal(metrics.TIMEOUT)
            message = (
                f"The query exceeded its time limit of {timeout_s:g} seconds; narrow the time range or the filters, or "
                "retry later."
            )
            raise ServiceUnavailable(message) from error
        except QueryTooLarge as error:
            self._metrics.record_refusal(metrics.TOO_EXPENSIVE)
            message = "The query exceeded its memory or row limit; narrow the time range or the filters."
            raise BadRequest(message, [Issue("query", message, "too_expensive")]) from error
        except (StoreUnavailable, StoreMisconfigured) as error:
            self._metrics.record_refusal(metrics.STORE_UNAVAILABLE)
            raise ServiceUnavailable("The telemetry store is temporarily unavailable; retry later.") from error


async def read_shrinking(
    read: Callable[[int], Awaitable[list[tuple[Any, ...]]]], limit: int
) -> tuple[list[tuple[Any, ...]], int]:
    """The rows read with `limit`, or with a smaller limit if the rows exceed the byte limit; and the limit that was
    used."""
    while True:
        try:
            return await read(limit), limit
        except QueryTooLarge:
            if limit == 1:
                raise
            limit = max(1, limit // SHRINK_FACTOR)
