"""Resolve stack traces with the source maps of their project.

The process keeps in memory: the revision of each project that has maps, read every REFRESH_S seconds; the paths of the
projects that were used last; and the frames and the maps that were used last, in caches that the projects share fairly
(`FairCache`). Other data is read from the database when a frame needs it. An export waits for the database for at most
TIMEOUT_S. A frame whose data cannot be read in time is not resolved, which a metric counts. Frames whose data is in
memory are resolved even after that time, so that an error has the same fingerprint under load. The work for frames and
maps that are not in memory is limited for each project.
"""

import asyncio
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from chassis.db.database import Database
from chassis.errors import ApiError
from chassis.limits.limiter import Allowance
from chassis.runtime.periodic import PeriodicTask
from chassis.source_maps.store import read_content, read_index, read_revisions
from proto.source_maps.compact_map import MAX_LOADED_BYTES, CompactMap, OriginalFrame
from proto.source_maps.frame_rewriting import resolve_stack_trace

T = TypeVar("T")


class _Share(OrderedDict[Hashable, tuple[T, int]]):
    """The entries of a project with their sizes, the most recently used entries at the end."""

    size = 0


class FairCache(Generic[T]):
    """Caches values by project and key, with a total size of `max_size` in the caller's unit. Safe for threads."""

    def __init__(self, max_size: int) -> None:
        self._max_size: Final = max_size
        self._size = 0
        self._shares: dict[int, _Share[T]] = {}
        self._lock = threading.Lock()

    def get(self, project_id: int, key: Hashable, missing: T) -> T:
        """The value, or `missing`."""
        with self._lock:
            share = self._shares.get(project_id)
            if share is None or key not in share:
                return missing
            share.move_to_end(key)
            return share[key][0]

    def put(self, project_id: int, key: Hashable, value: T, size: int) -> None:
        """Store a value. While the cache is too large, drop the least recently used values of the project with the
        largest share, which may include the new value.
        """
        with self._lock:
            share = self._shares.setdefault(project_id, _Share())
            if key in share:
                self._resize(share, -share.pop(key)[1])
            share[key] = value, size
            self._resize(share, size)
            while self._size > self._max_size:
                largest = max(self._shares, key=lambda one: self._shares[one].size)
                _, (_, freed) = self._shares[largest].popitem(last=False)
                self._resize(self._shares[largest], -freed)
                if not self._shares[largest]:
                    del self._shares[largest]

    def forget(self, project_id: int) -> None:
        """Drop all values of a project."""
        with self._lock:
            share = self._shares.pop(project_id, None)
            self._size -= 0 if share is None else share.size

    def _resize(self, share: "_Share[T]", size: int) -> None:
        share.size += size
        self._size += size


REFRESH_S: Final = 5.0
TIMEOUT_S: Final = 1.0  # for all reads of one caller from the database together
RETRY_S: Final = 5.0  # from a failure of the database to the next read; a log line below repeats the number
MAX_BYTES: Final = MAX_LOADED_BYTES  # of all maps in memory; every single map fits
MAX_FRAME_BYTES: Final = 16 * 2**20  # of all resolved frames in memory, about 30 000 frames
MAX_INDEXED: Final = 100_000  # paths of all projects in memory, about 30 MB
MAX_CONTENT_BYTES: Final = 64 * 2**20  # of an inflated map; larger maps are not stored
BURST_S: Final = 1.0  # seconds of work that source maps of a project may cause at once
REFILL: Final = 0.1  # seconds of work per second
LOOK_UP_S: Final = 1e-4  # seconds of work to look up a frame in a map
LOAD_S: Final = 1 / (200 * 2**20)  # seconds of work to load a byte of a map
_FRAME_BYTES: Final = 500  # of a frame in memory, without its texts

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_Index = dict[tuple[str, str], str]
_FrameKey = tuple[str, str, int, int]  # id of the map, function, line and column


class _Missing:
    """Marks a key that a cache does not have. In contrast, None marks a map or frame that does not exist."""


_MISSING: Final = _Missing()


class ProjectResolver:
    """The maps of one project, for one caller in one thread. After `deadline` nothing is read from the database."""

    def __init__(self, maps: "SourceMaps", project_id: int, revision: int, deadline: float) -> None:
        self._maps = maps
        self._project = project_id, revision
        self._deadline = deadline
        self._resolved: dict[tuple[str, str], str] = {}
        self._last: tuple[str, CompactMap | None] = "", None

    def resolve(self, release: str, stacktrace: str) -> str:
        """The stack trace with the frames of the sources, or unchanged if no frame can be resolved. Blocks, so call it
        in a thread.
        """
        key = release, stacktrace
        found = self._resolved.get(key)
        if found is None:
            found = self._resolved[key] = self._resolve(release, stacktrace)
        return found

    def _resolve(self, release: str, stacktrace: str) -> str:
        if not release:
            return stacktrace

        def find_map(path: str) -> "_MapFrames | None":
            source_map_id = self._maps.find_id(self._project, release, path, self._deadline)
            return None if source_map_id is None else _MapFrames(self, source_map_id)

        resolved = resolve_stack_trace(stacktrace, find_map)
        return stacktrace if resolved is None else resolved

    def frame(self, key: _FrameKey) -> OriginalFrame | None:
        """A frame, from memory or from its map."""
        return self._maps.frame(self._project[0], key, self._load)

    def _load(self, source_map_id: str) -> CompactMap | None:
        """Load a map. The last map is kept here, so that other callers' maps do not evict it between two frames."""
        if self._last[0] != source_map_id or self._last[1] is None:
            self._last = source_map_id, self._maps.find_map(self._project[0], source_map_id, self._deadline)
        return self._last[1]


class _MapFrames:
    """The frames of a minified file that has a map."""

    def __init__(self, project: ProjectResolver, source_map_id: str) -> None:
        self._project = project
        self._id = source_map_id

    def frame(self, function: str, line: int, column: int) -> OriginalFrame | None:
        return self._project.frame((self._id, function, line, column))


class SourceMaps:
    """The source maps of all projects, which the services of a process share. Safe for threads."""

    def __init__(
        self,
        database: Database,
        registry: CollectorRegistry | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        timeout_s: float = TIMEOUT_S,
        burst_s: float = BURST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._timeout_s = timeout_s
        self._clock = clock
        self._revisions: dict[int, int] | None = None  # None: not read yet
        self._indexes = FairCache[_Index | None](MAX_INDEXED)
        self._maps = FairCache[CompactMap | _Missing | None](max_bytes)
        self._frames = FairCache[OriginalFrame | _Missing | None](MAX_FRAME_BYTES)
        self._allowance = Allowance[int](
            burst_s, REFILL, clock
        )  # all projects use the same threads, which build batches
        self._retry_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unresolved = Counter(
            "sluice_source_map_failures",
            "Failed look-ups of source maps, by reason: database (no response), damaged (map cannot be read), timeout "
            "(the time limit for reads had passed), allowance (the project has used up its share of work). The frames "
            "keep their minified form.",
            ["reason"],
            registry=registry,
        )
        self._task = PeriodicTask(
            self.refresh, REFRESH_S, log, "reading which projects have source maps failed", run_immediately=True
        )

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Refresh until shutdown. Cleanup contexts that start later, such as a gateway's reading of its journal, find
        the projects known, unless the database does not respond in time.
        """
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.refresh()
        except (TimeoutError, ApiError) as error:
            log.warning(
                "the list of projects with source maps cannot be read yet", error=str(error) or type(error).__name__
            )
        self._task.start()
        yield
        await self._task.close()

    async def refresh(self) -> None:
        """Read the revision of each project that has source maps. Raises DatabaseUnavailable."""
        self._loop = asyncio.get_running_loop()
        async with self._database.read() as connection:
            self._revisions = await read_revisions(connection)

    def deadline(self) -> float:
        """The time at which the reads of a caller that begins now must end."""
        return self._clock() + self._timeout_s

    def of_project(self, project_id: int, deadline: float) -> ProjectResolver | None:
        """The maps of a project. None if the project has no maps. While it is unknown which projects have maps, each
        call is counted as a failure.
        """
        if self._revisions is None:
            self._unresolved.labels("database").inc()
            return None
        revision = self._revisions.get(project_id)
        return None if revision is None else ProjectResolver(self, project_id, revision, deadline)

    async def resolve(self, project_id: int, release: str, stacktrace: str) -> str | None:
        """The stack trace with the frames of the sources, for display. None if no frame can be resolved."""
        project = self.of_project(project_id, self.deadline())
        if project is None or not stacktrace:
            return None
        resolved = await asyncio.to_thread(project.resolve, release, stacktrace)
        return None if resolved == stacktrace else resolved

    def find_id(self, project: tuple[int, int], release: str, path: str, deadline: float) -> str | None:
        """The id of the map of a minified file. Blocks until `deadline` at most."""
        index = self._indexes.get(*project, None)
        if index is None:
            index = self._read(lambda: self._read_index(project[0]), project[0], deadline)
            if index is None:
                return None
            self._indexes.forget(project[0])
            self._indexes.put(*project, index, max(1, len(index)))
        return index.get((release, path))

    def frame(self, project_id: int, key: _FrameKey, load: Callable[[str], CompactMap | None]) -> OriginalFrame | None:
        """A frame of a project's map. If the frame is not in memory, `load` loads the map."""
        known = self._frames.get(project_id, key, _MISSING)
        if not isinstance(known, _Missing):
            return known
        if not self._allowance.has(project_id):
            self._unresolved.labels("allowance").inc()
            return None
        found = load(key[0])
        if found is None:
            return None
        frame = found.frame(*key[1:])
        self._allowance.use(project_id, LOOK_UP_S)
        texts = len(key[1]) + (0 if frame is None else len(frame.position.source) + len(frame.function))
        self._frames.put(project_id, key, frame, _FRAME_BYTES + 2 * texts)
        return frame

    def find_map(self, project_id: int, source_map_id: str, deadline: float) -> CompactMap | None:
        """A map of a project. Blocks until `deadline` at most."""
        known = self._maps.get(project_id, source_map_id, _MISSING)
        if not isinstance(known, _Missing):
            return known
        content = self._read(lambda: self._read_content(source_map_id), project_id, deadline)
        if content is None:
            return None
        found = self._decode(content, source_map_id, project_id)
        size = len(content) if found is None else found.memory_bytes
        self._allowance.use(project_id, size * LOAD_S)
        self._maps.put(project_id, source_map_id, found, _FRAME_BYTES if found is None else size)
        return found

    def _decode(self, content: bytes, source_map_id: str, project_id: int) -> CompactMap | None:
        """Decode a map. None for content that cannot be read. Reading it is not attempted again."""
        try:
            inflate = zlib.decompressobj()
            raw = inflate.decompress(content, MAX_CONTENT_BYTES)
            return CompactMap.decode(raw)
        except (zlib.error, msgspec.MsgspecError, ValueError) as error:
            self._unresolved.labels("damaged").inc()
            log.warning(
                "source map is damaged; upload it again",
                source_map_id=source_map_id,
                project_id=project_id,
                error=str(error),
            )
            return None

    def _read(self, make: Callable[[], Coroutine[Any, Any, T]], project_id: int, deadline: float) -> T | None:
        """Read from the database, from a thread other than the event loop's. None if the database does not respond in
        time, or has failed within RETRY_S.
        """
        now = self._clock()
        if self._loop is None or now < self._retry_at or now >= deadline:
            self._unresolved.labels("database" if now < deadline else "timeout").inc()
            return None
        future = asyncio.run_coroutine_threadsafe(make(), self._loop)
        try:
            return future.result(deadline - now)
        except Exception as error:  # noqa: BLE001 (it must not make an export fail)
            was_late = isinstance(error, TimeoutError) and not future.done()
            future.cancel()
            if was_late and deadline - now < self._timeout_s / 2:  # most of the caller's time had already passed
                self._unresolved.labels("timeout").inc()
                return None
            self._retry_at = self._clock() + RETRY_S
            self._unresolved.labels("database").inc()
            log.warning(
                "reading source maps from the relational database failed, stack traces are not resolved for 5 s",
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
