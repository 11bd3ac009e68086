"""The journal as the event loop sees it. All work on files is done by a thread of its own (`Worker`)."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import structlog

from chassis.errors import PayloadTooLarge, ServiceUnavailable
from gateway.journal.core import DiskFull, JournalCore
from gateway.journal.format import frames as fmt
from gateway.journal.interface import (
    Batch,
    DamagedRequests,
    Entry,
    JournaledRequest,
    JournalLimits,
    OnPersisted,
    RecoveredState,
    TableDay,
)
from gateway.journal.io_thread import CommitResult, CooperativeTask, IoThread, PendingAppend
from gateway.journal.metrics import JournalMetrics
from gateway.journal.startup import open_journal
from gateway.journal.storage import directory_lock
from gateway.journal.storage.block_index import FRESH, SLOW
from gateway.journal.storage.context import JournalContext
from gateway.journal.storage.files import Files, RealFiles
from gateway.journal.storage.ledger import LEDGER_PREFIX
from gateway.journal.storage.segment_index import CooperativeSteps
from gateway.journal.storage.segment_set import ANY_LANE
from gateway.journal.storage.segments import parse_segment_name
from gateway.journal.storage.space_quota import DISK_NEARLY_FULL, SpaceQuota

T = TypeVar("T")

NOT_WRITTEN: Final = "The request could not be written to disk; send it again later."
STOPPING: Final = "The gateway is stopping; send the request again."
NOT_RECORDED: Final = "The disk of the journal does not take records at the moment."


class Journal:
    """Implements `Log`. `directory`: where journals are, of which it takes the lowest number that nobody has; or one of
    those that `orphans` gives. A process that forks does so before it opens one.
    """

    durable = True

    def __init__(
        self,
        directory: Path,
        limits: JournalLimits,
        metrics: JournalMetrics,
        log: structlog.stdlib.BoundLogger,
        *,
        clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
        files: Files | None = None,
    ) -> None:
        self._directory = directory.absolute()
        self._context = JournalContext(files or RealFiles(), limits, metrics, log, clock, monotonic)
        self._space_quota = SpaceQuota(limits.max_bytes)
        self._core_if_open: JournalCore | None = None
        self._io_thread: IoThread | None = None  # None: not open, or not any more
        self._last_sequence = 0

    def open(self) -> RecoveredState:
        """Begin, with what an earlier process left. Blocks. Raises StartupError, JournalTaken."""
        claim = directory_lock.lock_journal(self._context.files, self._directory)
        try:
            self._core_if_open, recovered = open_journal(claim, self._context)
        except BaseException:
            self._context.files.close(claim.fd)
            raise
        self._space_quota.restore(self._core_if_open.retention.charged_by_project())
        self._last_sequence = self._core_if_open.last_sequence
        self._io_thread = IoThread(self._core_if_open, self._context.log, self._on_commit, self._space_quota.release)
        self._io_thread.start()
        self._context.metrics.register(self)
        return recovered

    @property
    def directory(self) -> Path:
        """Of this journal, once it is open."""
        return self._core.directory_lock.directory

    @property
    def last_sequence(self) -> int:
        """The last sequence that is on disk."""
        return self._last_sequence

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing any more, finished requests neither."""
        return not self._core.segment_set.segments and self._core.ledger.is_flushed

    @property
    def nbytes(self) -> int:
        """Bytes of its segments."""
        return self._core.retention.nbytes

    @property
    def unfinished_bytes(self) -> int:
        """About how many of them are not stored yet."""
        return self._core.retention.unfinished_bytes

    @property
    def room_bytes(self) -> float:
        """How many more every project may send at least, of its share, the quota and the disk."""
        return self._available_bytes[0]

    @property
    def max_project_room_bytes(self) -> float:
        """How many more one project may send at least, though others are refused."""
        return self._available_bytes[1]

    @property
    def oldest_seconds(self) -> float:
        """Age of the oldest request that is not stored yet."""
        oldest_ns = self._core.retention.oldest_ns
        return 0.0 if oldest_ns is None else max((self._context.clock() - oldest_ns) / 10**9, 0.0)

    async def append(self, request: JournaledRequest, on_persisted: OnPersisted | None = None) -> int:
        """Take a request; on disk when it returns, and its sequence. Raises ServiceUnavailable."""
        worker, upkeep = self._running_io_thread, self._core.retention
        if len(request.body) > fmt.MAX_PAYLOAD:
            raise PayloadTooLarge(f"The body is larger than {fmt.MAX_PAYLOAD} bytes.")
        size = fmt.frame_size(len(request.body))
        self._space_quota.reserve(request.project_id, size, upkeep.charged_bytes, is_disk_low=upkeep.is_disk_low)
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        worker.append(PendingAppend(request, size, done, on_persisted))
        return await done

    async def begin(self, batch: Batch) -> None:
        """Record the boundaries of a batch. Raises ServiceUnavailable."""
        with _io_errors_as_unavailable():
            await self._submit(_single_step(lambda: self._core.begin(batch)))

    def finish(self, batch_id: int, rows: Mapping[TableDay, int]) -> None:
        """A batch is stored; on disk with the next sync."""
        if self._io_thread is not None:  # else the next start makes it again, and finds it stored
            self._io_thread.submit(CooperativeTask(_single_step(lambda: self._core.finish(batch_id, rows))))

    async def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """A batch is gone and its parts are begun. Raises ServiceUnavailable."""
        with _io_errors_as_unavailable():
            await self._submit(_single_step(lambda: self._core.split(batch_id, parts)))

    async def quarantine(self, batch: Batch, reason: str) -> int:
        """Put the requests of a batch into quarantine; how many are there. Raises ServiceUnavailable."""
        with _io_errors_as_unavailable():
            return await self._submit(self._core.quarantine(batch, reason))

    async def read(self, after: int, max_bytes: int, *, slow: bool | None = None) -> list[Entry]:
        """Requests behind a sequence that are in no batch. Raises OSError."""
        lanes = ANY_LANE if slow is None else SLOW if slow else FRESH
        return await self._submit(self._core.segment_set.read(after, max_bytes, lanes))

    async def read_batch(self, batch: Batch) -> list[Entry]:
        """The requests of a batch. Raises OSError."""
        return await self._submit(self._core.segment_set.read_batch(batch))

    def retained_batches(self) -> Sequence[Batch]:
        """Batches that are finished and whose requests are still there."""
        return [held.batch for held in list(self._core.ledger.state.retained.values())]

    def take_damaged(self) -> Sequence[DamagedRequests]:
        """Requests that were found to be damaged since this was last asked."""
        return self._core.segment_set.take_damaged()

    def pause_retention(self, *, on: bool) -> None:
        """Whether what is finished is kept, however old it becomes."""
        self._core.retention.is_paused = on

    async def close(self) -> None:
        """Write what waits and end in order."""
        worker, self._io_thread = self._io_thread, None
        if worker is not None:
            await worker.close()
            self._context.files.close(self._core.directory_lock.fd)
            self._context.metrics.unregister(self)

    def remove(self) -> None:
        """Remove the directory, after it was closed, if it holds nothing; and if nobody has it meanwhile. Blocks."""
        files, directory = self._context.files, self.directory
        with contextlib.suppress(OSError):
            fd = files.lock(directory / directory_lock.LOCK_FILE)
            if fd is None:
                return
            try:
                _remove_directory(files, directory)
            finally:
                files.close(fd)

    @property
    def _core(self) -> JournalCore:
        if self._core_if_open is None:
            raise RuntimeError("The journal is not open.")
        return self._core_if_open

    @property
    def _available_bytes(self) -> tuple[float, float]:
        free = max(self._core.retention.free_bytes, 0.0)
        most, least = self._space_quota.available_bytes(self._core.retention.charged_bytes)
        return min(most, free), min(least, free)

    @property
    def _running_io_thread(self) -> IoThread:
        if self._io_thread is None:
            raise ServiceUnavailable(STOPPING)
        return self._io_thread

    async def _submit(self, steps: CooperativeSteps[T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._running_io_thread.submit(CooperativeTask(steps, done))
        return await done

    def _on_commit(self, landing: CommitResult) -> None:
        """A group is on disk, or refused."""
        if landing.error is not None:
            self._reject(landing.group, DISK_NEARLY_FULL if isinstance(landing.error, DiskFull) else NOT_WRITTEN)
            return
        self._space_quota.dequeue(sum(waiting.size for waiting in landing.group))
        self._last_sequence = landing.first + len(landing.group) - 1
        for sequence, waiting in enumerate(landing.group, landing.first):
            if waiting.on_persisted is not None:
                self._notify_persisted(waiting.on_persisted, sequence)
            if not waiting.future.done():
                waiting.future.set_result(sequence)

    def _reject(self, group: Sequence[PendingAppend], message: str) -> None:
        for waiting in group:
            self._space_quota.dequeue(waiting.size)
            self._space_quota.release({waiting.request.project_id: waiting.size})
            if not waiting.future.done():
                waiting.future.set_exception(ServiceUnavailable(message))

    def _notify_persisted(self, landed: OnPersisted, sequence: int) -> None:
        try:
            landed(sequence)
        except Exception:
            self._context.log.exception(
                "a request is on disk, and not taken up before the next start", sequence=sequence
            )


def find_orphans(directory: Path) -> list[Path]:
    """Journals in a directory that no process has. Each may be opened, as `Journal(path, ...)`. Blocks."""
    return directory_lock.find_orphans(RealFiles(), directory.absolute())


def _remove_directory(files: Files, directory: Path) -> None:
    names = files.list_directory(directory)
    if any(parse_segment_name(name) is not None for name in names):
        return
    for name in names:
        if name.startswith(LEDGER_PREFIX):
            files.unlink(directory / name)
    files.unlink(directory / directory_lock.LOCK_FILE)
    files.remove_directory(directory)
    files.sync_directory(directory.parent)


def _single_step(work: Callable[[], T]) -> CooperativeSteps[T]:
    """Work of one step."""
    yield from ()
    return work()


@contextlib.contextmanager
def _io_errors_as_unavailable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServiceUnavailable(NOT_RECORDED) from error
