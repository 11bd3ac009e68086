"""A journal on a disk of our own, with a clock that stands still, and a log that is read."""

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import structlog
from prometheus_client import CollectorRegistry

from gateway.journal import Batch, DamagedRequests, Entry, JournaledRequest, JournalLimits, JournalMetrics, Range
from gateway.journal import format as fmt
from gateway.journal.core import JournalCore
from gateway.journal.startup import open_journal
from gateway.journal.storage.directories import lock_journal
from gateway.journal.storage.files import Files, JournalContext
from gateway.journal.storage.scanning import JournalFrame, run_to_completion, scan
from proto.otlp.policy import Policy
from tests.gateway.journal.disk import Disk

ROOT = Path("/journal")
FIRST = ROOT / "0"
SEGMENT = FIRST / f"{1:020d}.segment"  # the first one
EPOCH_S = 1_700_000_000
ALL = 2**40
POLICY = Policy()
NO_LIMITS = JournalLimits(segment_bytes=64 * 1024, max_bytes=0, min_free_bytes=0, hold_s=60, quarantine_days=0)

OPERATIONS_THAT_FAIL = [
    ("write", errno.EIO),
    ("rest", errno.ENOSPC),  # a part is written first
    ("sync", errno.EIO),
    ("allocate", errno.ENOSPC),
    ("create", errno.ENOSPC),
    ("rename", errno.EIO),
    ("sync_directory", errno.EIO),
    ("truncate", errno.EIO),
    ("open_write", errno.EIO),
    ("unlink", errno.EIO),
]


class RecordingLog:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, dict[str, Any]]] = []

    def warning(self, event: str, **fields: object) -> None:
        self.said.append(("warning", event, fields))

    def error(self, event: str, **fields: object) -> None:
        self.said.append(("error", event, fields))

    def exception(self, event: str, **_: object) -> None:
        raise AssertionError(event)  # a defect, not a fault of the disk

    @property
    def errors(self) -> list[str]:
        return [event for level, event, _ in self.said if level == "error"]


class Rig:
    """Opens journals, one after the other."""

    def __init__(self, files: Files, root: Path = ROOT, limits: JournalLimits = NO_LIMITS) -> None:
        self.files = files
        self.root = root
        self.limits = limits
        self.now = 0.0  # seconds
        self.metrics = JournalMetrics(CollectorRegistry())

    def start(self, directory: Path | None = None, *, holding: bool = False) -> JournalCore:
        """A process starts, and unless it is `holding` has checked what is held."""
        self.log = RecordingLog()
        log = cast("structlog.stdlib.BoundLogger", self.log)
        around = JournalContext(self.files, self.limits, self.metrics, log, self.clock, lambda: self.now)
        self.journal, self.recovered = open_journal(lock_journal(self.files, directory or self.root), around)
        if not holding:
            self.journal.retention.is_paused = False
        return self.journal

    def end(self, *, in_order: bool = False) -> None:
        """The process ends, and the disk is as it was written."""
        if in_order:
            self.journal.close()
        assert isinstance(self.files, Disk)
        self.files.kill_process()

    def restart(self, *, in_order: bool = False) -> None:
        """It ends, and another one starts."""
        self.end(in_order=in_order)
        self.start()

    def finish(self, first: int, last: int, number: int = 1) -> None:
        """These requests are a batch that is stored."""
        self.journal.begin(Batch(number, 2, ((first, last),)))
        self.journal.finish(number, {})

    def outlive(self, seconds: float = 100) -> None:
        """What is finished is held no longer."""
        self.journal.tick()
        self.now += seconds
        self.journal.tick()

    def clock(self) -> int:
        return int((EPOCH_S + self.now) * 10**9)

    def request(
        self, body: bytes, policy: Policy = POLICY, *, project_id: int = 1, slow: bool = False
    ) -> JournaledRequest:
        return JournaledRequest(project_id, "traces", "json", "gzip", self.clock(), len(body), policy, body, slow)

    def read(self, after: int = 0, max_bytes: int = ALL, lanes: int = 3) -> list[Entry]:
        return run_to_completion(self.journal.segment_set.read(after, max_bytes, lanes))

    def members(self, batch: Batch) -> list[Entry]:
        return run_to_completion(self.journal.segment_set.read_batch(batch))

    def member_sequences(self, batch: Batch) -> list[int]:
        return [entry.sequence for entry in self.members(batch)]

    def take_damaged(self) -> Sequence[DamagedRequests]:
        """What was found to be lost since the last time."""
        return self.journal.segment_set.take_damaged()

    @property
    def damaged_frames(self) -> float:
        return float(self.metrics.damaged_frames._value.get())


def segments(disk: Disk) -> list[int]:
    """By the first sequence in their names."""
    return [int(name.removesuffix(".segment")) for name in disk.list_directory(FIRST) if name.endswith(".segment")]


def ledger(disk: Disk) -> Path:
    """The one that is there."""
    (found,) = (FIRST / name for name in disk.list_directory(FIRST) if name.startswith("ledger-"))
    return found


def ranges(sequences: Sequence[int]) -> tuple[Range, ...]:
    found: list[Range] = []
    for sequence in sequences:
        if found and found[-1][1] + 1 == sequence:
            found[-1] = found[-1][0], sequence
        else:
            found.append((sequence, sequence))
    return tuple(found)


def lost_with(disk: Disk, path: Path, offset: int) -> list[bytes]:
    """The bodies that may be lost with a byte of a segment: a request, or those with the policy that it declares."""
    content = disk.files[path].content()
    header = fmt.read_file_header(content)
    assert header is not None
    parts = scan(lambda size, at: content[at : at + size], fmt.checksum_seed(header.salt), fmt.PAGE, len(content))
    frames = [part for part in parts if isinstance(part, JournalFrame)]
    for hit in frames:
        if not hit.offset <= offset < hit.end:
            continue
        if hit.header.kind == fmt.REQUEST:
            return [bytes(hit.payload)]
        requests = (frame for frame in frames if frame.header.kind == fmt.REQUEST)
        return [bytes(frame.payload) for frame in requests if frame.header.policy_id == hit.header.policy_id]
    return []
