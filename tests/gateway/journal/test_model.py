"""A journal against a model of what it promised, on a disk that forgets, fails, is full, and loses bits.

Of every request the model knows where it is, and after a crash, where it may be: offered as new, in a batch that was
begun, or gone, for it was refused or is finished. After each start all of it is looked for, and must be in one of those
places, once, unchanged; what was acknowledged and not finished may be gone only if bits of it were.
"""

import errno
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.journal import Batch, Entry, Request
from gateway.journal import format as fmt
from gateway.journal.blocks import FRESH, SLOW
from gateway.journal.indexing import finish
from gateway.journal.quarantine import read_contents
from gateway.journal.scanning import Found, scan
from proto.otlp.policy import Policy
from tests.gateway.journal.disk import Disk, PowerLoss
from tests.gateway.journal.rig import FIRST, ROOT, Rig, ranges

Body = bytes
Where = int | Literal["offered", "gone"]  # a number: of a batch

POLICIES: Final = [Policy(), Policy(max_items=7), Policy(sensitive_words=("one", "two"))]
PLACES: Final = [("spans", 20_000), ("spans", 20_001), ("logs", 20_000)]
IN_DOUBT: Final = "requests that are refused may be stored after a crash"
SIZES: Final = st.sampled_from([0, 1, 8, 100, 3000, 5000, 20_000])
FAULTS: Final = st.sampled_from(
    [
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
)
SEEDS: Final = st.integers(0, 2**16)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.rig = Rig(self.disk)
        self.numbers = itertools.count(1)
        self.requests: dict[Body, Request] = {}
        self.sequences: dict[Body, int] = {}
        self.now: dict[Body, Where] = {}  # where it is
        self.crashed: dict[Body, set[Where]] = {}  # where it may be after a crash
        self.batches: dict[int, Batch] = {}
        self.unsettled: set[Body] = set()  # finished, but not on disk as that
        self.set_aside_: set[Body] = set()
        self.uncut: set[Body] = set()  # refused, and kept away by a record of the ledger alone
        self.ids: set[int] = set()  # of all batches

    # What happens.

    @initialize(seed=SEEDS)
    def begin_with_nothing(self, seed: int) -> None:
        self.disk.random.seed(seed)
        self.rig.start()

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=6), policy=st.sampled_from(POLICIES), slow=st.booleans())
    def write(self, sizes: list[int], policy: Policy, slow: bool) -> None:
        self.commit(sizes, policy, slow=slow)

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=4), faults=st.lists(FAULTS, min_size=1, max_size=4))
    def write_to_a_bad_disk(self, sizes: list[int], faults: list[tuple[str, int]]) -> None:
        with self.faults(faults):
            self.commit(sizes, POLICIES[0])

    @rule(data=st.data(), faults=st.lists(FAULTS, max_size=3))
    def begin(self, data: st.DataObject, faults: list[tuple[str, int]]) -> None:
        if batch := self.draw_batch(data):
            with self.faults(faults):
                self.begin_(batch)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        batch = self.draw_begun(data)
        self.rig.journal.finish(batch.batch_id, {PLACES[0]: 1})
        for body in self.bodies(batch):
            self.now[body] = "gone"
            self.crashed[body].add("gone")
            self.unsettled.add(body)
        del self.batches[batch.batch_id]

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), faults=st.lists(FAULTS, max_size=3), keeps_id=st.booleans())
    def split(self, data: st.DataObject, faults: list[tuple[str, int]], keeps_id: bool) -> None:
        batch = self.draw_begun(data)
        sequences = [self.sequences[body] for body in self.bodies(batch)]
        at = data.draw(st.integers(0, len(sequences)))
        halves = [half for half in (sequences[:at], sequences[at:]) if half]
        parts = [Batch(self.new_id(), batch.made_ms, ranges(half), frozenset(PLACES[:1])) for half in halves]
        if keeps_id and parts:
            parts[0] = parts[0]._replace(batch_id=batch.batch_id)
        places: dict[Body, Where] = {body: part.batch_id for part in parts for body in self.bodies(part)}
        with self.faults(faults):
            self.record(lambda: self.rig.journal.split(batch.batch_id, parts), places)
        del self.batches[batch.batch_id]
        self.batches |= {part.batch_id: part for part in parts}

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), faults=st.lists(FAULTS, max_size=3))
    def set_aside(self, data: st.DataObject, faults: list[tuple[str, int]]) -> None:
        batch = self.draw_begun(data)
        bodies = self.bodies(batch)
        with self.faults(faults):
            self.record(lambda: finish(self.rig.journal.set_aside(batch, "why")), dict.fromkeys(bodies, "gone"))
        self.set_aside_ |= set(bodies)
        del self.batches[batch.batch_id]

    @rule(seconds=st.sampled_from([0.0, 1.0, 70.0]), faults=st.lists(FAULTS, max_size=2))
    def tick(self, seconds: float, faults: list[tuple[str, int]]) -> None:
        self.rig.now += seconds
        with self.faults(faults):
            self.rig.journal.tick()
        self.note_settled()

    @rule()
    def end_in_order(self) -> None:
        self.rig.journal.close()
        self.crashed |= {body: {"gone"} for body in self.unsettled}
        self.disk.kill_process()
        self.restart()
        assert self.rig.recovered.clean

    @rule(seed=SEEDS)
    def lose_power(self, seed: int) -> None:
        self.disk.random.seed(seed)
        self.disk.lose_power()
        self.restart()

    @rule()
    def kill(self) -> None:
        self.disk.kill_process()
        self.restart()

    @rule(operations=st.integers(0, 25), size=SIZES, data=st.data())
    def lose_power_within(self, operations: int, size: int, data: st.DataObject) -> None:
        """At one of the next operations, whatever is being done then."""
        self.disk.stop_at = operations
        try:
            self.commit([size], POLICIES[1])
            if batch := self.draw_batch(data):
                self.begin_(batch)
            self.rig.now += 70.0
            self.rig.journal.tick()
            self.note_settled()
        except PowerLoss:
            pass
        self.disk.lose_power()
        self.restart()

    @rule(operations=st.integers(0, 25))
    def lose_power_within_the_start(self, operations: int) -> None:
        self.disk.lose_power()
        self.disk.stop_at = operations
        try:
            self.rig.start()
        except PowerLoss:
            pass
        self.disk.lose_power()
        self.restart()

    @rule(data=st.data())
    def flip_a_bit_of_a_segment(self, data: st.DataObject) -> None:
        self.disk.lose_power()
        if (path := self.draw_path(data, ".segment")) is not None:
            offset = data.draw(st.integers(0, max(self.disk.written(path) * 8 - 1, 0)))
            for body in self.under(path, offset // 8):
                self.crashed[body].add("gone")
            self.disk.flip(path, offset)
        self.restart(exact=False)

    @rule(data=st.data())
    def flip_a_bit_of_the_ledger(self, data: st.DataObject) -> None:
        """What is finished may be there again, and batches may be forgotten; nothing may be lost."""
        self.disk.lose_power()
        if (path := self.draw_path(data, "ledger-")) is not None:
            self.disk.flip(path, data.draw(st.integers(0, max(self.disk.written(path) * 8 - 1, 0))))
            anywhere: set[Where] = {"offered", *self.ids}
            for body in self.sequences.keys() | self.uncut:
                self.crashed[body] |= anywhere
        self.restart()

    @invariant()
    def what_is_there_can_be_read(self) -> None:
        if hasattr(self.rig, "journal"):
            assert self.seen() == {body: place for body, place in self.now.items() if place != "gone"}

    # How it is done.

    def commit(self, sizes: list[int], policy: Policy, *, slow: bool = False) -> None:
        requests = []
        for size in sizes:
            number = next(self.numbers)
            body = b"%08d" % number + bytes([number % 251]) * size
            requests.append(self.rig.request(body, policy, project_id=number % 3, slow=slow))
        self.requests |= {request.body: request for request in requests}
        self.crashed |= {request.body: {"offered", "gone"} for request in requests}
        try:
            first = self.rig.journal.commit(requests)
        except OSError:
            refused: set[Where] = {"offered", "gone"} if IN_DOUBT in self.rig.log.errors else {"gone"}
            self.crashed |= {request.body: set(refused) for request in requests}
            self.uncut |= {request.body for request in requests if self.disk.holds(request.body)}
            return
        finally:
            self.rig.log.said.clear()
        for sequence, request in enumerate(requests, first):
            self.sequences[request.body] = sequence
            self.now[request.body] = "offered"
            self.crashed[request.body] = {"offered"}

    def begin_(self, batch: Batch) -> None:
        bodies = self.bodies(batch)
        self.record(lambda: self.rig.journal.begin(batch), dict.fromkeys(bodies, batch.batch_id))
        self.batches[batch.batch_id] = batch

    def record(self, write: Callable[[], None], places: dict[Body, Where]) -> None:
        """Until it returns, requests are where they were or where they are to be; as its users do, it tries again."""
        for body, place in places.items():
            self.crashed[body].add(place)
        try:
            write()
        except OSError:
            self.disk.heal()
            write()
        self.now |= places
        self.crashed |= {body: {place} for body, place in places.items()}
        self.note_settled()

    def note_settled(self) -> None:
        if self.rig.journal.ledger.settled:
            self.crashed |= {body: {"gone"} for body in self.unsettled}
            self.unsettled.clear()

    @contextmanager
    def faults(self, faults: list[tuple[str, int]]) -> Iterator[None]:
        for operation, error in faults:
            self.disk.fail(operation, error)
        yield
        self.disk.heal()

    def restart(self, *, exact: bool = True) -> None:
        """Whatever happened: start, look where everything is, and go on from there."""
        self.rig.start()
        recovered = self.rig.recovered
        self.batches = {batch.batch_id: batch for batch in recovered.unfinished}
        seen = self.seen()
        for body, places in self.crashed.items():
            assert seen.get(body, "gone") in places, (body[:8], seen.get(body), places)
        offered = [self.sequences[body] for body, place in seen.items() if place == "offered"]
        assert recovered.last == max(offered, default=0) or (not exact and recovered.last > max(offered, default=0))
        self.now = dict(seen)
        self.crashed = {body: {seen.get(body, "gone")} for body in self.crashed}
        self.unsettled.clear()
        kept = self.quarantined()
        assert kept >= self.set_aside_
        assert kept.isdisjoint(seen)

    def seen(self) -> dict[Body, Where]:
        """Where everything is that can be read, each once and as it was written."""
        offered = self.rig.read()
        for lane, slow in ((FRESH, False), (SLOW, True)):
            assert self.rig.read(lanes=lane) == [entry for entry in offered if entry.request.slow == slow]
        found: dict[Body, Where] = {}
        self.look(offered, "offered", found)
        for batch in self.batches.values():
            self.look(finish(self.rig.journal.shelf.members(batch)), batch.batch_id, found)
        return found

    def look(self, entries: list[Entry], place: Where, found: dict[Body, Where]) -> None:
        assert [entry.sequence for entry in entries] == sorted({entry.sequence for entry in entries})
        for sequence, request in entries:
            assert request == self.requests[request.body]
            assert self.sequences.setdefault(request.body, sequence) == sequence
            assert request.body not in found
            found[request.body] = place

    def quarantined(self) -> set[Body]:
        directory = ROOT / "quarantine"
        names = self.disk.names(directory) if directory in self.disk.directories else []
        contents = [read_contents(self.disk, directory / name) for name in names if name.endswith(".segment")]
        return {kept.entry.request.body for kept in contents if kept is not None}

    def draw_batch(self, data: st.DataObject) -> Batch | None:
        """Requests that nobody stores yet."""
        free = sorted(self.sequences[body] for body, place in self.now.items() if place == "offered")
        if not free:
            return None
        chosen = sorted(data.draw(st.lists(st.sampled_from(free), min_size=1, unique=True, max_size=20)))
        skip = data.draw(st.frozensets(st.sampled_from(PLACES)))
        return Batch(self.new_id(), self.rig.clock() // 10**6, ranges(chosen), skip)

    def new_id(self) -> int:
        self.ids.add(number := next(self.numbers))
        return number

    def draw_begun(self, data: st.DataObject) -> Batch:
        return self.batches[data.draw(st.sampled_from(sorted(self.batches)))]

    def draw_path(self, data: st.DataObject, kind: str) -> Path | None:
        paths = sorted(
            path for path in self.disk.files if path.parent == FIRST and kind in (path.suffix, path.name[:7])
        )
        return data.draw(st.sampled_from(paths)) if paths else None

    def bodies(self, batch: Batch) -> list[Body]:
        """What is in a batch, in order."""
        by_sequence = {self.sequences[body]: body for body, place in self.now.items() if place != "gone"}
        inside = [sequence for first, last in batch.ranges for sequence in range(first, last + 1)]
        return [by_sequence[sequence] for sequence in inside if sequence in by_sequence]

    def under(self, path: Path, offset: int) -> list[Body]:
        """What may be lost with a byte of a segment: a request, or those with the policy that is declared there."""
        content = self.disk.files[path].content()
        header = fmt.read_file_header(content)
        assert header is not None
        seed = fmt.seed_of(header.salt)
        frames = [
            f
            for f in scan(lambda size, at: content[at : at + size], seed, fmt.PAGE, len(content))
            if isinstance(f, Found)
        ]
        for frame in frames:
            if not frame.offset <= offset < frame.end:
                continue
            if frame.head.kind == fmt.REQUEST:
                return [bytes(frame.payload)]
            used = [f for f in frames if f.head.kind == fmt.REQUEST and f.head.policy_id == frame.head.policy_id]
            return [bytes(f.payload) for f in used]
        return []


Machine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
test_a_journal_keeps_its_promises = Machine.TestCase
