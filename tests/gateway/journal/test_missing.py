"""Segments that something else than the journal deleted, emptied or cut, and ledgers."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from chassis.errors import StartupError
from gateway.journal import Batch, DamagedRequests
from gateway.journal import format as fmt
from gateway.journal.inspection import list_damaged
from gateway.journal.storage.consistency import (
    MISSING,
    MISSING_AT_THE_END,
    SKIPPED_NUMBERS,
    UNCERTAIN,
    UNREADABLE_END,
)
from gateway.journal.storage.quarantine import DamageNote
from gateway.journal.storage.segment_set import OVERLAP, UNCERTAIN_END
from gateway.journal.storage.segments import segment_name
from tests.gateway.journal.disk import Disk, File
from tests.gateway.journal.rig import FIRST, ROOT, Rig, ledger, segments
from tests.gateway.journal.three_segments import (
    EVERYTHING,
    LIMITS,
    SIZE,
    counted,
    cut,
    kill,
    path,
    said,
    sequences,
    three_segments,
    without,
    write,
)


@pytest.fixture
def rig(disk: Disk) -> Rig:
    return three_segments(disk)


@pytest.mark.parametrize("in_order", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize(("first", "last"), [(1, 5), (6, 10), (11, 15)], ids=["first", "middle", "last"])
def test_a_deleted_segment_is_counted_said_and_noted_once(
    rig: Rig, disk: Disk, first: int, last: int, in_order: bool
) -> None:
    kill(rig, in_order=in_order)
    disk.unlink(path(first))
    rig.start()
    is_end = first == 11 and not in_order
    event = MISSING_AT_THE_END if is_end else MISSING
    unknown = f"the segment that contained request {first}"
    shown = unknown if is_end else str(path(first))
    assert said(rig) == [(event, {"segments": [shown], "requests": 5, "possibly_stored": 0})]
    assert counted(rig) == (5, int(is_end))
    assert rig.damaged_frames == 5
    assert rig.take_damaged() == [DamagedRequests(first, last, 0 if is_end else 5 * SIZE)]
    note = DamageNote(
        journal="0",
        segment=unknown if is_end else segment_name(first),
        start=0,
        end=0,
        sequences=((first, last),),
        found="2023-11-14T22:13:20.000Z",
    )
    assert list_damaged(ROOT, disk) == [note]
    assert sequences(rig) == without(first, last)
    write(rig, 16)
    kill(rig)
    rig.start()
    assert (said(rig), counted(rig)) == ([], (5, int(is_end)))
    assert sequences(rig) == [*without(first, last), 16 + is_end * SKIPPED_NUMBERS]


def test_a_deleted_segment_that_is_put_back_is_read(rig: Rig, disk: Disk) -> None:
    kill(rig)
    file = disk.files[path(6)]
    disk.unlink(path(6))
    rig.start()
    kill(rig)
    disk.files[path(6)] = file
    rig.start()
    assert rig.log.said == [("warning", "missing segments of the journal were put back and are read", {"requests": 5})]
    assert (sequences(rig), list_damaged(ROOT, disk)) == (EVERYTHING, [])
    kill(rig)
    disk.unlink(path(6))
    rig.start()
    assert counted(rig) == (10, 0)  # once for each time


def test_the_last_segment_is_read_whole_if_it_is_put_back_later(rig: Rig, disk: Disk) -> None:
    rig.journal.tick()
    for number in (16, 17, 18):  # in a segment of their own; the ledger knows the first of them alone
        write(rig, number)
        if number == 16:
            rig.journal.tick()
    kill(rig, ticked=False)
    file = disk.files.pop(path(16))
    rig.start()
    assert counted(rig) == (1, 1)
    first = rig.journal.commit([rig.request(b"new")])
    assert first == 17 + SKIPPED_NUMBERS
    kill(rig)
    disk.files[path(16)] = file
    rig.start()
    assert rig.log.said == [("warning", "missing segments of the journal were put back and are read", {"requests": 3})]
    assert [entry.sequence for entry in rig.read()] == [*EVERYTHING, 16, 17, 18, first]
    assert counted(rig) == (1, 1)


def test_segments_with_the_same_sequences_are_said_and_counted_once(rig: Rig, disk: Disk) -> None:
    kill(rig)
    file = disk.files.pop(path(11))
    rig.start()
    rig.journal.ledger.state.next_sequence = 14  # as earlier releases began it
    write(rig, 14)
    kill(rig)
    disk.files[path(11)] = file
    disk.unlink(ledger(disk))
    rig.start()
    assert (OVERLAP, {"segment": str(path(11)), "requests": 2}) in said(rig)
    assert sequences(rig) == [*range(1, 15)]
    kill(rig)
    rig.start()
    assert (said(rig), counted(rig)[0]) == ([], 5 + 2)


def test_the_note_keeps_what_was_not_put_back(rig: Rig, disk: Disk) -> None:
    kill(rig)
    file = disk.files.pop(path(1))
    del disk.files[path(6)]
    rig.start()
    kill(rig)
    disk.files[path(1)] = file
    rig.start()
    assert [note.sequences for note in list_damaged(ROOT, disk)] == [((6, 10),)]


def test_a_deleted_segment_of_which_all_is_stored_is_no_loss(rig: Rig, disk: Disk) -> None:
    rig.finish(6, 10)
    kill(rig)
    disk.unlink(path(6))
    rig.start()
    assert (rig.log.said, counted(rig), list_damaged(ROOT, disk)) == ([], (0, 0), [])


def test_requests_of_begun_batches_are_told_apart_since_they_may_be_stored(rig: Rig, disk: Disk) -> None:
    rig.journal.begin(Batch(1, 2, ((4, 7),)))
    kill(rig)
    disk.unlink(path(6))
    rig.start()
    ((_, fields),) = said(rig)
    assert (fields["requests"], fields["possibly_stored"]) == (5, 2)
    assert rig.recovered.unfinished == [Batch(1, 2, ((4, 5),))]


def test_all_segments_may_be_gone(rig: Rig, disk: Disk) -> None:
    kill(rig)
    for first in (1, 6, 11):
        disk.unlink(path(first))
    rig.start()
    assert counted(rig) == (15, 1)
    assert [note.sequences for note in list_damaged(ROOT, disk)] == [((1, 15),)]
    write(rig, 16)
    assert sequences(rig) == [16 + SKIPPED_NUMBERS]


@pytest.mark.parametrize("length", [0, 30, fmt.PAGE], ids=["nothing", "part-of-the-header", "header"])
@pytest.mark.parametrize("in_order", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize(("first", "last"), [(1, 5), (6, 10), (11, 15)], ids=["first", "middle", "last"])
def test_of_an_emptied_segment_every_request_is_counted(
    rig: Rig, disk: Disk, first: int, last: int, in_order: bool, length: int
) -> None:
    kill(rig, in_order=in_order)
    cut(disk, path(first), length)
    rig.start()
    assert sequences(rig) == without(first, last)
    assert counted(rig)[0] == 5
    (lost,) = rig.take_damaged()
    assert (lost.first, lost.last) == (first, last)
    assert len(said(rig)) == 1 + (length < fmt.PAGE)  # and the header
    kill(rig)
    rig.start()
    assert (sequences(rig), counted(rig)[0]) == (without(first, last), 5)


def test_of_an_emptied_last_segment_the_last_second_is_not_known(rig: Rig, disk: Disk) -> None:
    kill(rig, ticked=False)
    cut(disk, path(11), 0)
    rig.start()
    assert said(rig)[-1] == (UNREADABLE_END, {"segment": str(path(11))})
    assert counted(rig) == (0, 1)
    assert rig.journal.commit([rig.request(b"new")]) == 11 + SKIPPED_NUMBERS


@pytest.mark.parametrize("in_order", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize(("first", "lost"), [(6, [8, 9, 10]), (11, [13, 14, 15])], ids=["middle", "last"])
def test_of_a_segment_that_is_cut_within_a_frame_the_rest_is_counted(
    rig: Rig, disk: Disk, first: int, lost: list[int], in_order: bool
) -> None:
    kill(rig, in_order=in_order)
    content = disk.files[path(first)].content()
    cut(disk, path(first), content.index(b"%d" % (lost[0] % 10) * SIZE) + 5000)
    rig.start()
    assert sequences(rig) == without(lost[0], lost[-1])
    assert counted(rig)[0] == 3


@pytest.mark.parametrize("ticked", [True, False])
def test_whether_the_last_frame_was_acknowledged_is_known_or_said_not_to_be(rig: Rig, disk: Disk, ticked: bool) -> None:
    kill(rig, ticked=ticked)
    disk.flip(path(11), disk.files[path(11)].content().rindex(b"5" * SIZE) * 8)
    rig.start()
    assert sequences(rig) == without(15, 15)
    assert counted(rig) == (int(ticked), 1)
    assert ("warning", UNCERTAIN_END) in [each[:2] for each in rig.log.said]
    assert not any("no request is lost" in event for _, event, _ in rig.log.said)
    assert [event for event, _ in said(rig)] == ["requests in the journal cannot be read"] * ticked
    assert rig.journal.commit([rig.request(b"new")]) == 16 - (not ticked)


def finish_and_remove(rig: Rig, first: int, last: int) -> None:
    rig.journal.begin(Batch(first, 2, ((first, last),)))
    rig.journal.finish(first, {})
    rig.outlive()


def test_without_a_ledger_the_journal_does_not_know_whether_what_is_missing_is_stored(rig: Rig, disk: Disk) -> None:
    finish_and_remove(rig, 6, 10)
    kill(rig)
    disk.unlink(ledger(disk))
    rig.start()
    assert segments(disk) == [1, 11]
    no_ledger = (
        "the ledger of a journal is missing: all requests in the journal are sent to ClickHouse again, so some may "
    )
    assert [event for event, _ in said(rig)] == [f"{no_ledger}be stored twice", UNCERTAIN]
    assert (counted(rig), rig.take_damaged()) == ((0, 5), [])
    assert [(note.sequences, note.uncertain) for note in list_damaged(ROOT, disk)] == [(((6, 10),), True)]
    assert sequences(rig) == without(6, 10)


def test_with_an_old_ledger_it_does_not_know_either(disk: Disk) -> None:
    rig = Rig(disk, limits=LIMITS)
    rig.start()
    for number in (1, 2):
        write(rig, number)
    rig.journal.tick()
    old = disk.files[ledger(disk)].content()
    for number in range(3, 16):
        write(rig, number)
    finish_and_remove(rig, 1, 10)
    kill(rig)
    assert segments(disk) == [11]
    file = disk.files[ledger(disk)] = File(size=len(old))
    file.pages = {at // fmt.PAGE: old[at : at + fmt.PAGE] for at in range(0, len(old), fmt.PAGE)}
    rig.start()
    assert [event for event, _ in said(rig)] == [UNCERTAIN]
    assert counted(rig) == (0, 10)
    assert sequences(rig) == [11, 12, 13, 14, 15]


@pytest.mark.parametrize("at", [fmt.PAGE, fmt.PAGE + 70, "last"])
def test_with_a_ledger_that_was_just_written_and_is_damaged_it_does_not_know_either(
    rig: Rig, disk: Disk, at: int | str
) -> None:
    """All of its records are of one group, which was complete when the file got its name."""
    finish_and_remove(rig, 6, 10)
    kill(rig)
    rig.start()
    kill(rig)
    offset = disk.files[ledger(disk)].content().rindex(b'{"first"') if isinstance(at, str) else at
    disk.flip(ledger(disk), offset * 8)
    rig.start()
    assert said(rig)[0] == ("a journal ledger is damaged", {"ledger": str(ledger(disk))[:-1] + "3", "records": 1})
    assert counted(rig) == (0, 0 if at == "last" else 5)
    assert sequences(rig) == without(6, 10)


@pytest.mark.parametrize("damage", [Disk.kill_process, Disk.lose_power], ids=["kill", "power"])
def test_a_crash_is_no_loss(rig: Rig, disk: Disk, damage: Callable[[Disk], None]) -> None:
    damage(disk)
    rig.start()
    assert (rig.log.said, counted(rig), sequences(rig)) == ([], (0, 0), EVERYTHING)


def test_the_ledger_is_written_once_a_second_at_most(rig: Rig, disk: Disk) -> None:
    write(rig, 16)  # in a new segment
    rig.journal.tick()
    disk.operations.clear()
    for number in (17, 18, 19):
        write(rig, number)
    assert syncs(disk) == 3
    for _ in range(3):
        rig.journal.tick()
    assert syncs(disk) == 4


def syncs(disk: Disk) -> int:
    return sum(operation.startswith("sync") for operation in disk.operations)


DELETED = "a journal segment was deleted while it was in use; requests that are not in memory are lost"


@pytest.mark.parametrize("restarted", [False, True], ids=["written-here", "of-another-process"])
@pytest.mark.parametrize(("first", "last"), [(1, 5), (6, 10), (11, 15)])
def test_a_segment_that_is_deleted_while_it_is_in_use_is_lost_and_the_others_are_read(
    rig: Rig, disk: Disk, first: int, last: int, restarted: bool
) -> None:
    if restarted:
        kill(rig)
        rig.start()
    disk.unlink(path(first))
    for _ in range(2):
        rig.journal.tick()
    assert said(rig) == [(DELETED, {"segment": str(path(first))})]
    write(rig, 16)
    assert sequences(rig) == [*without(first, last), 16]
    assert counted(rig) == (5, 0)
    reports = rig.take_damaged()
    assert [(report.first, report.last) for report in reports] == [(first, last)]
    rig.journal.tick()
    kill(rig)
    rig.start()
    assert (sequences(rig), counted(rig), said(rig)) == ([*without(first, last), 16], (5, 0), [])


def test_a_directory_that_is_away_is_no_loss(rig: Rig, disk: Disk) -> None:
    away = {file: disk.files.pop(file) for file in list(disk.files) if file.parent == FIRST}
    with pytest.raises(FileNotFoundError):
        rig.read()
    rig.journal.tick()
    assert (said(rig), counted(rig)) == ([], (0, 0))
    disk.files |= away
    assert sequences(rig) == EVERYTHING


def test_a_segment_that_may_not_be_read_refuses_the_start_and_nothing_is_lost(
    rig: Rig, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(file: Path, *, write: bool = False) -> int:
        if file == path(6):
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        return opens(file, write=write)

    kill(rig)
    opens = disk.open
    with monkeypatch.context() as patch:
        patch.setattr(disk, "open", refused)
        with pytest.raises(StartupError, match=rf"cannot be opened: .*Permission denied: '{path(6)}'"):
            rig.start()
    rig.restart()
    assert (sequences(rig), counted(rig), said(rig)) == (EVERYTHING, (0, 0), [])
