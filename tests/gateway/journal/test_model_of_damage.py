"""A journal whose files something else deletes, empties, cuts, copies, renames or changes: what is read plus what is
reported as lost is what was acknowledged and not stored.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.journal import Batch, RangeSet
from gateway.journal.storage.segments import segment_name
from tests.gateway.journal.disk import Disk, File
from tests.gateway.journal.rig import FIRST, Rig, ranges
from tests.selection import scaled

SIZES: Final = st.sampled_from([0, 100, 5000, 20_000])
HARMLESS: Final = frozenset({"copy", "swap", "rename"})


class Step(NamedTuple):
    """What a process does: write a group, or begin the oldest requests and finish them, or not; then perhaps tick."""

    sizes: Sequence[int] = ()
    begins: int = 0
    finishes: bool = False
    seconds: int | None = None  # until the tick


class Damage(NamedTuple):
    """`which`: the segment, modulo their number. `at`: an offset, or a name, or another segment."""

    kind: str
    which: int
    at: int


STEPS: Final = st.lists(
    st.builds(
        Step,
        st.lists(SIZES, min_size=1, max_size=5),
        st.sampled_from([0, 0, 1, 4]),
        st.booleans(),
        st.sampled_from([None, 0, 100]),
    ),
    min_size=1,
    max_size=12,
)
KINDS: Final = st.sampled_from(["delete", "empty", "cut", "flip", "copy", "swap", "rename"])
HARMLESS_DAMAGES: Final = st.lists(
    st.builds(Damage, st.sampled_from(sorted(HARMLESS)), st.integers(0, 9), st.integers(0, 2**17)), max_size=2
)
DAMAGES: Final = st.lists(st.builds(Damage, KINDS, st.integers(0, 9), st.integers(0, 2**17)), max_size=3)


class Written(NamedTuple):
    """What a process that ended has written."""

    bodies: dict[int, bytes]  # acknowledged, by sequence
    finished: set[int]
    recorded: int  # the last sequence that the ledger knows


def run(rig: Rig, steps: Sequence[Step], *, in_order: bool) -> Written:
    bodies: dict[int, bytes] = {}
    finished: set[int] = set()
    begun: set[int] = set()
    rig.start()
    for step in steps:
        requests = [rig.request(b"%06d" % (len(bodies) + at) + b"x" * size) for at, size in enumerate(step.sizes)]
        first = rig.journal.commit(requests)
        bodies |= {sequence: request.body for sequence, request in enumerate(requests, first)}
        batch = [sequence for sequence in sorted(bodies) if sequence not in begun][: step.begins]
        if batch:
            begun |= set(batch)
            rig.journal.begin(Batch(batch[0], 1, ranges(batch)))
            if step.finishes:
                finished |= set(batch)
                rig.journal.finish(batch[0], {})
        if step.seconds is not None:
            rig.now += step.seconds
            rig.journal.tick()
    if in_order:
        rig.journal.close()
    elif not rig.journal.ledger.is_flushed:  # what is finished is known, the last requests need not be
        rig.journal.ledger.flush()
    return Written(bodies, finished, len(bodies) if in_order else rig.journal.ledger.state.recorded_next - 1)


def inflict(disk: Disk, damage: Damage) -> None:
    segments = sorted(path for path in disk.files if path.parent == FIRST and path.suffix == ".segment")
    if not segments:
        return
    path = segments[damage.which % len(segments)]
    file = disk.files[path]
    size = disk.written(path)
    other = segments[damage.at % len(segments)]
    free = FIRST / segment_name(damage.at % 40 + 1)
    match damage.kind:
        case "delete":
            del disk.files[path]
        case "empty" | "cut":
            disk.truncate(disk.open(path, write=True), 0 if damage.kind == "empty" else damage.at % max(size, 1))
        case "flip" if size:
            disk.flip(path, damage.at % (size * 8))
        case "copy" if free not in segments:
            disk.files[free] = File(dict(file.pages), file.size, dict(file.pages), file.size)
        case "swap":
            disk.files[path], disk.files[other] = disk.files[other], disk.files[path]
        case "rename" if free not in segments:
            disk.files[free] = disk.files.pop(path)


def read(rig: Rig, written: Written) -> set[int]:
    """The sequences of everything that is stored from now on, each once and as it was written."""
    entries = rig.read()
    for batch in rig.recovered.unfinished:
        entries += rig.members(batch)
    found = [entry.sequence for entry in entries]
    assert len(found) == len(set(found))
    assert {entry.sequence: entry.request.body for entry in entries} == {each: written.bodies[each] for each in found}
    return set(found)


def lost(rig: Rig) -> set[int]:
    reports = rig.take_damaged()
    found = [sequence for each in reports for sequence in range(each.first, each.last + 1)]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.sized
@given(steps=STEPS, in_order=st.booleans(), damages=DAMAGES)
@settings(max_examples=scaled(50, 1500), deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_read_and_what_is_lost_is_what_was_acknowledged_and_not_stored(
    steps: list[Step], in_order: bool, damages: list[Damage]
) -> None:
    rig = Rig(disk := Disk())
    written = run(rig, steps, in_order=in_order)
    disk.kill_process()
    for damage in damages:
        inflict(disk, damage)
    rig.restart()
    stored, reported = read(rig, written), lost(rig)
    due = written.bodies.keys() - written.finished
    assert stored.isdisjoint(reported)
    assert stored | reported <= due
    assert all(sequence > written.recorded for sequence in due - stored - reported)
    assert rig.metrics.lost_requests._value.get() == len(reported)
    if not {damage.kind for damage in damages} - HARMLESS:
        assert (stored, reported, rig.log.errors) == (due, set(), [])
        assert rig.metrics.uncertain_requests._value.get() == 0
    again(rig, disk, written, stored)


@pytest.mark.sized
@given(steps=STEPS, in_order=st.booleans(), damages=HARMLESS_DAMAGES, emptied=st.booleans())
@settings(max_examples=scaled(25, 500), deadline=None, suppress_health_check=list(HealthCheck))
def test_without_its_ledger_a_journal_reports_nothing_as_lost_that_may_be_stored(
    steps: list[Step], in_order: bool, damages: list[Damage], emptied: bool
) -> None:
    rig = Rig(disk := Disk())
    written = run(rig, steps, in_order=in_order)
    disk.kill_process()
    for damage in damages:
        inflict(disk, damage)
    (ledger,) = (path for path in disk.files if path.name.startswith("ledger-"))
    if emptied:
        disk.truncate(disk.open(ledger, write=True), 0)
    else:
        del disk.files[ledger]
    rig.restart()
    stored = read(rig, written)
    assert written.bodies.keys() - written.finished <= stored
    assert (lost(rig), rig.metrics.lost_requests._value.get()) == (set(), 0)
    rig.restart()
    assert (read(rig, written), lost(rig), rig.log.errors) == (stored, set(), [])


def again(rig: Rig, disk: Disk, written: Written, stored: set[int]) -> None:
    """The next process finds the same, says nothing more, and writes where nothing was."""
    rig.journal.tick()
    rig.restart()
    assert (read(rig, written), lost(rig), rig.log.errors) == (stored, set(), [])
    sequence = rig.journal.commit([rig.request(b"new")])
    assert sequence not in RangeSet((each, each) for each in stored)
    assert sequence > written.recorded
    assert [entry.request.body for entry in rig.read()][-1] == b"new"


@pytest.mark.sized
@given(steps=STEPS, in_order=st.booleans(), which=st.integers(0, 9))
@settings(max_examples=scaled(25, 500), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_segment_that_is_put_back_later_is_stored_whole(steps: list[Step], in_order: bool, which: int) -> None:
    rig = Rig(disk := Disk())
    written = run(rig, steps, in_order=in_order)
    disk.kill_process()
    found = sorted(path for path in disk.files if path.parent == FIRST and path.suffix == ".segment")
    away = found[which % len(found)] if found else None
    file = disk.files.pop(away) if away else None
    rig.start()
    sequence = rig.journal.commit([rig.request(b"new")])
    assert sequence not in written.bodies
    disk.kill_process()
    if away and file:
        disk.files[away] = file
    rig.start()
    bodies = {**written.bodies, sequence: b"new"}
    assert read(rig, written._replace(bodies=bodies)) == bodies.keys() - written.finished
