"""Requests that were whole when they were written, or when the journal was opened, and are not when they are read."""

from pathlib import Path

import pytest

from gateway.journal import Batch, DamagedRequests
from gateway.journal.inspection import list_damaged
from gateway.journal.storage.scanning import has_nonzero
from proto.otlp.policy import Signal
from tests.gateway.journal.disk import PAGE, Disk
from tests.gateway.journal.rig import ROOT, SEGMENT, Rig
from tests.gateway.journal.running import journal_at, opened, request

SIZE = 8000  # so that each request has pages of its own


@pytest.fixture(params=["written-here", "read-at-the-start"])
def rig(request: pytest.FixtureRequest, disk: Disk) -> Rig:
    """A journal with requests 1 to 6 in as many groups."""
    rig = Rig(disk)
    rig.start()
    for number in range(1, 7):
        rig.journal.commit([rig.request(b"%d" % number * SIZE)])
    if request.param == "read-at-the-start":
        disk.kill_process()
        rig.start()
    rig.take_damaged()
    return rig


def offset_of(disk: Disk, number: int) -> int:
    """Where the body of a request is."""
    return disk.files[SEGMENT].content().rindex(b"%d" % number * SIZE)  # the byte before may be the same


def flip(disk: Disk, number: int, at: int = 0) -> None:
    """A bit of a request, `at` so many bytes from where its body begins."""
    disk.flip(SEGMENT, (offset_of(disk, number) + at) * 8)


def sequences(rig: Rig) -> list[int]:
    return [entry.sequence for entry in rig.read()]


@pytest.mark.parametrize(("at", "signal"), [(10, "traces"), (-64, None)], ids=["body", "header"])
def test_a_request_that_is_damaged_later_is_counted_and_kept_once(
    rig: Rig, disk: Disk, at: int, signal: Signal | None
) -> None:
    flip(disk, 3, at)
    assert sequences(rig) == [1, 2, 4, 5, 6]
    assert rig.take_damaged() == [DamagedRequests(3, 3, SIZE, signal)]
    assert [note.sequences for note in list_damaged(ROOT, disk)] == [((3, 3),)]
    assert rig.log.errors == ["requests in the journal cannot be read"]
    assert sequences(rig) == [1, 2, 4, 5, 6]
    assert (rig.damaged_frames, rig.take_damaged()) == (1, [])
    rig.finish(1, 6)
    assert rig.journal.ledger.state.finished.covers(1, 6)
    rig.restart(in_order=True)
    assert (rig.damaged_frames, rig.recovered.last_unbatched) == (1, 0)


def test_a_request_whose_header_is_whole_is_told_alone_and_the_others_together(rig: Rig, disk: Disk) -> None:
    for number, at in ((3, -64), (4, -64), (5, 10), (6, 10)):
        flip(disk, number, at)
    assert sequences(rig) == [1, 2]
    assert rig.take_damaged() == [
        DamagedRequests(5, 5, SIZE, "traces"),
        DamagedRequests(6, 6, SIZE, "traces"),
        DamagedRequests(3, 4, 2 * SIZE),
    ]


def test_items_of_requests_without_headers_are_not_known_where_some_of_them_are_stored(rig: Rig, disk: Disk) -> None:
    rig.finish(2, 2)
    for number in (2, 3):
        flip(disk, number, -64)
    assert sequences(rig) == [1, 4, 5, 6]
    assert rig.take_damaged() == [DamagedRequests(3, 3)]


@pytest.mark.parametrize("number", [1, 3, 6], ids=["first", "middle", "last"])
def test_a_page_that_becomes_unreadable_is_damage_and_its_segment_is_kept(rig: Rig, disk: Disk, number: int) -> None:
    disk.files[SEGMENT].unreadable.add(offset_of(disk, number) // PAGE)
    assert sequences(rig) == [other for other in range(1, 7) if other != number]
    assert rig.damaged_frames == 1
    rig.finish(1, 6)
    rig.restart(in_order=True)
    rig.now += 100
    rig.journal.tick()
    assert any(note.moved for note in list_damaged(ROOT, disk))


def test_a_batch_does_not_have_what_is_damaged_any_more(rig: Rig, disk: Disk) -> None:
    batch = Batch(1, 2, ((2, 5),))
    rig.journal.begin(batch)
    flip(disk, 3)
    assert rig.member_sequences(batch) == [2, 4, 5]
    assert rig.journal.ledger.state.begun == {1: Batch(1, 2, ((2, 2), (4, 5)))}
    assert rig.member_sequences(batch) == [2, 4, 5]
    assert (rig.damaged_frames, len(list_damaged(ROOT, disk))) == (1, 1)


def test_a_batch_of_which_everything_is_damaged_is_finished(rig: Rig, disk: Disk) -> None:
    batch = Batch(1, 2, ((2, 3),))
    rig.journal.begin(batch)
    for number in (2, 3):
        flip(disk, number)
    assert rig.members(batch) == []
    assert rig.journal.ledger.state.begun == {}
    rig.journal.tick()
    rig.restart()
    assert (rig.recovered.unfinished, rig.damaged_frames) == ([], 2)


def test_a_held_request_that_is_needed_again_and_damaged_is_kept(rig: Rig, disk: Disk) -> None:
    batch = Batch(1, 2, ((1, 3),))
    rig.journal.begin(batch)
    rig.journal.finish(1, {})
    flip(disk, 1)
    assert rig.member_sequences(batch) == [2, 3]
    assert rig.member_sequences(batch) == [2, 3]
    assert (rig.damaged_frames, len(list_damaged(ROOT, disk))) == (1, 1)
    assert rig.take_damaged() == []  # it is counted as stored


@pytest.mark.parametrize("sealed", [False, True])
def test_what_is_wrong_in_memory_alone_is_read_from_the_disk(rig: Rig, disk: Disk, sealed: bool) -> None:
    if sealed:
        rig.restart(in_order=True)
    file, page = disk.files[SEGMENT], offset_of(disk, 3) // PAGE
    assert has_nonzero(file.pages[page])
    file.pages[page] = bytes(PAGE)
    assert (sequences(rig), rig.damaged_frames) == ([1, 2, 3, 4, 5, 6], 0)


def test_a_disk_that_is_away_for_a_while_is_no_damage(rig: Rig, disk: Disk) -> None:
    file = disk.files[SEGMENT]
    file.unreadable |= set(range(len(file.content()) // PAGE + 1))
    with pytest.raises(OSError, match="unreadable"):
        rig.read()
    file.unreadable.clear()
    assert sequences(rig) == [1, 2, 3, 4, 5, 6]
    assert (rig.damaged_frames, rig.log.errors) == (0, [])


async def test_damage_is_reported_to_users() -> None:
    disk = Disk()
    journal = journal_at(Path("/journal"), files=disk)
    async with opened(journal):
        for number in (1, 2):
            await journal.append(request(b"%d" % number * SIZE))
        flip(disk, 2)
        assert [entry.sequence for entry in await journal.read(0, 2**30)] == [1]
        assert journal.take_damaged() == [DamagedRequests(2, 2, 3, "traces")]
        assert journal.take_damaged() == []
