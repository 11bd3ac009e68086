"""Segments of which all is finished leave the disk, whatever becomes of the others."""

import errno
from pathlib import Path

import pytest

from gateway.journal.tools.inspection import list_damaged
from tests.gateway.journal.disk import Disk
from tests.gateway.journal.rig import FIRST, NO_LIMITS, ROOT, SEGMENT, Rig, segments

CANNOT = "a journal segment cannot be removed"


@pytest.fixture
def rig(disk: Disk) -> Rig:
    """A journal of three segments, all of them finished; of the oldest a page cannot be read, so it is to be moved."""
    rig = Rig(disk)
    rig.start()
    for _ in range(3):
        rig.journal.commit([rig.request(b"x" * 60_000)])
    disk.files[SEGMENT].unreadable.add(2)
    assert [entry.sequence for entry in rig.read()] == [2, 3]
    rig.restart(in_order=True)
    rig.finish(1, 3)
    rig.journal.tick()
    return rig


def failures(rig: Rig) -> float:
    return float(rig.metrics.failures.labels("remove")._value.get())


def test_a_segment_that_cannot_be_moved_on_a_full_disk_does_not_keep_the_others_there(rig: Rig, disk: Disk) -> None:
    rig.now += NO_LIMITS.hold_s
    for tick in range(1, 4):
        disk.fail("create", errno.ENOSPC)
        rig.journal.tick()
        assert segments(disk) == [1]
        assert failures(rig) == tick  # an alert looks at whether it still grows
    assert rig.log.errors == [CANNOT]
    disk.fail("create", errno.EIO)
    rig.journal.tick()
    assert rig.log.errors == [CANNOT, CANNOT]  # for another reason
    rig.journal.tick()
    assert segments(disk) == []
    assert [note.moved for note in list_damaged(ROOT, disk)] == [False, True]


def test_an_attempt_to_move_a_segment_leaves_nothing(rig: Rig, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(old: Path, new: Path) -> None:
        if old.parent == FIRST:
            raise OSError(errno.EIO, "refused")
        rename(old, new)

    rename, before = disk.rename, list_damaged(ROOT, disk)
    monkeypatch.setattr(disk, "rename", refused)
    for _ in range(3):
        rig.now += NO_LIMITS.hold_s
        rig.journal.tick()
    assert segments(disk) == [1]
    assert list_damaged(ROOT, disk) == before
