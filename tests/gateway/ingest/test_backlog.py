"""A belt, and around it senders, the thread of the journal and the store, in an order that a seed draws.

The journal and its files are real, on a disk of our own; what takes its time elsewhere takes turns here, and fails now
and then.
"""

import asyncio
from collections.abc import Container, Sequence
from random import Random
from typing import Final, cast

import pytest
import structlog
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from gateway.ingest.journaled import LaneBacklog
from gateway.ingest.lanes import LaneLimits
from gateway.inserts.batch_writer import BatchWriter
from gateway.inserts.pending_requests import DecodeResult, JournalReader, PendingRequest, sequence_ranges
from gateway.journal import Batch, Entry, JournalLike
from gateway.journal.storage.segments import FRESH
from gateway.metrics import Metrics
from proto.otlp.codec import decode
from proto.otlp.policy import Policy
from tests.gateway.journal.disk import Disk
from tests.gateway.journal.rig import NO_LIMITS, Rig
from tests.gateway.otlp import NOW_NS, span, traces
from tests.selection import scaled

REQUESTS: Final = 150
TURNS: Final = 100_000  # far more than are needed
LIMITS: Final = LaneLimits(items=4, nbytes=2**20, days=10, linger_s=0.0, slots=2)
DECODED: Final = {project: decode("traces", traces(span()), project, Policy(), NOW_NS) for project in (1, 2)}


class Turns:
    """Senders, and what a belt is given: it plays the journal, its reader and the writer of batches."""

    durable = True
    metrics = Metrics(CollectorRegistry())

    def __init__(self, seed: int) -> None:
        self.in_memory: list[Container[int]] = []
        self.due: set[int] = set()  # sequences of the lane that are on disk
        self.written: list[int] = []
        self._random = Random(seed)
        self._rig = Rig(Disk(), limits=replace(NO_LIMITS, segment_bytes=64 * 1024))
        self._journal = self._rig.start()
        self._belt = LaneBacklog(
            cast(JournalLike, self),
            cast(JournalReader, self),
            cast(BatchWriter, self),
            LIMITS,
            self._random.choice([1, 3, 10]) * DECODED[1].nbytes,
            self.metrics,
            structlog.get_logger(),
            slow=False,
        )

    @property
    def last_sequence(self) -> int:
        """The last sequence that is on disk."""
        return self._journal.last_sequence

    async def work(self) -> None:
        """All of it: what an earlier process left, what is sent, until nothing is to be done any more."""
        for _ in range(self._random.choice([0, 0, 10])):
            self._group()
        self._belt.start(self._journal.last_sequence)
        while self._journal.last_sequence < REQUESTS:
            self._commit()
            await self._turn()
        for _ in range(TURNS):
            if self._belt.is_idle:
                break
            await asyncio.sleep(0)
        await self._belt.close()

    async def read_after(self, after: int, max_bytes: int, *, slow: bool) -> Sequence[Entry]:
        """As the journal's thread does it: a step, then perhaps a group; what landed is told first."""
        assert not slow
        self._may_fail(OSError)
        steps = self._journal.segment_set.read(after, max_bytes, FRESH)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                await self._turn()
                return cast(Sequence[Entry], end.value)
            self._commit()
            await self._turn()

    async def decode(self, entries: Sequence[Entry], max_bytes: float) -> DecodeResult:
        """At least one of them."""
        await self._turn()
        self._may_fail(MemoryError)
        count = max(1, int(max_bytes // DECODED[1].nbytes))
        good = [_queued(entry.sequence, entry.request.project_id) for entry in entries[:count]]
        return DecodeResult(good, [], entries[count:])

    async def write(self, batch: Sequence[PendingRequest]) -> None:
        """A batch becomes rows."""
        await self._turn()
        batch_id = self._random.getrandbits(60)
        self._journal.begin(Batch(batch_id, 1, sequence_ranges(batch)))
        await self._turn()
        self.written += [request.sequence for request in batch]
        self._journal.finish(batch_id, {})
        await self._turn()

    def _commit(self) -> None:
        """Perhaps a group is written, and lands."""
        if self._journal.last_sequence < REQUESTS and self._random.random() < 0.7:
            for sequence, project in self._group():
                asyncio.get_running_loop().call_soon(self._landed, sequence, project)

    def _group(self) -> list[tuple[int, int]]:
        """Sequences and projects of what is written, as far as it is of the belt's lane."""
        self._rig.now += self._random.random() / 2
        requests = [
            self._rig.request(
                bytes(self._random.choice([10, 1000, 5000])),
                project_id=self._random.choice([1, 1, 2]),
                slow=self._random.random() < 0.1,
            )
            for _ in range(self._random.randint(1, 4))
        ]
        first = self._journal.commit(requests)
        landed = [
            (sequence, request.project_id) for sequence, request in enumerate(requests, first) if not request.slow
        ]
        self.due |= {sequence for sequence, _ in landed}
        return landed

    def _landed(self, sequence: int, project: int) -> None:
        self._belt.put(sequence, DECODED[project], 100, NOW_NS)

    def _may_fail(self, error: type[Exception]) -> None:
        if self._random.random() < 0.02:
            raise error

    async def _turn(self) -> None:
        for _ in range(self._random.randint(1, 4)):
            await asyncio.sleep(0)


def _queued(sequence: int, project: int) -> PendingRequest:
    return PendingRequest(sequence, DECODED[project], 1, 100, NOW_NS)


@pytest.mark.sized
async def test_what_is_on_disk_is_written_once_in_whatever_order_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.journal.storage.segments.BLOCK_BYTES", 8 * 1024)
    monkeypatch.setattr("gateway.ingest.journaled.READ_BYTES", 30_000)
    monkeypatch.setattr("gateway.ingest.journaled.RETRY_S", 0.0)
    monkeypatch.setattr("gateway.ingest.journaled.CHECK_INTERVAL_S", 0.001)
    for seed in range(scaled(20, 1000)):
        turns = Turns(seed)
        with capture_logs():
            await turns.work()
        assert sorted(turns.written) == sorted(turns.due), f"seed {seed}"
    assert Turns.metrics.overlooked_requests._value.get() == 0
