"""The service's part of a backup: takes snapshots for `sluice backup`, one at a time, over a Unix socket in the data
directory (mode 0600, for processes of the same user and root).

A snapshot is the data directory at one moment, as links and small copies. While no insert is in progress, the parts are
taken in this order: journals (their last synced group is the moment), relational database, keys, tables. So the
database has every project of a journal or row, the keys of all secrets in the database exist, and rows that are erased
according to the database are not in the tables.
"""

import asyncio
import os
import shutil
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge

from chassis.clickhouse import ClickHouse, QueryLimits, StoreError
from chassis.clickhouse.freeze import FrozenTables
from chassis.db.database import sqlite_file
from chassis.db.sqlite import SqliteSnapshot
from chassis.errors import ApiError
from chassis.runtime.settings import ChassisSettings
from gateway.ingest.snapshots import IngestSnapshots, SnapshotFailed
from sluice import __version__
from sluice.backup import client
from sluice.backup.client import Alive, Begin, Done, Failed, Held, Taken
from sluice.backup.manifest import (
    DATABASE,
    KEY_FILES,
    BackupFailed,
    Record,
    Snapshot,
    Tree,
    read_record,
    remove_tree,
    write_record,
)
from sluice.data_dir import peer_of, short_path

DIRECTORY: Final = "backup.tmp"  # in the data directory
_LIMITS: Final = QueryLimits(max_seconds=30)


def require_embedded(settings: ChassisSettings) -> Path:
    """The SQLite file of the embedded mode. Raises BackupFailed with exit code 2 for settings with servers."""
    file = sqlite_file(settings.effective_database_url)
    if not settings.uses_embedded_clickhouse or file is None:
        stores = "ClickHouse" if not settings.uses_embedded_clickhouse else "PostgreSQL"
        raise BackupFailed(
            f"`sluice backup` copies only the embedded stores, but the settings name a {stores} server. docs/backup.md "
            "describes how to back up servers.",
            exit_code=2,
        )
    return file


class SnapshotTaker:
    """Takes one snapshot at a time, of the stores of the settings. `clickhouse` is open."""

    def __init__(self, settings: ChassisSettings, clickhouse: ClickHouse, ingest: IngestSnapshots) -> None:
        self._settings = settings
        self._database = require_embedded(settings)
        self._directory = settings.data_dir / DIRECTORY
        self._clickhouse = clickhouse
        self._ingest = ingest

    @property
    def is_disk_low(self) -> bool:
        """Whether the snapshot must be given up, because exports are refused for lack of disk space."""
        return self._ingest.is_disk_low

    async def take(self) -> Snapshot:
        """A snapshot, which exists until `remove`. Raises BackupFailed; then some of its files may remain."""
        with failures_of_stores():
            await self.remove()
            return await self._take()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[Snapshot]:
        """A snapshot, which exists while the block runs. Raises BackupFailed; then none of its files remain."""
        try:
            yield await self.take()
        finally:
            with suppress(StoreError, OSError):  # the next snapshot or start removes remaining files
                await self.remove()

    async def remove(self) -> None:
        """Remove the last snapshot, also if another process took it and was killed. Raises StoreError, OSError."""
        await self._ingest.release()
        await FrozenTables(self._clickhouse).release()
        await asyncio.to_thread(remove_tree, self._directory)

    async def _take(self) -> Snapshot:
        self._directory.mkdir(mode=0o700)
        tables = FrozenTables(self._clickhouse)
        await tables.prepare()
        with ExitStack() as stack:
            pinned: list[SqliteSnapshot] = []

            async def freeze() -> None:
                pinned.append(stack.enter_context(await asyncio.to_thread(SqliteSnapshot, self._database)))
                await asyncio.to_thread(self._copy_keys)
                await tables.complete()

            ingested = await self._ingest.take(freeze)
            await tables.settle()
            (database,) = pinned
            await asyncio.to_thread(database.copy_to, self._directory / DATABASE)
            revision = await asyncio.to_thread(database.revision)
        engine, schema = await self._versions()
        return Snapshot(
            moment_ns=ingested.moment_ns,
            held_s=round(ingested.held_s, 6),
            durability=self._settings.durability,
            release=__version__,
            engine=engine,
            clickhouse_schema=schema,
            database_revision=revision,
            trees=[
                Tree("", str(self._directory)),
                Tree("clickhouse", str(tables.directory)),
                Tree("journal", str(ingested.directory)),
            ],
            lengths={f"journal/{name}": length for name, length in ingested.lengths.items()},
        )

    def _copy_keys(self) -> None:
        for name in KEY_FILES:
            with suppress(FileNotFoundError):
                shutil.copy2(self._settings.data_dir / name, self._directory / name)

    async def _versions(self) -> tuple[str, int]:
        ((engine,),) = await self._clickhouse.query("SELECT version()", {}, limits=_LIMITS)
        ((schema,),) = await self._clickhouse.query("SELECT max(version) FROM sluice_schema", {}, limits=_LIMITS)
        return str(engine), int(str(schema))


@contextmanager
def failures_of_stores() -> Iterator[None]:
    """Raise every failure of a store or disk as BackupFailed."""
    try:
        yield
    except SnapshotFailed as error:
        raise BackupFailed(str(error)) from error
    except (StoreError, ApiError) as error:
        raise BackupFailed(f"No backup was made: {error.message}") from error
    except (OSError, sqlite3.Error) as error:
        raise BackupFailed(f"No backup was made: {error}.") from error


BEGIN_TIMEOUT_S: Final = 10.0  # for the first message of a connection
BUSY: Final = "Another backup is in progress; try again when it has ended."
DISK_LOW: Final = (
    "No backup was made, because the disk of the data directory is nearly full. A backup needs free space: while it "
    "runs, deleted files stay on the disk."
)
ROOT: Final = 0

log = structlog.get_logger(__name__)


class BackupServer:
    """Serves the socket in `directory` while the process runs."""

    def __init__(self, directory: Path, taker: SnapshotTaker, registry: CollectorRegistry) -> None:
        self._directory = directory
        self._taker = taker
        self._is_busy = False
        self._connections: set[asyncio.Task[None]] = set()
        self._last_success = Gauge(
            "sluice_backup_last_success_timestamp_seconds",
            "Time at which the last backup of this data directory was completed, in seconds since 1970. 0 if there is "
            "none.",
            registry=registry,
        )
        self._hold_seconds = Gauge(
            "sluice_backup_insert_hold_seconds", "Seconds that inserts waited for the last snapshot.", registry=registry
        )
        self._failures = Counter(
            "sluice_backup_failures", "Backups that were begun but not completed.", registry=registry
        )

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """A cleanup context, to be started after the stores and closed before them."""
        await self._remove_leftovers()
        last = read_record(self._directory)
        self._last_success.set(0.0 if last is None else last.completed_s)
        try:
            listener = self._listen()
        except OSError as error:  # for example a file system without sockets; the service runs without backups
            log.warning(
                "backups are not possible until the next start: their socket cannot be opened",
                error=str(error),
            )
            yield
            return
        server = await asyncio.start_unix_server(self._accept, sock=listener, limit=client.MAX_LINE_BYTES)
        yield
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        (self._directory / client.SOCKET).unlink(missing_ok=True)

    def _listen(self) -> socket.socket:
        (self._directory / client.SOCKET).unlink(missing_ok=True)  # left by a process that was killed
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.setblocking(False)
            os.fchmod(listener.fileno(), 0o600)  # on Linux also the mode of the file that bind() creates
            with short_path(self._directory, client.SOCKET) as path:
                listener.bind(path)
        except OSError:
            listener.close()
            raise
        return listener

    async def _remove_leftovers(self) -> None:
        try:
            await self._taker.remove()
        except (StoreError, OSError) as error:  # the snapshot only takes space
            log.warning("removing an unfinished backup's snapshot failed", error=str(error))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        try:
            peer = peer_of(writer.get_extra_info("socket"))
            if not (peer.is_same_user or peer.user == ROOT):
                log.warning("backup refused: another user", process=peer.process, user=peer.user)
                return
            async with asyncio.timeout(BEGIN_TIMEOUT_S):
                request = client.decode_request(await reader.readline())
            if isinstance(request, Begin):
                await self._serve(request, reader, writer)
        except (OSError, ValueError, TimeoutError, msgspec.MsgspecError) as error:  # a lost or foreign connection
            log.info("backup connection ended", error=str(error))
        except Exception:
            log.exception("backup failed")
        finally:
            with suppress(OSError):
                writer.close()
                await writer.wait_closed()

    async def _serve(self, begin: Begin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_busy:
            await _send(writer, Failed(BUSY))
            return
        self._is_busy = True
        completed = False
        try:
            async with self._taker.taken() as snapshot:
                self._hold_seconds.set(snapshot.held_s)
                log.info("backup snapshot taken", target=begin.target, inserts_held_s=snapshot.held_s)
                await _send(writer, Taken(snapshot))
                completed = await self._hold(reader, writer)
        except BackupFailed as error:
            await _send(writer, Failed(str(error)))
            log.warning("backup failed", target=begin.target, error=str(error))
        finally:
            self._is_busy = False
            if not completed:
                self._failures.inc()

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Keep the snapshot until the command is done or disconnects; returns whether it is done."""
        while True:
            try:
                async with asyncio.timeout(client.SILENCE_S):
                    line = await reader.readline()
            except TimeoutError:
                line = b""
            if not line:
                log.warning("backup abandoned: the command ended or does not respond")
                return False
            request = client.decode_request(line)
            if isinstance(request, Alive) and self._taker.is_disk_low:
                log.warning("backup abandoned: the disk is nearly full, and a backup keeps deleted files")
                await _send(writer, Failed(DISK_LOW))
                return False
            await _send(writer, Held())
            if isinstance(request, Done):
                done = request.record
                await self._note(done)
                self._last_success.set(done.completed_s)
                log.info(
                    "backup completed",
                    directory=done.directory,
                    moment=done.moment,
                    files=done.files,
                    bytes=done.bytes,
                    copied_bytes=done.copied_bytes,
                    seconds=done.seconds,
                )
                return True
            if not isinstance(request, Alive):
                return False

    async def _note(self, completed: Record) -> None:
        try:
            await asyncio.to_thread(write_record, self._directory, completed)
        except OSError as error:
            log.warning("the time of the backup cannot be recorded", error=str(error))


async def _send(writer: asyncio.StreamWriter, reply: client.Reply) -> None:
    writer.write(client.encode(reply))
    async with asyncio.timeout(BEGIN_TIMEOUT_S):
        await writer.drain()
