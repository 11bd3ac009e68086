"""Resolves stack traces with the source maps of their project.

In memory: the revision of each project that has maps, read every REFRESH_S seconds; the paths of the projects that were
asked for last; the maps that were used last, up to `max_bytes`. The rest is read from the database when a frame needs
it. What cannot be read in time is not resolved, and counted: no export waits for the database longer than TIMEOUT_S.
"""

import asyncio
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, TypeVar

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from chassis.db.database import Database
from chassis.runtime.periodic import PeriodicTask
from chassis.source_maps.repository import read_content, read_index, read_revisions
from proto.source_maps.compact_map import MAX_LOADED_BYTES, CompactMap
from proto.source_maps.frame_rewriting import resolve_stack_trace

REFRESH_S: Final = 5.0
TIMEOUT_S: Final = 1.0  # of one caller, for everything that it resolves
RETRY_S: Final = 5.0  # after a failure of the database, until it is asked again; the log line has it
MAX_BYTES: Final = MAX_LOADED_BYTES  # of all maps in memory: at least the one that was used last fits
MAX_INDEXED: Final = 100_000  # paths of all projects in memory: some 30 MB
MAX_CONTENT_BYTES: Final = 64 * 2**20  # of a map, inflated; larger ones are not stored

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_Index = dict[tuple[str, str], str]
T = TypeVar("T")


class ProjectResolver:
    """The maps of one project, for the work of one caller in one thread. Calls it after `deadline` resolve nothing."""

    def __init__(self, maps: "SourceMaps", project_id: int, revision: int, deadline: float) -> None:
        self._maps = maps
        self._project = project_id, revision
        self._deadline = deadline
        self._resolved: dict[tuple[str, str], str] = {}

    def resolve(self, release: str, stacktrace: str) -> str:
        """The stack trace with the frames of the sources; as it is if no frame can be resolved. Blocks, so call it in a
        thread.
        """
        key = release, stacktrace
        found = self._resolved.get(key)
        if found is None:
            found = self._resolved[key] = self._resolve(release, stacktrace)
        return found

    def _resolve(self, release: str, stacktrace: str) -> str:
        if not release:
            return stacktrace

        def find_map(path: str) -> CompactMap | None:
            return self._maps.find_map(self._project, release, path, self._deadline)

        resolved = resolve_stack_trace(stacktrace, find_map)
        return stacktrace if resolved is None else resolved


class SourceMaps:
    """The source maps of all projects, shared by the services of a process; threads may use it."""

    def __init__(
        self,
        database: Database,
        registry: CollectorRegistry | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._clock = clock
        self._revisions: dict[int, int] = {}
        self._indexes: OrderedDict[tuple[int, int], _Index] = OrderedDict()
        self._maps: OrderedDict[str, CompactMap | None] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._retry_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unresolved = Counter(
            "sluice_source_map_failures",
            "Look-ups of source maps that failed, by reason: database, damaged, timeout. The frames keep the minified "
            "form.",
            ["reason"],
            registry=registry,
        )
        self._task = PeriodicTask(
            self.refresh, REFRESH_S, log, "reading which projects have source maps failed", run_immediately=True
        )

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Refresh until shutdown."""
        self._loop = asyncio.get_running_loop()
        self._task.start()
        yield
        await self._task.close()

    async def refresh(self) -> None:
        """Read which projects have source maps, and which revision of them. Raises DatabaseUnavailable."""
        self._loop = asyncio.get_running_loop()
        async with self._database.read() as connection:
            self._revisions = await read_revisions(connection)

    def deadline(self) -> float:
        """The time by which a caller that begins now is done."""
        return self._clock() + self._timeout_s

    def of_project(self, project_id: int, deadline: float) -> ProjectResolver | None:
        """The maps of a project; None if it has none."""
        revision = self._revisions.get(project_id)
        return None if revision is None else ProjectResolver(self, project_id, revision, deadline)

    async def resolve(self, project_id: int, release: str, stacktrace: str) -> str | None:
        """The stack trace with the frames of the sources, for display; None if no frame can be resolved."""
        project = self.of_project(project_id, self.deadline())
        if project is None or not stacktrace:
            return None
        resolved = await asyncio.to_thread(project.resolve, release, stacktrace)
        return None if resolved == stacktrace else resolved

    def find_map(self, project: tuple[int, int], release: str, path: str, deadline: float) -> CompactMap | None:
        """The map of a minified file. Blocks until `deadline` at most."""
        index = self._index(project, deadline)
        source_map_id = None if index is None else index.get((release, path))
        if source_map_id is None:
            return None
        if self._clock() >= deadline:
            self._unresolved.labels("timeout").inc()
            return None
        with self._lock:
            if source_map_id in self._maps:
                self._maps.move_to_end(source_map_id)
                return self._maps[source_map_id]
        content = self._read(lambda: self._read_content(source_map_id), project[0], deadline)
        return (
            None if content is None else self._keep_map(source_map_id, self._decode(content, source_map_id, project[0]))
        )

    def _index(self, project: tuple[int, int], deadline: float) -> _Index | None:
        with self._lock:
            if project in self._indexes:
                self._indexes.move_to_end(project)
                return self._indexes[project]
        index = self._read(lambda: self._read_index(project[0]), project[0], deadline)
        if index is None:
            return None
        with self._lock:
            for known in [one for one in self._indexes if one[0] == project[0]]:
                del self._indexes[known]
            self._indexes[project] = index
            while len(self._indexes) > 1 and sum(map(len, self._indexes.values())) > MAX_INDEXED:
                self._indexes.popitem(last=False)
        return index

    def _keep_map(self, source_map_id: str, found: CompactMap | None) -> CompactMap | None:
        size = 0 if found is None else found.memory_bytes
        with self._lock:
            if source_map_id not in self._maps:
                self._maps[source_map_id] = found
                self._bytes += size
            while len(self._maps) > 1 and self._bytes > self._max_bytes:
                _, oldest = self._maps.popitem(last=False)
                self._bytes -= 0 if oldest is None else oldest.memory_bytes
        return found

    def _decode(self, content: bytes, source_map_id: str, project_id: int) -> CompactMap | None:
        """None for content that cannot be read, which is not tried again."""
        try:
            inflate = zlib.decompressobj()
            raw = inflate.decompress(content, MAX_CONTENT_BYTES)
            return CompactMap.decode(raw)
        except (zlib.error, msgspec.MsgspecError, ValueError) as error:
            self._unresolved.labels("damaged").inc()
            log.warning(
                "a source map is damaged; upload it again",
                source_map_id=source_map_id,
                project_id=project_id,
                error=str(error),
            )
            return None

    def _read(self, make: Callable[[], Coroutine[Any, Any, T]], project_id: int, deadline: float) -> T | None:
        """What a statement reads, from a thread; None if the database does not answer in time, or did not lately."""
        now = self._clock()
        if self._loop is None or now < self._retry_at or now >= deadline:
            self._unresolved.labels("database").inc()
            return None
        future = asyncio.run_coroutine_threadsafe(make(), self._loop)
        try:
            return future.result(deadline - now)
        except Exception as error:  # noqa: BLE001 (an export must not fail for it)
            future.cancel()
            self._retry_at = self._clock() + RETRY_S
            self._unresolved.labels("database").inc()
            log.warning(
                "source maps could not be read from the relational database; stack traces are not resolved for 5 s",
                project_id=project_id,
                error=str(error) or type(error).__name__,
            )
            return None

    async def _read_index(self, project_id: int) -> _Index:
        async with self._database.read() as connection:
            return await read_index(connection, project_id)

    async def _read_content(self, source_map_id: str) -> bytes | None:
        async with self._database.read() as connection:
            return await read_content(connection, source_map_id)
