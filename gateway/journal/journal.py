"""The journal as the event loop sees it. All work on files is done by a thread of its own (`Worker`)."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import structlog

from chassis.errors import PayloadTooLarge, ServiceUnavailable
from gateway.journal import claims
from gateway.journal import format as fmt
from gateway.journal.admission import NO_ROOM, Admission
from gateway.journal.blocks import FRESH, SLOW
from gateway.journal.files import Files, RealFiles
from gateway.journal.indexing import Steps
from gateway.journal.ledger import PREFIX
from gateway.journal.metrics import JournalMetrics
from gateway.journal.opened import NoRoom, OpenJournal
from gateway.journal.records import Batch, Entry, JournalLimits, Landed, Lost, Place, Recovered, Request, Surroundings
from gateway.journal.segments import first_of
from gateway.journal.shelf import ANY_LANE
from gateway.journal.startup import start
from gateway.journal.worker import Landing, Task, Waiting, Worker

T = TypeVar("T")

NOT_WRITTEN: Final = "The request could not be written to disk; send it again later."
STOPPING: Final = "The gateway is stopping; send the request again."
FAILED: Final = "The disk of the journal does not take records at the moment."


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
        self._around = Surroundings(files or RealFiles(), limits, metrics, log, clock, monotonic)
        self._admission = Admission(limits.max_bytes)
        self._opened: OpenJournal | None = None
        self._worker: Worker | None = None  # None: not open, or not any more
        self._last = 0

    def open(self) -> Recovered:
        """Begin, with what an earlier process left. Blocks. Raises StartupError, JournalTaken."""
        claim = claims.claim(self._around.files, self._directory)
        try:
            self._opened, recovered = start(claim, self._around)
        except BaseException:
            self._around.files.close(claim.fd)
            raise
        self._admission.hold(self._opened.upkeep.charges())
        self._last = self._opened.last
        self._worker = Worker(self._opened, self._around.log, self._landed, self._admission.release)
        self._worker.start()
        self._around.metrics.watch(self)
        return recovered

    @property
    def directory(self) -> Path:
        """Of this journal, once it is open."""
        return self._journal.claim.directory

    @property
    def last(self) -> int:
        """The last sequence that is on disk."""
        return self._last

    @property
    def empty(self) -> bool:
        """Whether it holds nothing any more, finished requests neither."""
        return not self._journal.shelf.segments and self._journal.ledger.settled

    @property
    def nbytes(self) -> int:
        """Bytes of its segments."""
        return self._journal.upkeep.nbytes

    @property
    def unfinished_bytes(self) -> int:
        """About how many of them are not stored yet."""
        return self._journal.upkeep.unfinished_bytes

    @property
    def room_bytes(self) -> float:
        """How many more every project may send at least, of its share, the quota and the disk."""
        return self._room[0]

    @property
    def room_for_any_bytes(self) -> float:
        """How many more one project may send at least, though others are refused."""
        return self._room[1]

    @property
    def oldest_seconds(self) -> float:
        """Age of the oldest request that is not stored yet."""
        oldest_ns = self._journal.upkeep.oldest_ns
        return 0.0 if oldest_ns is None else max((self._around.clock() - oldest_ns) / 10**9, 0.0)

    async def append(self, request: Request, landed: Landed | None = None) -> int:
        """Take a request; on disk when it returns, and its sequence. Raises ServiceUnavailable."""
        worker, upkeep = self._running, self._journal.upkeep
        if len(request.body) > fmt.MAX_PAYLOAD:
            raise PayloadTooLarge(f"The body is larger than {fmt.MAX_PAYLOAD} bytes.")
        size = fmt.frame_size(len(request.body))
        self._admission.admit(request.project_id, size, upkeep.charged, low=upkeep.low)
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        worker.add(Waiting(request, size, done, landed))
        return await done

    async def begin(self, batch: Batch) -> None:
        """Record the boundaries of a batch. Raises ServiceUnavailable."""
        with _recorded():
            await self._do(_at_once(lambda: self._journal.begin(batch)))

    def finish(self, batch_id: int, rows: Mapping[Place, int]) -> None:
        """A batch is stored; on disk with the next sync."""
        if self._worker is not None:  # else the next start makes it again, and finds it stored
            self._worker.do(Task(_at_once(lambda: self._journal.finish(batch_id, rows))))

    async def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """A batch is gone and its parts are begun. Raises ServiceUnavailable."""
        with _recorded():
            await self._do(_at_once(lambda: self._journal.split(batch_id, parts)))

    async def set_aside(self, batch: Batch, reason: str) -> int:
        """Put the requests of a batch into quarantine; how many are there. Raises ServiceUnavailable."""
        with _recorded():
            return await self._do(self._journal.set_aside(batch, reason))

    async def read(self, after: int, max_bytes: int, *, slow: bool | None = None) -> list[Entry]:
        """Requests behind a sequence that are in no batch. Raises OSError."""
        lanes = ANY_LANE if slow is None else SLOW if slow else FRESH
        return await self._do(self._journal.shelf.read(after, max_bytes, lanes))

    async def members(self, batch: Batch) -> list[Entry]:
        """The requests of a batch. Raises OSError."""
        return await self._do(self._journal.shelf.members(batch))

    def held(self) -> Sequence[Batch]:
        """Batches that are finished and whose requests are still there."""
        return [held.batch for held in list(self._journal.ledger.progress.held.values())]

    def damaged(self) -> Sequence[Lost]:
        """Requests that were found to be damaged since this was last asked."""
        return self._journal.shelf.take_lost()

    def hold(self, *, on: bool) -> None:
        """Whether what is finished is kept, however old it becomes."""
        self._journal.upkeep.holding = on

    async def close(self) -> None:
        """Write what waits and end in order."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.close()
            self._around.files.close(self._journal.claim.fd)
            self._around.metrics.forget(self)

    def remove(self) -> None:
        """Remove the directory, after it was closed, if it holds nothing; and if nobody has it meanwhile. Blocks."""
        files, directory = self._around.files, self.directory
        with contextlib.suppress(OSError):
            fd = files.lock(directory / claims.LOCK)
            if fd is None:
                return
            try:
                _remove(files, directory)
            finally:
                files.close(fd)

    @property
    def _journal(self) -> OpenJournal:
        if self._opened is None:
            raise RuntimeError("The journal is not open.")
        return self._opened

    @property
    def _room(self) -> tuple[float, float]:
        free = max(self._journal.upkeep.free, 0.0)
        most, least = self._admission.room(self._journal.upkeep.charged)
        return min(most, free), min(least, free)

    @property
    def _running(self) -> Worker:
        if self._worker is None:
            raise ServiceUnavailable(STOPPING)
        return self._worker

    async def _do(self, steps: Steps[T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._running.do(Task(steps, done))
        return await done

    def _landed(self, landing: Landing) -> None:
        """A group is on disk, or refused."""
        if landing.error is not None:
            self._refuse(landing.group, NO_ROOM if isinstance(landing.error, NoRoom) else NOT_WRITTEN)
            return
        self._admission.written(sum(waiting.size for waiting in landing.group))
        self._last = landing.first + len(landing.group) - 1
        for sequence, waiting in enumerate(landing.group, landing.first):
            if waiting.landed is not None:
                self._call(waiting.landed, sequence)
            if not waiting.done.done():
                waiting.done.set_result(sequence)

    def _refuse(self, group: Sequence[Waiting], message: str) -> None:
        for waiting in group:
            self._admission.written(waiting.size)
            self._admission.release({waiting.request.project_id: waiting.size})
            if not waiting.done.done():
                waiting.done.set_exception(ServiceUnavailable(message))

    def _call(self, landed: Landed, sequence: int) -> None:
        try:
            landed(sequence)
        except Exception:
            self._around.log.exception(
                "a request is on disk, and not taken up before the next start", sequence=sequence
            )


def orphans(directory: Path) -> list[Path]:
    """Journals in a directory that no process has. Each may be opened, as `Journal(path, ...)`. Blocks."""
    return claims.orphans(RealFiles(), directory.absolute())


def _remove(files: Files, directory: Path) -> None:
    names = files.names(directory)
    if any(first_of(name) is not None for name in names):
        return
    for name in names:
        if name.startswith(PREFIX):
            files.unlink(directory / name)
    files.unlink(directory / claims.LOCK)
    files.remove_directory(directory)
    files.sync_directory(directory.parent)


def _at_once(work: Callable[[], T]) -> Steps[T]:
    """Work of one step."""
    yield from ()
    return work()


@contextlib.contextmanager
def _recorded() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServiceUnavailable(FAILED) from error
