"""Follows error occurrences in storage order and counts each occurrence once in its issue.

    poll                reads pages until all settled occurrences are counted, then waits
    _read_page          reads the page behind the checkpoint
    _read_texts         reads the texts of errors without an issue, or that an upgrade may have joined with others
    _count              one transaction: counts the page, enqueues notifications, and moves the checkpoint

An occurrence is settled when no row will be stored before it in storage order any more
(`chassis.clickhouse.storage_order`).

The counts and the checkpoint change in the same transaction. After a crash in between, the page is read again and is
still counted once. The transaction fails if another process has counted the page meanwhile
(`control.issues.counting.progress`).
"""

import asyncio
import math
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge

from chassis.clickhouse import ClickHouse
from chassis.clickhouse.storage_order import (
    DISTANCE_US,
    Checkpoint,
    OrderedRows,
    OrderedTable,
    Page,
    StorageOrderReader,
    StoredRowList,
)
from chassis.db.database import Database
from chassis.runtime.periodic import PeriodicTask
from chassis.source_maps.resolver import SourceMaps
from control.issues.counting import counter, project_state, regrouping
from control.issues.counting import progress as stored_progress
from control.issues.counting.counter import Counted, CountedPage
from control.issues.counting.occurrences import (
    COLUMNS,
    NO_TEXTS,
    IssueKey,
    Occurrences,
    OccurrenceTexts,
    by_issue,
    choose_rows,
    read_occurrence_texts,
)
from control.issues.counting.progress import Progress, ProgressChanged
from control.issues.counting.project_state import IssueUrls
from control.issues.releases.store import SeenReleases
from proto.grouping.fingerprint import FINGERPRINT_VERSION


class IssueMetrics:
    """Counters of occurrences by result, and the lag of the follower."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._occurrences: Final = Counter(
            "sluice_issue_occurrences",
            "Error occurrences read, by result: counted in an issue, or untracked (the project has too many new "
            "errors).",
            ("result",),
            registry=registry,
        )
        self._transitions: Final = Counter(
            "sluice_issue_transitions",
            "Issues that were created or regressed, or that an upgrade of the grouping rules has split or merged.",
            ("kind",),
            registry=registry,
        )
        self._withheld: Final = Counter(
            "sluice_issue_notifications_withheld",
            "New issues and regressions without a notification of their own, because the project had too many.",
            registry=registry,
        )
        self.record(Counted())
        lag: Final = Gauge(
            "sluice_issues_lag_seconds",
            "Time since all stored error occurrences were counted. 0 in a process that does not count because "
            "another process counts.",
            registry=registry,
        )
        self._caught_up_at: float | None = None
        lag.set_function(self._lag)

    def record(self, counted: Counted) -> None:
        """Add the result of a page."""
        self._occurrences.labels("counted").inc(counted.occurrences - counted.untracked)
        self._occurrences.labels("untracked").inc(counted.untracked)
        for kind in ("created", "regressed", "split", "merged"):
            self._transitions.labels(kind).inc(getattr(counted, kind))
        self._withheld.inc(counted.withheld)

    def caught_up(self, at: float | None) -> None:
        """Everything that was settled at this time (`time.monotonic`) is counted. None: another process counts."""
        self._caught_up_at = at

    def _lag(self) -> float:
        return 0.0 if self._caught_up_at is None else max(0.0, time.monotonic() - self._caught_up_at)


NAME: Final = "issues.2"  # `issues` was the follower of builds that knew one fingerprint per issue
TABLE: Final = "error_occurrences"
POLL_S: Final = 0.25
PAGE_ROWS: Final = 5_000
# Rows of a page with errors of a project that has pending fingerprints since an upgrade: the texts of all of them are
# read.
REGROUPED_ROWS: Final = 500
IDLE_POLL_S: Final = 0.9  # after a poll that found nothing
SETTLED_S: Final = 1.5  # after the end of an insert into the embedded engine, all its rows are settled
MAX_UNASKED_S: Final = 10.0  # an engine whose clock was set back settles later
PAUSE_S: Final = 0.01  # between two pages, for other writers

log = structlog.get_logger(__name__)


class IssueFollower:
    """One task per process. Only one process at a time reads. `rows`: the rows of the table, given by tests."""

    def __init__(
        self,
        database: Database,
        clickhouse: ClickHouse,
        links: IssueUrls,
        metrics: IssueMetrics,
        *,
        rows: OrderedRows[StoredRowList] | None = None,
        source_maps: SourceMaps | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._clickhouse = clickhouse
        self._links = links
        self._metrics = metrics
        self._source_maps = source_maps
        self._now = now
        self._rows = rows or OrderedTable(clickhouse, TABLE, COLUMNS)
        self._reader = StorageOrderReader(self._rows)
        self._owner = f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(4)}"
        self._progress: Progress | None = None
        self._releases = SeenReleases()
        self._read_all_at = -math.inf  # when the last poll that read everything began (`time.monotonic`)
        self._found_nothing = False
        self._task = PeriodicTask(self.poll, POLL_S, log, "counting issues failed", run_immediately=True)

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown. Afterwards another process continues."""
        self._metrics.caught_up(time.monotonic())
        self._task.start()
        yield
        await self._task.close()

    async def poll(self) -> None:
        """Count all settled occurrences, unless another process does so. Raises StoreError, DatabaseUnavailable."""
        begun = time.monotonic()
        if self._has_nothing_new(begun):
            return
        self._found_nothing = True
        while True:
            progress = await self._load_progress()
            if progress is None:
                self._metrics.caught_up(None)
                return
            page = await self._read_page(progress.checkpoint)
            if page.checkpoint is not progress.checkpoint:
                self._found_nothing = False
                try:
                    self._progress = await self._count(progress, page)
                except ProgressChanged:  # by a process that took over; the page is read again if necessary
                    self._progress = None
                    continue
            if page.is_last:
                self._read_all_at = begun
                self._metrics.caught_up(time.monotonic())
                return
            await asyncio.sleep(PAUSE_S)

    def _has_nothing_new(self, now: float) -> bool:
        """Whether to skip this poll: nothing was inserted into the embedded engine since all its rows were read, or a
        server had no new rows a moment ago.
        """
        elapsed = now - self._read_all_at
        inserted = self._clickhouse.idle_since(TABLE)
        if inserted is None:
            return self._found_nothing and elapsed < IDLE_POLL_S
        is_unchanged = inserted + SETTLED_S < self._read_all_at and elapsed < MAX_UNASKED_S
        if is_unchanged:
            self._metrics.caught_up(now)
        return is_unchanged

    async def _load_progress(self) -> Progress | None:
        """The current progress: as this process knows it, unless another process has read further. None: another
        process reads.
        """
        async with self._database.read() as connection:
            found = await stored_progress.find(connection, NAME)
            if found is not None and found.is_left_to_another(self._owner, self._now()):
                return None
            if found is not None and (self._progress is None or found.version != self._progress.version):
                found = self._progress = await stored_progress.load(connection, NAME)
        if found is not None and self._progress is not None:
            return self._progress
        quiet_until_us = await self._rows.settled_time() + DISTANCE_US
        async with self._database.write() as connection:
            await stored_progress.create(connection, NAME, quiet_until_us, self._owner, self._now())
            self._progress = await stored_progress.load(connection, NAME)
        if self._progress is None:
            raise LookupError(NAME)
        return self._progress

    async def _read_page(self, checkpoint: Checkpoint) -> Page[StoredRowList]:
        """The next page. It is a small one while a project has pending fingerprints after an upgrade of the grouping
        rules.
        """
        page = await self._reader.read(checkpoint, limit=PAGE_ROWS)
        if len(page.rows) <= REGROUPED_ROWS:
            return page
        async with self._database.read() as connection:
            pending = await regrouping.find_pending(
                connection, {row.values[0] for row in page.rows}, page.checkpoint.position.stored_us
            )
        return await self._reader.read(checkpoint, limit=REGROUPED_ROWS) if pending else page

    async def _count(self, progress: Progress, page: Page[StoredRowList]) -> Progress:
        """Count a page. Raises ProgressChanged, in which case nothing is counted."""
        occurrences = by_issue(page.rows)
        texts = await self._read_texts(occurrences, page) if occurrences else NO_TEXTS
        is_quiet = bool(page.rows) and page.rows[0].position.stored_us <= progress.quiet_until_us
        self._releases.rolled_back()  # notes of an earlier attempt
        counted_page = CountedPage(
            occurrences, texts.details, texts.others, page.checkpoint.position.stored_us, is_quiet
        )
        async with self._database.write() as connection:
            now = self._now()
            counted = await counter.count(connection, counted_page, self._releases, now) if occurrences else Counted()
            await project_state.announce(connection, counted.announced, self._links)
            changed = await stored_progress.store(
                connection, progress, page.checkpoint, len(page.rows), self._owner, now
            )
        self._releases.committed()
        self._metrics.record(counted)
        return changed

    async def _read_texts(
        self, occurrences: Mapping[IssueKey, Occurrences], page: Page[StoredRowList]
    ) -> OccurrenceTexts:
        """The texts of the first occurrences of errors that get an issue: the earliest errors, as many as the quotas of
        their projects allow. In projects with pending fingerprints: the texts of all occurrences with new or current
        fingerprints.
        """
        async with self._database.read() as connection:
            known = await regrouping.find_links(connection, occurrences)
            pending = await regrouping.find_pending(
                connection, {project_id for project_id, _ in occurrences}, page.checkpoint.position.stored_us
            )
            new = counter.in_order_of_creation(
                (key, occurred) for key, occurred in occurrences.items() if key not in known
            )
            states = await project_state.load(
                connection, {project_id for (project_id, _), _ in new}, page.rows[-1].position.stored_us
            )
        room = {project_id: state.room for project_id, state in states.items()}
        every = {
            key
            for key, occurred in occurrences.items()
            if key[0] in pending and (key not in known or occurred.fingerprint_version == FINGERPRINT_VERSION)
        }
        first = set()
        for key, _ in new:
            if key not in every and room.get(key[0], 0):
                room[key[0]] -= 1
                first.add(key)
        rows = choose_rows(page.rows, every, first)
        return await read_occurrence_texts(self._clickhouse, rows, self._source_maps) if rows else NO_TEXTS
