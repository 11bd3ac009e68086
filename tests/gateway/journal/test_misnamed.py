"""Segments that something else than the journal copied or renamed."""

import contextlib

import pytest

from gateway.journal.inspection import list_damaged
from gateway.journal.storage.segments import segment_name
from tests.gateway.journal.disk import Disk, PowerLoss
from tests.gateway.journal.rig import FIRST, ROOT, Rig, segments
from tests.gateway.journal.three_segments import (
    EVERYTHING,
    copy,
    counted,
    cut,
    kill,
    path,
    said,
    sequences,
    three_segments,
    write,
)


@pytest.fixture
def rig(disk: Disk) -> Rig:
    return three_segments(disk)


COPIES = [(1, 3), (1, 6 + 2), (6, 13), (1, 16), (6, 16), (11, 16), (11, 99), (1, 99), (11, 2)]


@pytest.mark.parametrize("in_order", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize(("source", "name"), COPIES)
def test_a_copy_is_no_loss_and_stored_once(rig: Rig, disk: Disk, source: int, name: int, in_order: bool) -> None:
    kill(rig, in_order=in_order)
    copy(disk, path(source), path(name))
    rig.start()
    assert sequences(rig) == EVERYTHING
    assert (said(rig), counted(rig), rig.damaged_frames) == ([], (0, 0), 0)
    assert segments(disk) == [1, 6, 11]
    (note,) = list_damaged(ROOT, disk)
    assert (note.segment, note.sequences, note.moved) == (segment_name(name), (), True)
    write(rig, 16)
    assert sequences(rig) == [*EVERYTHING, 16]


def test_a_copy_takes_the_place_of_a_segment_that_is_damaged(rig: Rig, disk: Disk) -> None:
    kill(rig)
    copy(disk, path(6), path(99))
    cut(disk, path(6), 0)
    rig.start()
    assert (sequences(rig), counted(rig)) == (EVERYTHING, (0, 0))


@pytest.mark.parametrize("in_order", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("names", [(6, 1, 11), (6, 11, 1), (1, 6, 16), (3, 1, 6), (99, 6, 11)], ids=str)
def test_renamed_segments_get_their_names_back(
    rig: Rig, disk: Disk, names: tuple[int, int, int], in_order: bool
) -> None:
    kill(rig, in_order=in_order)
    files = [disk.files.pop(path(first)) for first in (1, 6, 11)]
    disk.files |= {path(name): file for name, file in zip(names, files, strict=True)}
    rig.start()
    assert (segments(disk), sequences(rig)) == ([1, 6, 11], EVERYTHING)
    assert (said(rig), counted(rig)) == ([], (0, 0))
    assert {event for _, event, _ in rig.log.said} == {"a journal segment had the wrong name and is renamed"}


def test_a_segment_of_another_journal_is_set_aside(rig: Rig, disk: Disk) -> None:
    kill(rig)
    other = Rig(disk)
    disk.make_directory(ROOT / "1")
    disk.lock(FIRST / "lock")
    other.start()
    write(other, 1)
    disk.kill_process()
    copy(disk, ROOT / "1" / segment_name(1), path(16))
    rig.start()
    assert (sequences(rig), counted(rig)) == (EVERYTHING, (0, 0))
    (moved,) = [file for file in disk.files if file.parent == ROOT / "damaged" and file.suffix == ".segment"]
    assert disk.files[moved].content() == disk.files[ROOT / "1" / segment_name(1)].content()


@pytest.mark.parametrize("operations", range(12))
def test_a_power_cut_while_names_are_restored_loses_nothing(operations: int) -> None:
    for seed in range(3):
        rig = three_segments(disk := Disk(seed))
        kill(rig)
        disk.files[path(1)], disk.files[path(6)] = disk.files[path(6)], disk.files[path(1)]
        copy(disk, path(11), path(16))
        disk.settle()
        disk.stop_at = operations
        with contextlib.suppress(PowerLoss):
            rig.start()
        disk.lose_power()
        rig.start()
        assert (segments(disk), sequences(rig), counted(rig)) == ([1, 6, 11], EVERYTHING, (0, 0)), seed
