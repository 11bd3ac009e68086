"""Exports the streams of a sink, each row once.

    export          takes the lease of the sink, runs its streams, and releases the lease
    _export_batch   exports one batch: intent -> Parquet -> object store -> warehouse -> checkpoint and run

The batch (the pair of cursors, the key, the digest of its rows) is committed as an intent before anything is stored at
the destination. The exporter that continues after a crash exports the same batch under the same key, and the object
store accepts a key only once. The cursor moves in the transaction that records the run, unless another exporter has
moved it.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from weakref import WeakValueDictionary

import sqlalchemy as sa
import structlog
from prometheus_client import CollectorRegistry, Counter

from chassis.auth.tables import new_id, projects
from chassis.clickhouse.errors import StoreError
from chassis.db.database import Database, DatabaseUnavailable, to_milliseconds
from control.export import store
from control.export.destinations.interfaces import DestinationError
from control.export.model import (
    BatchDigest,
    Intent,
    Run,
    RunStatus,
    Sink,
    SinkKind,
    Stream,
    StreamCheckpoint,
    find_missing,
)
from control.export.sink_destination import Destination
from control.export.streams.parquet import digest_table, has_arrow, write_parquet
from control.export.streams.reading import Batch, ExportSource, StreamReader
from control.export.streams.schemas import SCHEMAS
from control.secrets.secret_box import SecretBox


class WarehouseMetrics:
    """Metrics of exports. Without `registry` they are not exposed."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._runs = Counter(
            "sluice_warehouse_runs",
            "Runs of sinks, by kind, stream and status. A run exports one stream of a sink.",
            ["kind", "stream", "status"],
            registry=registry,
        )
        self._rows = Counter(
            "sluice_warehouse_rows", "Rows that sinks have exported, by stream.", ["stream"], registry=registry
        )
        self._bytes = Counter(
            "sluice_warehouse_bytes",
            "Bytes of the files that sinks have exported, by stream.",
            ["stream"],
            registry=registry,
        )

    def record(self, kind: SinkKind, run: Run) -> None:
        """Count a finished run."""
        self._runs.labels(kind.value, run.stream.value, run.status.value).inc()
        self._rows.labels(run.stream.value).inc(run.rows)
        self._bytes.labels(run.stream.value).inc(run.bytes)


RENEW_S: Final = 15.0
# Attempts that an intent remembers: enough for twenty days of runs, in each of which an issue has changed.
MAX_ATTEMPTS: Final = 2_000
MAX_REMEMBERED: Final = 10_000  # configs
TAKEN_OVER: Final = "Another process has continued this export."

log = structlog.get_logger(__name__)


class SinkDisabled(Exception):
    """The sink is disabled and exports nothing."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A finished run. `is_idle`: there was nothing to export. `has_more`: the run ended at the maximum number of
    batches.
    """

    run: Run
    is_idle: bool
    has_more: bool


class Exporter:
    """Exports sinks. `readers` is empty without ClickHouse. Then nothing is exported."""

    def __init__(
        self,
        database: Database,
        secret_box: SecretBox,
        readers: Mapping[Stream, StreamReader],
        open_destination: Callable[[Sink], Destination],
        metrics: WarehouseMetrics,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._secret_box = secret_box
        self._readers = readers
        self._open_destination = open_destination
        self._metrics = metrics
        self._now = now
        self._making = asyncio.Semaphore(1)  # one file at a time, because a file takes most of the memory of an export
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # by organization
        self._wrong: dict[tuple[str, int], str | None] = {}

    async def export(
        self, org_id: str, sink_id: str, max_batches: int, interval: timedelta | None = None
    ) -> tuple[Sink, list[EndedRun]]:
        """Run every stream of a sink, each for at most `max_batches` batches. `interval`: the time until the sink is
        due again. None: the due time is not changed. Raises LeaseUnavailable, SinkDisabled and DatabaseUnavailable.
        """
        owner = f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(4)}"
        async with self._database.write() as connection:
            now = self._milliseconds()
            await store.take_lease(connection, sink_id, owner, now)
            sink = await store.find(connection, self._secret_box, org_id, sink_id)
            if sink is None:
                raise store.LeaseUnavailable(sink_id)
            if not sink.enabled:
                raise SinkDisabled(sink_id)
            await store.end_interrupted(connection, sink_id, now)
            await store.delete_old_runs(connection, sink_id)
        ended: list[EndedRun] = []
        try:
            async with self._holding(sink_id, owner):
                for stream in sink.streams:
                    ended.append(await self._run(sink, stream, max_batches))
        finally:
            has_more = any(one.has_more for one in ended)
            due = None if interval is None else self._milliseconds() + (timedelta() if has_more else interval)
            with suppress(DatabaseUnavailable):  # the lease expires anyway
                async with self._database.write() as connection:
                    await store.release_lease(connection, sink_id, owner, due)
        return sink, ended

    def not_configured_reason(self, sink: Sink) -> str | None:
        """The step that a person has to take before the sink can export. None if the sink is configured."""
        missing = find_missing(sink.config)
        if missing:
            return f"The config lacks {', '.join(missing)}. Send the whole config to PUT .../config."
        wrong = self._find_wrong(sink)
        if wrong is not None:
            return wrong
        if not self._readers:
            return "This control service has no ClickHouse URL (SLUICE_CLICKHOUSE_URL). Ask the operator to set it."
        if not has_arrow():
            return "This control service was installed without the extra `warehouse`. Ask the operator to install it."
        return None

    def _find_wrong(self, sink: Sink) -> str | None:
        """The part of a complete config that cannot be used. The result is remembered, because reading a private key
        takes up to a second.
        """
        key = sink.id, hash(sink.config)
        if key not in self._wrong:
            if len(self._wrong) >= MAX_REMEMBERED:
                self._wrong.clear()
            try:
                self._open_destination(sink)
                self._wrong[key] = None
            except DestinationError as error:
                self._wrong[key] = error.detail
        return self._wrong[key]

    async def _run(self, sink: Sink, stream: Stream, max_batches: int) -> EndedRun:
        # SUCCEEDED from the start: the run is stored only after a batch, when everything that it lists is exported, or
        # at its end.
        run = Run(new_id("run"), sink.id, sink.org_id, stream, RunStatus.SUCCEEDED, self._milliseconds())
        reason = self.not_configured_reason(sink)
        if reason is not None:
            run = replace(run, status=RunStatus.NOT_CONFIGURED, error=reason)
            return await self._end(sink, run, batches=0, has_more=False)
        batches, has_more = 0, True
        try:
            destination = self._open_destination(sink)
            while has_more and batches < max_batches:
                async with self._turns.setdefault(sink.org_id, asyncio.Semaphore(1)):
                    exported = await self._export_batch(sink, stream, run, destination)
                if exported is None:
                    has_more = False
                else:
                    batches, (run, has_more) = batches + 1, exported
        except DestinationError as error:
            run = replace(run, status=RunStatus.FAILED, error=error.detail)
        except store.CheckpointChanged:
            run = replace(run, status=RunStatus.FAILED, error=TAKEN_OVER)
        except StoreError as error:
            log.warning("export failed", stream=stream.value, reason=str(error))
            run = replace(run, status=RunStatus.FAILED, error="The telemetry store is unavailable or too busy.")
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("export failed", stream=stream.value)
            run = replace(run, status=RunStatus.FAILED, error="The export failed. The operator's log has the reason.")
        return await self._end(sink, run, batches, has_more=has_more and run.status is RunStatus.SUCCEEDED)

    async def _end(self, sink: Sink, run: Run, batches: int, *, has_more: bool) -> EndedRun:
        run = replace(run, finished_at=self._milliseconds())
        try:
            async with self._database.write() as connection:
                await store.store_run(connection, run)
                if not batches:
                    checkpoint = await store.load_checkpoint(connection, sink.id, sink.org_id, run.stream)
                    await store.note_run(connection, checkpoint, run.started_at)
        except (sa.exc.IntegrityError, store.CheckpointChanged):  # the sink was deleted meanwhile
            log.info("a sink was deleted during its export", sink_id=sink.id)
        self._metrics.record(sink.kind, run)
        return EndedRun(run, not batches and run.status is RunStatus.SUCCEEDED, has_more)

    async def _export_batch(
        self, sink: Sink, stream: Stream, run: Run, destination: Destination
    ) -> tuple[Run, bool] | None:
        """Export one batch. Returns the run including this batch, and whether there may be more batches. Returns None
        if there was no batch.
        """
        reader = self._readers[stream]
        async with self._database.read() as connection:
            checkpoint = await store.load_checkpoint(connection, sink.id, sink.org_id, stream)
            slugs = sa.select(projects.c.id, projects.c.slug)
            slugs = slugs.where(projects.c.org_id == sink.org_id, projects.c.deleted_at.is_(None))
            source = ExportSource(sink.org_id, {row.id: row.slug for row in await connection.execute(slugs)})
        async with self._making:
            if checkpoint.intent is None:
                batch = await reader.read(source, checkpoint.cursor)
                if batch is None:
                    return None
                table, is_last = batch.table, batch.is_last
                batch_digest = BatchDigest(await asyncio.to_thread(digest_table, table), table.num_rows)
                intent = _intent(sink, stream, checkpoint, batch, batch_digest)
            else:
                intent, is_last = checkpoint.intent, False
                table = await reader.read_again(source, checkpoint.cursor, intent.until)
                batch_digest = BatchDigest(await asyncio.to_thread(digest_table, table), table.num_rows)
                if batch_digest not in intent.attempts:
                    intent = replace(intent, attempts=(*intent.attempts, batch_digest)[-MAX_ATTEMPTS:])
            if checkpoint.intent is None and not table.num_rows:
                async with self._database.write() as connection:
                    await store.store_exported(connection, checkpoint, intent, 0, run.started_at)
                return run, not is_last
            if intent != checkpoint.intent:
                async with self._database.write() as connection:
                    checkpoint = await store.store_intent(connection, checkpoint, intent)
            body = await asyncio.to_thread(write_parquet, table)
            del table
        exported, name = await destination.export(intent, batch_digest, SCHEMAS[stream], body)
        run = replace(
            run, rows=run.rows + exported.rows, bytes=run.bytes + len(body), object_keys=(*run.object_keys, name)
        )
        async with self._database.write() as connection:
            await store.store_exported(connection, checkpoint, intent, exported.rows, run.started_at)
            await store.store_run(connection, run)
        return run, not is_last

    @asynccontextmanager
    async def _holding(self, sink_id: str, owner: str) -> AsyncIterator[None]:
        """Renew the lease during the block. The block is cancelled if another exporter has taken the lease."""
        task = asyncio.current_task()
        is_lost = False

        async def renew() -> None:
            nonlocal is_lost
            while True:
                await asyncio.sleep(RENEW_S)
                try:
                    async with self._database.write() as connection:
                        await store.take_lease(connection, sink_id, owner, self._milliseconds())
                except DatabaseUnavailable:
                    continue  # the transactions of the batch fail, too
                except store.LeaseUnavailable:
                    is_lost = True
                    if task is not None:
                        task.cancel()
                    return

        renewing = asyncio.create_task(renew())
        try:
            yield
        except asyncio.CancelledError:
            if not is_lost:
                raise
            if task is not None:
                task.uncancel()
            raise store.LeaseUnavailable(sink_id) from None
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    def _milliseconds(self) -> datetime:
        return to_milliseconds(self._now())


def _intent(
    sink: Sink, stream: Stream, checkpoint: StreamCheckpoint, batch: Batch, batch_digest: BatchDigest
) -> Intent:
    """The intent to export a batch. Two batches never have the same key, because one begins where the other ends."""
    day = "unknown" if batch.until_at is None else batch.until_at.strftime("%Y-%m-%d")
    pair = f"{checkpoint.cursor_id or 'start'}__{batch.until_id}"
    key = f"{sink.id}/{stream.value.lower()}/dt={day}/{pair}.parquet"
    at = None if batch.until_at is None else to_milliseconds(batch.until_at)
    return Intent(key, batch.until, at, batch.until_id, (batch_digest,))
