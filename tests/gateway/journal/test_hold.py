"""What is finished is held until it is old, and longer while nobody can check that it is still stored. Then it leaves
the disk, whatever becomes of the others.
"""

import errno
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.journal import Batch
from gateway.journal.inspection import inspect, list_damaged
from tests.gateway.journal.disk import Disk
from tests.gateway.journal.rig import FIRST, NO_LIMITS, ROOT, SEGMENT, Rig, segments
from tests.gateway.journal.running import journal_at, request, until

STORED = {("spans", 20_000): 1}
LONG_S = 10 * NO_LIMITS.hold_s


def stored(rig: Rig) -> Batch:
    """A batch of a sealed segment is finished."""
    for _ in range(2):
        rig.journal.commit([rig.request(bytes(70_000))])
    rig.journal.begin(batch := Batch(1, 2, ((1, 1),), rows=STORED))
    rig.journal.finish(1, STORED)
    rig.journal.tick()
    return batch


def held(rig: Rig) -> list[Batch]:
    return [entry.batch for entry in rig.journal.ledger.state.retained.values()]


def test_nothing_is_removed_for_its_age_while_nobody_can_check() -> None:
    rig = Rig(disk := Disk())
    rig.start(holding=True)
    batch = stored(rig)
    rig.now += LONG_S
    rig.journal.tick()
    assert (held(rig), len(segments(disk))) == ([batch], 2)
    rig.journal.retention.is_paused = False
    rig.journal.tick()
    assert (held(rig), len(segments(disk))) == ([], 1)


def test_what_was_held_at_the_end_is_held_at_the_start_however_late_that_is() -> None:
    disk = Disk()
    rig = Rig(disk)
    rig.start()
    batch = stored(rig)
    disk.kill_process()
    rig.now += LONG_S
    rig.start(holding=True)
    assert rig.recovered.retained == [batch]
    assert rig.member_sequences(batch) == [1]


@pytest.mark.parametrize("holding", [True, False])
def test_an_orderly_end_with_a_check_due_is_none_for_what_is_held(holding: bool) -> None:
    """ClickHouse is away: whether it has lost something is not known."""
    rig = Rig(disk := Disk())
    rig.start()
    stored(rig)
    rig.journal.retention.is_paused = holding
    rig.journal.close()
    disk.kill_process()
    (facts,) = inspect(rig.root, disk)
    assert facts.clean
    rig.start()
    assert rig.recovered.clean is not holding
    assert rig.recovered.retained


def test_for_want_of_room_it_goes_all_the_same() -> None:
    rig = Rig(disk := Disk(), limits=replace(NO_LIMITS, min_free_bytes=2**20))
    rig.start(holding=True)
    stored(rig)
    disk.free = 2**20 - 1
    rig.now += 1
    rig.journal.tick()
    assert (held(rig), len(segments(disk))) == ([], 1)


async def test_a_journal_starts_with_holding(tmp_path: Path) -> None:
    journal = journal_at(tmp_path)
    journal.open()
    await journal.append(request(bytes(2**20)))
    await journal.append(request(bytes(2**20)))
    await journal.begin(Batch(1, 2, ((1, 1),)))
    journal.finish(1, STORED)
    assert journal._core.retention.is_paused
    journal.pause_retention(on=False)
    await until(lambda: journal.nbytes < 2 * 2**20)
    journal.pause_retention(on=True)
    assert journal._core.retention.is_paused
    await journal.close()


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
