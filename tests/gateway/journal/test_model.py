"""A journal against a model of what it promised, on a disk that forgets, fails, is full, and loses bits.

Of every request the model knows where it is, and after a crash, where it may be: offered as new, in a batch that was
begun, or gone, for it was refused or is finished. After each start all of it is looked for, and must be in one of those
places, once, unchanged; what was acknowledged and not finished may be gone only if bits of it were.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.journal import Batch, Entry, JournaledRequest
from gateway.journal.storage.consistency import MISSING, MISSING_AT_THE_END, UNCERTAIN
from gateway.journal.storage.quarantine import read_quarantine_file
from gateway.journal.storage.scanning import run_to_completion
from gateway.journal.storage.segments import FRESH, SLOW
from proto.otlp.policy import Policy
from tests.gateway.journal.disk import PAGE, Disk, PowerLoss
from tests.gateway.journal.rig import ALL, FIRST, OPERATIONS_THAT_FAIL, ROOT, Rig, lost_with, ranges
from tests.selection import scaled

Body = bytes
Where = int | Literal["offered", "gone"]  # a number: of a batch

POLICIES: Final = [Policy(), Policy(max_items=7), Policy(sensitive_words=("one", "two"), exempt_keys=("a.one",))]
PLACES: Final = [("spans", 20_000), ("spans", 20_001), ("logs", 20_000)]
IN_DOUBT: Final = "requests that were answered 503 may be stored after a crash"
SIZES: Final = st.sampled_from([0, 1, 8, 100, 3000, 5000, 20_000])
SEEDS: Final = st.integers(0, 2**16)


class Fate(NamedTuple):
    """What befalls an operation of the journal."""

    faults: Sequence[tuple[str, int]] = ()  # operations of the disk, each of which fails the next time
    power: int | None = None  # so many operations of the disk are done, then it is lost
    then: Callable[[Disk], None] | None = None
    seed: int = 0  # of what is random about the disk


FATES: Final = st.just(Fate()) | st.builds(
    Fate,
    st.lists(st.sampled_from(OPERATIONS_THAT_FAIL), max_size=3),
    st.none() | st.integers(0, 10) | st.integers(0, 50),
    st.sampled_from([None, Disk.kill_process, Disk.lose_power]),
    SEEDS,
)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.rig = Rig(self.disk)
        self.numbers = itertools.count(1)
        self.requests: dict[Body, JournaledRequest] = {}
        self.sequences: dict[Body, int] = {}
        self.now: dict[Body, Where] = {}  # where it is
        self.crashed: dict[Body, set[Where]] = {}  # where it may be after a crash
        self.batches: dict[int, Batch] = {}
        self.begun: dict[int, list[Batch]] = {}  # all that ever were, by id
        self.unsettled: set[Body] = set()  # finished, but not on disk as that
        self.set_aside_: set[Body] = set()
        self.uncut: set[Body] = set()  # refused, and kept away by a record of the ledger alone
        self.ids: set[int] = set()  # of all batches
        self.damaged = False
        self.hit: set[Body] = set()  # bits of it, or of its policy, were flipped

    # What happens.

    @initialize(seed=SEEDS)
    def begin_with_nothing(self, seed: int) -> None:
        self.disk.random.seed(seed)
        self.rig.start()

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=6), policy=st.sampled_from(POLICIES), slow=st.booleans())
    def write(self, sizes: list[int], policy: Policy, slow: bool) -> None:
        self.commit(sizes, policy, slow=slow)

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=4), fate=FATES)
    def write_on_a_bad_day(self, sizes: list[int], fate: Fate) -> None:
        with self.meets(fate):
            self.commit(sizes, POLICIES[1])

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=3), fate=FATES)
    def write_well_and_then_badly(self, sizes: list[int], fate: Fate) -> None:
        """The second time to a segment that is there."""
        self.commit([0], POLICIES[0])
        with self.meets(fate):
            self.commit(sizes, POLICIES[0])

    @rule(
        groups=st.lists(st.lists(SIZES, min_size=1, max_size=3), max_size=4),
        seconds=st.sampled_from([0.0, 1.0]),
        max_bytes=st.sampled_from([1, 30_000, ALL]),
    )
    def write_between_the_steps_of_a_reader(self, groups: list[list[int]], seconds: float, max_bytes: int) -> None:
        """It may end before what is written meanwhile, and passes over nothing of it."""
        entries: list[Entry] = []

        def read() -> Iterator[None]:
            entries.extend((yield from self.rig.journal.segment_set.read(0, max_bytes)))

        for _, sizes in itertools.zip_longest(read(), groups):
            if sizes is not None:
                self.commit(sizes, POLICIES[0])
                self.rig.now += seconds
                self.commit(sizes, POLICIES[0])
        assert entries == self.rig.read()[: len(entries)]

    @rule(data=st.data(), fate=FATES)
    def begin(self, data: st.DataObject, fate: Fate) -> None:
        if (batch := self.draw_batch(data)) is None:
            return
        self.begun[batch.batch_id] = [batch]
        with self.meets(fate):
            bodies = self.bodies(batch)
            self.record(lambda: self.rig.journal.begin(batch), dict.fromkeys(bodies, batch.batch_id))
            self.batches[batch.batch_id] = batch

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), seconds=st.sampled_from([None, 0.0, 70.0, 140.0]), fate=FATES)
    def finish(self, data: st.DataObject, seconds: float | None, fate: Fate) -> None:
        batch = self.draw_begun(data)
        for body in self.bodies(batch):
            self.now[body] = "gone"
            self.crashed[body].add("gone")
            self.unsettled.add(body)
        del self.batches[batch.batch_id]
        with self.meets(fate):
            self.rig.journal.finish(batch.batch_id, {PLACES[0]: 1})
            if seconds is not None:
                self.pass_time(seconds)

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), keeps_id=st.booleans(), fate=FATES)
    def split(self, data: st.DataObject, keeps_id: bool, fate: Fate) -> None:
        batch = self.draw_begun(data)
        sequences = [self.sequences[body] for body in self.bodies(batch)]
        at = data.draw(st.integers(0, len(sequences)))
        halves = [half for half in (sequences[:at], sequences[at:]) if half]
        parts = [Batch(self.new_id(), batch.made_ms, ranges(half), frozenset(PLACES[:1])) for half in halves]
        if keeps_id and parts:
            parts[0] = parts[0]._replace(batch_id=batch.batch_id)
        for part in parts:
            self.begun.setdefault(part.batch_id, []).append(part)
        places: dict[Body, Where] = {body: part.batch_id for part in parts for body in self.bodies(part)}
        with self.meets(fate):
            self.record(lambda: self.rig.journal.split(batch.batch_id, parts), places)
            del self.batches[batch.batch_id]
            self.batches |= {part.batch_id: part for part in parts}

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), fate=FATES)
    def set_aside(self, data: st.DataObject, fate: Fate) -> None:
        batch = self.draw_begun(data)
        bodies = self.bodies(batch)
        with self.meets(fate):
            self.record(
                lambda: run_to_completion(self.rig.journal.quarantine(batch, "why")), dict.fromkeys(bodies, "gone")
            )
            self.set_aside_ |= set(bodies)
            del self.batches[batch.batch_id]

    @rule(seconds=st.sampled_from([0.0, 1.0, 70.0]), fate=FATES)
    def tick(self, seconds: float, fate: Fate) -> None:
        with self.meets(fate):
            self.pass_time(seconds)

    @rule(power=st.none() | st.integers(0, 12), seed=SEEDS)
    def end_in_order(self, power: int | None, seed: int) -> None:
        with self.meets(Fate(power=power, seed=seed)):
            self.rig.journal.close()
            self.crashed |= {body: {"gone"} for body in self.unsettled}
            self.disk.kill_process()
            self.restart()
            assert self.rig.recovered.clean

    @rule(power=st.integers(0, 25), seed=SEEDS)
    def lose_power_within_the_start(self, power: int, seed: int) -> None:
        self.disk.lose_power()
        with self.meets(Fate(power=power, seed=seed)):
            self.rig.start()
            self.disk.give_up()

    @rule(data=st.data())
    def flip_a_bit_of_a_segment(self, data: st.DataObject) -> None:
        self.disk.lose_power()
        if (path := self.draw_path(data, ".segment")) is not None:
            offset = data.draw(st.integers(0, max(self.disk.written(path) * 8 - 1, 0)))
            for body in lost_with(self.disk, path, offset // 8):
                self.crashed[body].add("gone")
                self.hit.add(body)
            self.disk.flip(path, offset)
            self.damaged = True
        self.restart()

    @rule(data=st.data())
    def flip_a_bit_while_it_is_open(self, data: st.DataObject) -> None:
        if (path := self.draw_path(data, ".segment")) is None:
            return
        offset = data.draw(st.integers(PAGE * 8, max(self.disk.written(path), 2 * PAGE) * 8 - 1))
        lost = lost_with(self.disk, path, offset // 8)
        self.disk.flip(path, offset)
        self.damaged = True
        self.hit |= set(lost)
        seen = self.seen()
        self.now |= {body: "gone" for body in lost if body not in seen}

    @rule(data=st.data())
    def flip_a_bit_of_the_ledger(self, data: st.DataObject) -> None:
        """What is finished may be there again, and batches may be forgotten; nothing may be lost."""
        self.disk.lose_power()
        if (path := self.draw_path(data, "ledger-")) is not None:
            self.disk.flip(path, data.draw(st.integers(0, max(self.disk.written(path) * 8 - 1, 0))))
            anywhere: set[Where] = {"offered", *self.ids}
            for body in self.sequences.keys() | self.uncut:
                self.crashed[body] |= anywhere
            self.damaged = True
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

    def record(self, write: Callable[[], object], places: dict[Body, Where]) -> None:
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
        if self.rig.journal.ledger.is_flushed:
            self.crashed |= {body: {"gone"} for body in self.unsettled}
            self.unsettled.clear()

    def pass_time(self, seconds: float) -> None:
        self.rig.now += seconds
        self.rig.journal.tick()
        self.note_settled()

    @contextmanager
    def meets(self, fate: Fate) -> Iterator[None]:
        """What is done within it goes well, or not."""
        self.disk.random.seed(fate.seed)
        for operation, error in fate.faults:
            self.disk.fail(operation, error)
        self.disk.stop_at = fate.power
        try:
            yield
        except PowerLoss:
            self.disk.lose_power()
            self.restart()
            return
        finally:
            self.disk.heal()
            self.disk.stop_at = None
        if fate.then is not None:
            fate.then(self.disk)
            self.restart()

    def restart(self) -> None:
        """Whatever happened: start, look where everything is, and go on from there."""
        self.rig.start()
        recovered = self.rig.recovered
        self.batches = {batch.batch_id: batch for batch in recovered.unfinished}
        seen = self.seen()
        for batch in recovered.unfinished:  # all of it, or nothing
            assert self.damaged or batch in self.begun[batch.batch_id]
        for body, places in self.crashed.items():
            allowed = places | {"gone"} if body in self.hit else places
            assert seen.get(body, "gone") in allowed, (body[:8], seen.get(body), places)
        offered = [self.sequences[body] for body, place in seen.items() if place == "offered"]
        assert recovered.last_unbatched >= max(offered, default=0)
        self.now = dict(seen)
        self.crashed = {body: {seen.get(body, "gone")} for body in self.crashed}
        for body in self.hit - seen.keys():  # what it is decoded with may be found again, in another segment
            self.crashed[body] |= {"offered", *self.ids}
        self.unsettled.clear()
        if not self.damaged:
            assert self.rig.metrics.lost_requests._value.get() == 0
            assert {MISSING, MISSING_AT_THE_END, UNCERTAIN}.isdisjoint(self.rig.log.errors)
        kept = self.quarantined()
        assert kept >= self.set_aside_
        assert self.damaged or kept.isdisjoint(seen)  # without a record of that they are offered anew

    def seen(self) -> dict[Body, Where]:
        """Where everything is that can be read, each once and as it was written."""
        offered = self.rig.read()
        for lane, slow in ((FRESH, False), (SLOW, True)):
            assert self.rig.read(lanes=lane) == [entry for entry in offered if entry.request.slow == slow]
        found: dict[Body, Where] = {}
        self.look(offered, "offered", found)
        for batch in self.batches.values():
            self.look(run_to_completion(self.rig.journal.segment_set.read_batch(batch)), batch.batch_id, found)
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
        names = self.disk.list_directory(directory) if directory in self.disk.directories else []
        contents = [read_quarantine_file(self.disk, directory / name) for name in names if name.endswith(".segment")]
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


Machine.TestCase.settings = settings(
    max_examples=scaled(30, 400), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
test_a_journal_keeps_its_promises = pytest.mark.sized(Machine.TestCase)
