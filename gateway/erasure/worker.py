"""The background work of erasures in a gateway: one step at a time, each of which a crash may repeat."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from chassis.clickhouse import StoreError, StoreRejected
from chassis.db.database import Database
from chassis.erasures import leases
from chassis.erasures.leases import AcknowledgementMissing, ErasureLease
from chassis.runtime.periodic import PeriodicTask
from gateway.erasure.deleted_projects import DeletedProjects
from gateway.erasure.journals import MARGIN_NS, JournalErasure
from gateway.erasure.telemetry import Condition, TelemetryErasure, of_project

POLL_INTERVAL_S: Final = 5.0
RETRY_S: Final = 5.0  # between two steps of an erasure
UNAVAILABLE_RETRY_S: Final = 60.0
MAX_STEPS: Final = 20  # of as many erasures, in one poll
OLD_PARTS: Final = "The rows are deleted; ClickHouse keeps files of replaced parts for some minutes."
RECENT: Final = "The rows are deleted; requests that gateways accepted before they knew may follow for a minute."


class ErasureWorker:
    """Deletes what erasures cover, together with the workers of other gateways. `clock` gives nanoseconds since 1970."""

    def __init__(
        self,
        database: Database,
        telemetry: TelemetryErasure,
        journals: JournalErasure,
        deleted_projects: DeletedProjects,
        log: structlog.stdlib.BoundLogger,
        clock: Callable[[], int],
    ) -> None:
        self._database = database
        self._telemetry = telemetry
        self._journals = journals
        self._deleted_projects = deleted_projects
        self._log = log
        self._clock = clock
        self._owner = f"{socket.gethostname()}:{os.getpid()}"
        self._deleted_at: dict[str, int] = {}  # when no row of an erasure was left, by ClickHouse's clock in seconds
        self._task = PeriodicTask(self.poll, POLL_INTERVAL_S, log, "erasures cannot be processed; retrying")

    def start(self) -> None:
        """Start to poll."""
        self._task.start()

    async def close(self) -> None:
        """Stop; another gateway, or the next process, continues."""
        await self._task.close()

    async def poll(self) -> None:
        """One round. Raises what the database raises, and OSError."""
        await self._deleted_projects.refresh(self._database)
        await self._journals.register()
        await self._journals.acknowledge()
        for _ in range(MAX_STEPS):
            async with self._database.write() as connection:
                held = await leases.claim(connection, self._owner, self._now())
            if held is None:
                break
            await self._execute(held)

    async def _execute(self, held: ErasureLease) -> None:
        """One step of an erasure; gives the lease back, unless it ends."""
        try:
            message = await self._step(held)
        except StoreRejected as error:  # a missing privilege, for example
            async with self._database.write() as connection:
                await leases.fail(connection, held, error.message)
            self._log.error(
                "an erasure has failed; `sluice erasures retry` begins it again",
                erasure=held.erasure.id,
                error=error.message,
            )
        except StoreError as error:
            await self._release(held, error.message, UNAVAILABLE_RETRY_S)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                await asyncio.shield(self._release(held, None, 0))
            raise
        else:
            if message is not None:
                await self._release(held, message, RETRY_S)

    async def _step(self, held: ErasureLease) -> str | None:
        """Returns why the erasure is not done yet; None if it has ended."""
        erasure, condition = held.erasure, _condition(held)
        tables = condition.tables
        if others := await self._telemetry.unsupported_engines():
            raise StoreRejected(f"Rows can only be deleted from tables of the MergeTree family: {', '.join(others)}.")
        if running := await self._telemetry.running(tables):
            return f"ClickHouse is deleting rows: {'; '.join(running)}"
        counts = await self._telemetry.count(condition)
        if counts:
            self._deleted_at.pop(erasure.id, None)
            total = {table: erasure.counts.get(table, 0) + rows for table, rows in counts.items()}
            async with (
                self._database.write() as connection
            ):  # before: a crash may count rows twice, and never not at all
                if not await leases.report_progress(connection, held, total, self._now()):
                    return None
            await self._telemetry.delete(condition, list(counts))
            return f"ClickHouse is deleting {sum(counts.values())} rows."
        deleted_at = self._deleted_at.setdefault(erasure.id, await self._telemetry.now())
        if self._clock() < int(erasure.requested_at.timestamp() * 10**9) + MARGIN_NS:
            return RECENT
        if await self._telemetry.has_old_parts(tables, deleted_at):
            return OLD_PARTS
        return await self._complete(held, erasure.counts)

    async def _complete(self, held: ErasureLease, counts: Mapping[str, int]) -> str | None:
        try:
            async with self._database.write() as connection:
                ended = await leases.complete(connection, held, counts, self._now())
        except AcknowledgementMissing as error:
            return f"The rows are deleted; requests are still held in {len(error.journals)} journals: {', '.join(error.journals)}."
        self._deleted_at.pop(held.erasure.id, None)
        if ended:
            self._log.info("an erasure is complete", erasure=held.erasure.id, rows=sum(counts.values()))
        return None

    async def _release(self, held: ErasureLease, message: str | None, retry_s: float) -> None:
        async with self._database.write() as connection:
            await leases.release(connection, held, self._now() + timedelta(seconds=retry_s), message)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock() / 10**9, UTC)


def _condition(held: ErasureLease) -> Condition:
    if held.erasure.project_id is None:
        raise ValueError("an organization's telemetry is erased by the erasures of its projects")
    return of_project(held.erasure.project_id)
