"""A journal that is open, as the one thread that works on it sees it: plain calls that block."""

import contextlib
import errno
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.journal import quarantine
from gateway.journal.claims import Claim
from gateway.journal.damage import Damaged
from gateway.journal.entries import Clean, Skip, Split, begin_of, finish_of
from gateway.journal.indexing import Steps
from gateway.journal.ledger import Ledger
from gateway.journal.quarantine import Quarantine
from gateway.journal.records import Batch, Place, Request, Surroundings
from gateway.journal.segments import Segment, Writing, room_for
from gateway.journal.shelf import Shelf
from gateway.journal.upkeep import Upkeep

MIN_AGE_S: Final = 60.0  # of a segment that is sealed though it is not full


class NoRoom(OSError):
    """The disk has less room than is to be kept free."""


class OpenJournal:
    """See `startup.start` for how one comes to be."""

    def __init__(
        self, claim: Claim, around: Surroundings, ledger: Ledger, shelf: Shelf, damaged: Damaged, salt: bytes
    ) -> None:
        self.claim = claim
        self.ledger = ledger
        self.shelf = shelf
        self.upkeep = Upkeep(claim.directory, around, ledger, shelf, damaged)
        self._around = around
        self._metrics, self._log = around.metrics, around.log
        self._salt = salt
        self._quarantine = Quarantine(around.files, claim.root / quarantine.DIRECTORY, around.clock)
        self._aside: dict[int, int] = {}  # requests of batches that are set aside, and nobody was told so yet
        self._writing: Writing | None = None
        self._since = 0.0  # when it was begun

    @property
    def last(self) -> int:
        """The last sequence that was used."""
        return self.ledger.progress.next - 1

    def commit(self, requests: Sequence[Request]) -> int:
        """Write requests, all or none; on disk when this returns, and the sequence of the first. Raises OSError, and
        MemoryError; whatever it raises, none is on disk, nor will be found there.
        """
        first, last = self.last + 1, self.last + len(requests)
        writing = self._writing_for(room_for(requests))
        before = writing.segment.facts()
        try:
            with self._metrics.sync_seconds.time():
                writing.append(requests, first)
            self._metrics.group_requests.observe(len(requests))
            self.ledger.progress.mention(last)
            self.upkeep.grown(writing.segment.length - before.length)
        except Exception:
            writing.segment.recall(before)
            self._abandon(writing, first, last)
            raise
        return first

    def begin(self, batch: Batch) -> None:
        """Record a batch; on disk when this returns. Raises OSError; it is begun all the same."""
        self.ledger.note(begin_of(batch))
        self.ledger.flush()

    def finish(self, batch_id: int, rows: Mapping[Place, int]) -> None:
        """Record its end, on disk with the next flush."""
        batch = self.ledger.progress.begun.get(batch_id)
        if batch is None:
            self._log.error("a batch is finished that was never begun", batch=batch_id)
        else:
            self.ledger.note(finish_of(batch, rows, self._now_ms()))

    def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """Record that a batch is now these. Raises OSError; it is split all the same."""
        self.ledger.note(Split(batch_id, tuple(begin_of(part) for part in parts)))
        self.ledger.flush()

    def set_aside(self, batch: Batch, reason: str) -> Steps[int]:
        """Keep the requests of a batch in quarantine, and finish it; how many are there. Raises OSError; then it may be
        set aside again.
        """
        if batch.batch_id not in self._aside:
            entries = yield from self.shelf.members(batch)
            for entry in entries:
                self._quarantine.put(batch, entry, reason, self.claim.directory.name)
                yield
            self.ledger.note(finish_of(batch, None, self._now_ms()))
            self._aside[batch.batch_id] = len(entries)
        self.ledger.flush()
        return self._aside.pop(batch.batch_id)

    def tick(self) -> None:
        """Once a second or so: what was noted is written, what is finished is removed in time."""
        if not self.ledger.settled:
            self._flush()
        if self._writing is not None and self._age() >= max(self._around.limits.hold_s, MIN_AGE_S):
            self._seal(self._writing)
        self.upkeep.tick(writing=self._writing is not None)

    def close(self) -> None:
        """End in order, as far as the disk lets us."""
        if self._writing is not None:
            self._seal(self._writing)
        self.ledger.note(Clean(self.ledger.progress.next, checked=not self.upkeep.holding))
        self._flush()
        self.ledger.close()

    def _writing_for(self, size: int) -> Writing:
        """A segment with room for a group of so many bytes."""
        if self._writing is not None and self._writing.fits(size):
            return self._writing
        if self._writing is not None:
            self._seal(self._writing)
        around, room = self._around, max(self.upkeep.segment_bytes, size + size // 8)
        if not self.upkeep.has_room(room):
            raise NoRoom(errno.ENOSPC, "less room is left on the disk than is to be kept free")
        try:
            writing = Writing(around.files, self.claim.directory, self.last + 1, self._salt, room, around.clock)
        except OSError:
            self._metrics.failures.labels("write").inc()
            raise
        self.shelf.add(writing.segment)
        self._writing, self._since = writing, around.monotonic()
        return writing

    def _seal(self, writing: Writing) -> None:
        self._writing = None
        self._note_sealed(writing.seal())

    def _note_sealed(self, segment: Segment) -> None:
        if segment.last >= segment.first:  # else another segment may have its name one day
            self.ledger.note(segment.facts())

    def _abandon(self, writing: Writing, first: int, last: int) -> None:
        """A group could not be written. Its requests are refused when this returns, so they must not be found later:
        they are cut off, and their sequences are skipped for ever; one of the two is enough.
        """
        self._writing = None
        self._metrics.failures.labels("write").inc()
        is_cut = writing.abandon()
        self.ledger.note(Skip(((first, last),), "refused"))
        self._note_sealed(writing.segment)
        if not self._flush() and not is_cut:
            self._log.error("requests that are refused may be stored after a crash", first=first, last=last)

    def _flush(self) -> bool:
        """Whether everything that was noted is on disk."""
        with contextlib.suppress(OSError):  # the ledger has said so
            self.ledger.flush()
        return self.ledger.settled

    def _age(self) -> float:
        return self._around.monotonic() - self._since

    def _now_ms(self) -> int:
        return self._around.clock() // 10**6
