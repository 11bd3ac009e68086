"""What was set aside and what is damaged is deleted in time, whatever a clock says once."""

import errno
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.journal import Batch
from gateway.journal.inspection import list_quarantined
from gateway.journal.requeue import requeue
from gateway.journal.storage.retention import CHECK_INTERVAL_S, Expiry
from gateway.journal.storage.scanning import run_to_completion
from tests.gateway.journal.disk import Disk
from tests.gateway.journal.rig import EPOCH_S, NO_LIMITS, ROOT, SEGMENT, Rig

DAY_S = 86_400
LIMITS = replace(NO_LIMITS, quarantine_days=30)
BATCH = Batch(77, EPOCH_S * 1000, ((2, 2),))


@dataclass
class Clocks:
    """What is told of time, the one that jumps in seconds since 1970."""

    wall: float = EPOCH_S
    monotonic: float = 100.0

    def clock(self) -> int:
        return int(self.wall * 10**9)

    def look(self, expiry: Expiry, hours: int = 1) -> None:
        for _ in range(hours):
            self.wall += CHECK_INTERVAL_S
            self.monotonic += CHECK_INTERVAL_S
            expiry.tick()


def aside(disk: Disk, wall: float = EPOCH_S, batch: Batch = BATCH) -> None:
    """A request is set aside when a clock says so."""
    rig = Rig(disk, limits=LIMITS)
    rig.now = wall - EPOCH_S
    journal = rig.start()
    journal.commit([rig.request(b"%d" % number * 100) for number in (1, 2)])
    journal.begin(batch)
    run_to_completion(journal.quarantine(batch, "why"))
    journal.close()
    disk.kill_process()


def files(disk: Disk) -> list[str]:
    return [path.name for path in disk.files if path.parent.name in ("quarantine", "damaged")]


def expiry(disk: Disk, clocks: Clocks, days: int = 30) -> Expiry:
    return Expiry(disk, ROOT, days, clocks.clock, lambda: clocks.monotonic)


@pytest.mark.parametrize(("days", "left"), [(30, 0), (32, 2), (0, 2)])
def test_what_is_old_at_two_looks_is_deleted_and_0_days_are_for_ever(disk: Disk, days: int, left: int) -> None:
    aside(disk)
    clocks = Clocks(EPOCH_S + 31 * DAY_S)
    process = expiry(disk, clocks, days)
    process.tick()
    clocks.look(process)
    assert len(files(disk)) == 2
    clocks.look(process)
    assert len(files(disk)) == left


def test_a_clock_that_is_wrong_for_less_than_an_hour_deletes_nothing(disk: Disk) -> None:
    aside(disk)
    clocks = Clocks(EPOCH_S + 80 * 365 * DAY_S)
    process = expiry(disk, clocks)
    process.tick()
    clocks.look(process)
    clocks.wall = EPOCH_S + DAY_S
    clocks.look(process, 3)
    assert len(files(disk)) == 2


def test_requests_quarantined_before_there_was_a_clock_are_kept(disk: Disk) -> None:
    aside(disk, wall=600)
    clocks = Clocks()
    clocks.look(expiry(disk, clocks), 5)
    assert len(files(disk)) == 2


def test_the_age_counts_from_the_time_of_the_quarantine(disk: Disk) -> None:
    """Its batch was begun 31 days before."""
    aside(disk, wall=EPOCH_S + 31 * DAY_S)
    clocks = Clocks(EPOCH_S + 60 * DAY_S)
    process = expiry(disk, clocks)
    for days, left in ((0, 2), (1, 0)):
        clocks.wall += days * DAY_S
        clocks.look(process, 5)
        assert len(files(disk)) == left


def test_what_was_put_back_and_is_refused_again_has_its_days_again(disk: Disk) -> None:
    aside(disk)
    rig = Rig(disk, limits=LIMITS)
    rig.now = 29 * DAY_S
    done = requeue(disk, ROOT, None, rig.clock)
    assert done.journal is not None
    journal = rig.start(done.journal)
    (back,) = rig.recovered.unfinished
    run_to_completion(journal.quarantine(back, "why"))
    for _ in range(48):
        rig.now += CHECK_INTERVAL_S
        journal.tick()
    assert [found.note is not None for found in list_quarantined(ROOT, disk)] == [True]
    rig.now += 28 * DAY_S
    for _ in range(2):
        rig.now += CHECK_INTERVAL_S
        journal.tick()
    assert list(list_quarantined(ROOT, disk)) == []


def test_damaged_bytes_are_deleted_by_when_they_were_found(disk: Disk) -> None:
    rig = Rig(disk, limits=LIMITS)
    rig.start().commit([rig.request(b"%d" % number * 5000) for number in (1, 2)])
    disk.flip(SEGMENT, disk.files[SEGMENT].content().index(b"1" * 100) * 8)
    assert [entry.sequence for entry in rig.read()] == [2]
    assert sorted(Path(name).suffix for name in files(disk)) == [".bytes", ".json"]
    clocks = Clocks(EPOCH_S + 31 * DAY_S)
    clocks.look(expiry(disk, clocks), 2)
    assert files(disk) == []


def test_what_cannot_be_deleted_is_tried_again(disk: Disk) -> None:
    aside(disk)
    rig = Rig(disk, limits=LIMITS)
    rig.now = 31 * DAY_S
    rig.start()
    for look, left in enumerate((2, 2, 0)):
        if look == 1:
            disk.fail("unlink", errno.EIO)
        rig.now += CHECK_INTERVAL_S
        rig.journal.tick()
        assert len(files(disk)) == left
    assert rig.log.errors == ["expired journal files cannot be removed"]
