"""The background work of erasures in a gateway: one step at a time. A crash may repeat any step."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Final

import structlog

from chassis.clickhouse import StoreError, StoreRejected
from chassis.db.database import Database
from chassis.erasures import leases, repository
from chassis.erasures.tables import ErasureKind
from chassis.runtime.periodic import PeriodicTask
from gateway.erasure.journals import MARGIN_NS, JournalErasure
from gateway.erasure.projects import DeletedProjects
from gateway.erasure.telemetry import (
    ALL_TABLES,
    Condition,
    DerivedRows,
    TelemetryErasure,
    of_items,
    of_orphans,
    of_project,
)

# The SQL conditions of an erasure by filter on spans and on logs, and the values bound in them.
CompileFilters = Callable[[repository.StoredErasure], tuple[str, str, Mapping[str, object]]]

POLL_INTERVAL_S: Final = 5.0
RETRY_S: Final = 5.0  # between two steps of an erasure; grows while the erasure waits, because each step counts rows
MAX_RETRY_S: Final = 60.0
RETRY_GROWTH: Final = 0.05  # of the time since the request
UNAVAILABLE_RETRY_S: Final = 60.0
MAX_STEPS: Final = 20  # in one poll, each of another erasure
WAITING: Final = "Waiting one minute: requests that were accepted just before the erasure may not be stored yet."
NO_FILTERS: Final = (
    "This gateway cannot evaluate filters: the package `query` is not installed. Install it, then retry."
)
NOT_QUIET: Final = "The rows are deleted. Trace index and attribute keys are rebuilt when "
NOT_QUIET_RETRY_S: Final = 300.0
LEASE_LOST: Final = "Another gateway continues."
OLD_PARTS: Final = (
    "The rows are deleted. Waiting until ClickHouse removes the files of replaced parts, which takes minutes."
)
RECENT: Final = (
    "The rows are deleted. Waiting one minute: gateways may have accepted requests before they knew of the erasure."
)


class ErasureImpossible(Exception):
    """The erasure cannot be executed here; the message is for the operator."""


class ErasureWorker:
    """Deletes what erasures cover, together with the workers of other gateways. `compile_filters` gives the SQL of an
    erasure by filter. `clock` gives nanoseconds since 1970.
    """

    def __init__(
        self,
        database: Database,
        telemetry: TelemetryErasure,
        derived_rows: DerivedRows,
        journals: JournalErasure,
        deleted_projects: DeletedProjects,
        compile_filters: CompileFilters | None,
        log: structlog.stdlib.BoundLogger,
        clock: Callable[[], int],
    ) -> None:
        self._derived_rows = derived_rows
        self._compile_filters = compile_filters
        self._database = database
        self._telemetry = telemetry
        self._journals = journals
        self._deleted_projects = deleted_projects
        self._log = log
        self._clock = clock
        self._last_org_id = ""  # the organization of the last step: organizations take turns
        self._owner = f"{socket.gethostname()}:{os.getpid()}"
        # By erasure: its deleted rows at the moment when no row was left, and that moment by ClickHouse's clock, in
        # seconds.
        self._deleted_at: dict[str, tuple[Mapping[str, int], int]] = {}
        self.task = PeriodicTask(self.poll, POLL_INTERVAL_S, log, "erasures cannot be processed; retrying")

    async def poll(self) -> None:
        """Do one round. A failed step does not stop the others; raises the first error."""
        errors = []
        refresh = partial(self._deleted_projects.refresh, self._database)
        for work in (refresh, self._journals.register, self._journals.acknowledge, self._execute_due):
            try:
                await work()
            except Exception as error:  # noqa: BLE001 (it is logged by the periodic task)
                errors.append(error)
        if errors:
            raise errors[0]

    async def _execute_due(self) -> None:
        async with self._database.read() as connection:  # a claim would take the lock of writers
            unfinished = await repository.count_unfinished(connection)
        if not unfinished.open:
            self._deleted_at.clear()  # entries of erasures that another gateway has completed
        for _ in range(min(MAX_STEPS, unfinished.open)):
            async with self._database.write() as connection:
                held = await leases.claim(connection, self._owner, self._now(), after_org_id=self._last_org_id)
            if held is None:
                break
            self._last_org_id = held.erasure.org_id
            await self._execute(held)

    async def _execute(self, held: leases.ErasureLease) -> None:
        """Do one step of an erasure; releases the lease unless the erasure ends. Messages never quote what is
        erased."""
        renewing = asyncio.create_task(self._renew(held))
        try:
            message = await self._step(held)
        except ErasureImpossible as error:
            await self._fail(held, str(error))
        except StoreRejected as error:  # a missing privilege, for example
            await self._fail(held, f"ClickHouse refused a statement with error code {error.code}.")
        except StoreError as error:
            reason = f"with error code {error.code}" if error.code else "without an error code: it may be unavailable"
            await self._release(held, f"ClickHouse has failed {reason}; retrying.", UNAVAILABLE_RETRY_S)
        except Exception as error:  # noqa: BLE001 (whatever it is, the others continue)
            self._log.exception("a step of an erasure failed", erasure=held.erasure.id)
            await self._release(
                held, f"A step failed ({type(error).__name__}). See the log of the gateway.", UNAVAILABLE_RETRY_S
            )
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                await asyncio.shield(self._release(held, None, 0))
            raise
        else:
            if message is not None:
                await self._release(held, message, self._retry_s(held.erasure, message))
        finally:
            renewing.cancel()

    async def _step(self, held: leases.ErasureLease) -> str | None:
        """Returns why the erasure is not done yet; None if it has ended. Raises ErasureImpossible, StoreError."""
        condition = self._condition(held.erasure)
        if others := await self._telemetry.unsupported_engines():
            raise ErasureImpossible(f"Rows can only be deleted from MergeTree tables, not from {', '.join(others)}.")
        if held.erasure.dry_run:
            return await self._complete(held, await self._telemetry.count(condition))
        if held.erasure.kind is ErasureKind.FILTER and self._is_recent(held.erasure):
            return WAITING
        if unfinished := await self._telemetry.unfinished_mutations(condition.tables):
            return f"ClickHouse is deleting rows: {'; '.join(unfinished)}."
        condition, counts = await self._remaining(held.erasure, condition)
        deleted = await self._count_deleted(held.erasure, counts)
        if counts:
            return await self._delete_rows(held, condition, counts, deleted)
        if held.erasure.pending_deletion is not None:
            async with self._database.write() as connection:
                if not await leases.report_progress(connection, held, deleted, self._now()):
                    return LEASE_LOST
        held = replace(held, erasure=replace(held.erasure, counts=deleted, pending_deletion=None))
        return await self._finish_rows(held) or await self._complete(held, deleted)

    async def _remaining(
        self, erasure: repository.StoredErasure, condition: Condition
    ) -> tuple[Condition, Mapping[str, int]]:
        """The condition of the rows to delete now, and the number of these rows by table."""
        counts = await self._telemetry.count(condition)
        if not counts and erasure.kind is ErasureKind.FILTER and erasure.days:
            # Occurrences that were stored after their items had been erased.
            condition = of_orphans(_project_of(erasure), _days(erasure))
            counts = await self._telemetry.count(condition)
        return condition, counts

    async def _count_deleted(self, erasure: repository.StoredErasure, remaining: Mapping[str, int]) -> dict[str, int]:
        """The number of rows by table that the erasure has deleted. The last deletion counts if ClickHouse still has
        its statement, or if there are fewer rows now: ClickHouse may have removed the statement, but only after it was
        executed.
        """
        deleted = {table: rows for table, rows in erasure.counts.items() if table in ALL_TABLES}
        if erasure.pending_deletion is not None:
            executed = await self._telemetry.tables_of_deletion(erasure.pending_deletion["deletionId"])
            for table, rows in erasure.pending_deletion["rows"].items():
                if table in executed or remaining.get(table, 0) < rows:
                    deleted[table] = deleted.get(table, 0) + rows
        return deleted

    async def _delete_rows(
        self, held: leases.ErasureLease, condition: Condition, counts: Mapping[str, int], deleted: Mapping[str, int]
    ) -> str:
        """Delete the remaining rows; returns what the erasure waits for. `deleted`: rows deleted earlier, by table."""
        is_filter = held.erasure.kind is ErasureKind.FILTER
        days = None
        if is_filter:  # error occurrences are found by their items, so they are deleted before their items
            counts = dict([next(iter(counts.items()))])
            found = await self._telemetry.days(condition, next(iter(counts)))
            days = sorted({*(held.erasure.days or ()), *(day.isoformat() for day in found)})
        deletion_id = f"{held.erasure.id}.{held.attempt}"
        pending = {"deletionId": deletion_id, "rows": dict(counts)}
        async with self._database.write() as connection:  # before the deletion, so that a crash cannot lose its rows
            if not await leases.report_progress(
                connection, held, deleted, self._now(), pending_deletion=pending, days=days
            ):
                return LEASE_LOST
        await self._telemetry.delete(condition, list(counts), deletion_id)
        return f"ClickHouse is deleting {sum(counts.values())} rows."

    async def _finish_rows(self, held: leases.ErasureLease) -> str:
        """Finish after the last row: derived rows, requests on their way, files; returns what the erasure waits for."""
        erasure = held.erasure
        if erasure.kind is ErasureKind.FILTER and (message := await self._rebuild_derived(held)):
            return message
        if self._is_recent(erasure):
            return RECENT
        if leftovers := await self._telemetry.leftover_tables(erasure.requested_at):
            return f"The rows are deleted. Waiting for `sluice repair` to end: {', '.join(leftovers)}."
        rows, deleted_at = self._deleted_at.get(erasure.id, (None, 0))
        if rows != erasure.counts:  # more rows were deleted since, by this gateway or another one
            deleted_at = await self._telemetry.now()
            self._deleted_at[erasure.id] = dict(erasure.counts), deleted_at
        await self._telemetry.remove_finished_mutations(ALL_TABLES)
        return "" if await self._telemetry.remove_old_parts(ALL_TABLES, deleted_at) else OLD_PARTS

    async def _rebuild_derived(self, held: leases.ErasureLease) -> str:
        """Rebuild the derived rows of days from which items were deleted; returns why some days are not rebuilt yet."""
        project_id = _project_of(held.erasure)
        outdated = await self._derived_rows.outdated_days(project_id)
        for day in sorted(set(outdated) & set(_days(held.erasure))):
            if not await self._derived_rows.rebuild(project_id, day, partial(self._is_held, held)):
                return f"{NOT_QUIET}no more items of {day} arrive."
        return ""

    async def _is_held(self, held: leases.ErasureLease) -> bool:
        async with self._database.write() as connection:
            return await leases.renew(connection, held, self._now())

    def _condition(self, erasure: repository.StoredErasure) -> Condition:
        project_id = _project_of(erasure)
        if erasure.kind is not ErasureKind.FILTER:
            return of_project(project_id)
        if self._compile_filters is None:
            raise ErasureImpossible(NO_FILTERS)
        spans, logs, parameters = self._compile_filters(erasure)
        return of_items(project_id, spans, logs, parameters)

    def _retry_s(self, erasure: repository.StoredErasure, message: str) -> float:
        if message.startswith(NOT_QUIET):
            return NOT_QUIET_RETRY_S
        waited_s = (self._now() - erasure.requested_at).total_seconds()
        return min(max(RETRY_S, waited_s * RETRY_GROWTH), MAX_RETRY_S)

    def _is_recent(self, erasure: repository.StoredErasure) -> bool:
        """Whether requests that were accepted before the erasure may still be on their way to ClickHouse."""
        return self._clock() < int(erasure.requested_at.timestamp() * 10**9) + MARGIN_NS

    async def _renew(self, held: leases.ErasureLease) -> None:
        while True:
            await asyncio.sleep(leases.LEASE.total_seconds() / 3)
            with contextlib.suppress(Exception):  # the next attempt, or another gateway
                await self._is_held(held)

    async def _fail(self, held: leases.ErasureLease, reason: str) -> None:
        async with self._database.write() as connection:
            await leases.fail(connection, held, reason)
        self._log.error(
            "an erasure has failed; fix the cause, then run `sluice erasures retry`",
            erasure=held.erasure.id,
            error=reason,
        )

    async def _complete(self, held: leases.ErasureLease, counts: Mapping[str, int]) -> str | None:
        try:
            async with self._database.write() as connection:
                ended = await leases.complete(connection, held, counts, self._now())
        except leases.AcknowledgementMissing as error:
            journals = ", ".join(error.journals)
            return (
                "The rows are deleted. Waiting until these journals have no requests that are older than the erasure: "
                f"{journals}."
            )
        self._deleted_at.pop(held.erasure.id, None)
        if ended:
            self._log.info("an erasure is complete", erasure=held.erasure.id, rows=sum(counts.values()))
        return None

    async def _release(self, held: leases.ErasureLease, message: str | None, retry_s: float) -> None:
        async with self._database.write() as connection:
            await leases.release(connection, held, self._now() + timedelta(seconds=retry_s), message)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock() / 10**9, UTC)


def _project_of(erasure: repository.StoredErasure) -> int:
    if erasure.project_id is None:
        raise ValueError("the telemetry of an organization is deleted by the erasures of its projects")
    return erasure.project_id


def _days(erasure: repository.StoredErasure) -> list[date]:
    return [date.fromisoformat(day) for day in erasure.days or ()]
