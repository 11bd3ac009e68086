"""What of a journal is damaged is counted, kept and passed over; the rest is there."""

import errno

import msgspec
import pytest

from gateway.journal import Batch, DamagedRequests, Range
from gateway.journal import format as fmt
from gateway.journal.inspection import list_damaged
from gateway.journal.storage.quarantine import DamageNote
from gateway.journal.storage.scanning import JournalFrame, scan
from proto.otlp.policy import Policy
from tests.gateway.journal.disk import Disk, PowerLoss
from tests.gateway.journal.rig import ROOT, SEGMENT, Rig, ledger

OTHER = Policy(max_items=5)


@pytest.fixture
def rig(disk: Disk) -> Rig:
    """A journal with requests 1 to 6, in three groups, the last of another policy."""
    rig = Rig(disk)
    journal = rig.start()
    for numbers in ((1, 2, 3), (4, 5), (6,)):
        journal.commit([rig.request(b"%d" % n * 1000, OTHER if n == 6 else Policy(), project_id=n) for n in numbers])
    return rig


def frame(disk: Disk, kind: int, number: int) -> int:
    """Where the frame of this kind and sequence is."""
    content = disk.files[SEGMENT].content()
    header = fmt.read_file_header(content)
    assert header is not None
    parts = scan(lambda size, at: content[at : at + size], fmt.checksum_seed(header.salt), fmt.PAGE, len(content))
    found = (part for part in parts if isinstance(part, JournalFrame))
    return next(part.offset for part in found if (part.header.kind, part.header.sequence) == (kind, number))


def bodies(rig: Rig) -> list[bytes]:
    return [entry.request.body[:1] for entry in rig.read()]


ALL_BODIES = [b"1", b"2", b"3", b"4", b"5", b"6"]


@pytest.mark.parametrize("in_order", [True, False], ids=["sealed", "not-sealed"])
@pytest.mark.parametrize("at", [0, 8, 40, 70], ids=["magic", "kind", "time", "body"])
def test_a_damaged_request_is_counted_and_kept_and_the_others_are_read(
    rig: Rig, disk: Disk, at: int, in_order: bool
) -> None:
    start = frame(disk, fmt.REQUEST, 2)
    rig.end(in_order=in_order)
    disk.flip(SEGMENT, (start + at) * 8)
    rig.start()
    assert bodies(rig) == [b"1", b"3", b"4", b"5", b"6"]
    assert (rig.damaged_frames, rig.log.errors) == (1, ["requests in the journal cannot be read"])
    end = frame(disk, fmt.REQUEST, 3)
    note = DamageNote(
        journal="0",
        segment=SEGMENT.name,
        start=start,
        end=end,
        sequences=((2, 2),),
        project_id=2 if at == 70 else None,
        found="2023-11-14T22:13:20.000Z",
    )
    assert list_damaged(ROOT, disk) == [note]
    kept = {path.suffix: disk.files[path].content() for path in disk.files if path.parent == ROOT / "damaged"}
    assert kept[".bytes"] == disk.files[SEGMENT].content()[start:end]
    assert msgspec.json.decode(kept[".json"])["sequences"] == [[2, 2]]
    rig.restart(in_order=True)
    assert bodies(rig) == [b"1", b"3", b"4", b"5", b"6"]
    assert rig.damaged_frames == 1  # once and for all


def test_damage_of_what_is_finished_is_no_loss(rig: Rig, disk: Disk) -> None:
    rig.finish(2, 3)
    start = frame(disk, fmt.REQUEST, 2)
    rig.end(in_order=True)
    disk.flip(SEGMENT, start * 8)
    rig.start()
    assert bodies(rig) == [b"1", b"4", b"5", b"6"]
    assert rig.damaged_frames == 0
    assert list_damaged(ROOT, disk) == []


def test_a_damaged_request_of_a_batch_is_missing_in_it(rig: Rig, disk: Disk) -> None:
    rig.journal.begin(Batch(1, 2, ((2, 5),)))
    start = frame(disk, fmt.REQUEST, 3)
    rig.end(in_order=False)
    disk.flip(SEGMENT, (start + 80) * 8)
    rig.start()
    (batch,) = rig.recovered.unfinished
    assert rig.member_sequences(batch) == [2, 4, 5]


def test_the_damaged_end_of_a_segment_that_is_known_to_be_there_is_counted(rig: Rig, disk: Disk) -> None:
    start = frame(disk, fmt.REQUEST, 6)
    rig.end(in_order=True)
    disk.flip(SEGMENT, start * 8)
    rig.start()
    assert bodies(rig) == ALL_BODIES[:5]
    assert rig.damaged_frames == 1


def test_a_torn_end_is_cut_off_and_is_no_damage(rig: Rig, disk: Disk) -> None:
    start = frame(disk, fmt.REQUEST, 6)
    rig.end(in_order=False)
    disk.flip(SEGMENT, (start + 500) * 8)
    rig.start()
    assert bodies(rig) == ALL_BODIES[:5]
    assert (rig.damaged_frames, rig.log.errors, list_damaged(ROOT, disk)) == (0, [], [])
    assert rig.journal.commit([rig.request(b"7")]) == 6


def test_a_group_of_which_pages_are_missing_was_never_acknowledged(disk: Disk) -> None:
    rig = Rig(disk)
    journal = rig.start()
    journal.commit([rig.request(b"1" * 5000)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "sync", lambda _: disk.give_up())  # all is written, and then the machine stops
        with pytest.raises(PowerLoss):
            journal.commit([rig.request(b"%d" % n * 9000) for n in (2, 3, 4)])
    disk.kill_process()
    disk.files[SEGMENT].pages.pop(4)  # one page of the second group never came to the disk
    rig.start()
    assert bodies(rig) == [b"1", b"3", b"4"]
    assert rig.damaged_frames == 0


def test_a_segment_that_is_shorter_than_it_was_is_damaged(rig: Rig, disk: Disk) -> None:
    start = frame(disk, fmt.REQUEST, 4)
    rig.end(in_order=True)
    disk.truncate(disk.open(SEGMENT, write=True), start)
    rig.start()
    assert bodies(rig) == [b"1", b"2", b"3"]
    assert rig.damaged_frames == 3


@pytest.mark.parametrize("in_order", [True, False], ids=["sealed", "not-sealed"])
@pytest.mark.parametrize(("copies", "bit"), [(1, 70), (2, 70), (2, 65)], ids=["one", "both", "version"])
def test_without_its_header_a_segment_is_read_with_the_salt_of_the_ledger(
    rig: Rig, disk: Disk, copies: int, bit: int, in_order: bool
) -> None:
    """A flipped version is damage and no newer format."""
    rig.end(in_order=in_order)
    for copy in range(copies):
        disk.flip(SEGMENT, copy * fmt.PAGE // 2 * 8 + bit)
    rig.start()
    assert (bodies(rig), rig.damaged_frames) == (ALL_BODIES, copies - 1)
    assert rig.journal.commit([rig.request(b"7")]) == 7


def test_a_policy_that_is_damaged_is_taken_from_another_segment(rig: Rig, disk: Disk) -> None:
    rig.end(in_order=True)
    rig.start()
    rig.journal.commit([rig.request(b"7")])
    rig.journal.close()
    disk.kill_process()
    disk.flip(SEGMENT, (frame(disk, fmt.POLICY, 1) + 100) * 8)
    rig.start()
    assert [entry.request.policy for entry in rig.read()] == [Policy()] * 5 + [OTHER, Policy()]
    assert rig.damaged_frames == 0


def test_requests_whose_policy_nobody_knows_are_kept(rig: Rig, disk: Disk) -> None:
    rig.end(in_order=True)
    disk.flip(SEGMENT, (frame(disk, fmt.POLICY, 6) + 100) * 8)
    rig.start()
    assert bodies(rig) == ALL_BODIES[:5]
    assert rig.damaged_frames == 1
    assert [note.sequences for note in list_damaged(ROOT, disk)] == [((6, 6),)]


def test_a_request_that_was_told_to_be_lost_is_not_given_when_its_policy_is_declared_anew(rig: Rig, disk: Disk) -> None:
    batch = Batch(1, 2, ((5, 6),))
    rig.journal.begin(batch)
    rig.end(in_order=True)
    disk.flip(SEGMENT, (frame(disk, fmt.POLICY, 6) + 100) * 8)
    rig.start()
    assert rig.member_sequences(batch) == [5]
    assert rig.take_damaged() == [DamagedRequests(6, 6, 1000, "traces")]
    rig.journal.commit([rig.request(b"7", OTHER)])
    assert rig.member_sequences(batch) == [5]


def test_a_segment_that_the_disk_cannot_read_is_moved_instead_of_being_deleted(rig: Rig, disk: Disk) -> None:
    start = frame(disk, fmt.REQUEST, 2)
    rig.end(in_order=False)
    disk.files[SEGMENT].unreadable.add(start // fmt.PAGE)
    rig.start()
    assert bodies(rig) == [b"4", b"5", b"6"]  # their policy is declared twice
    assert rig.damaged_frames == 3
    rig.finish(1, 6)
    rig.outlive()
    assert SEGMENT not in disk.files
    (moved,) = [path for path in disk.files if path.parent == ROOT / "damaged" and path.suffix == ".segment"]
    assert moved.name.endswith(f"-0-{SEGMENT.name}")
    assert any(note.moved for note in list_damaged(ROOT, disk))


def test_damaged_bytes_that_cannot_be_copied_are_kept_with_their_segment(rig: Rig, disk: Disk) -> None:
    start = frame(disk, fmt.REQUEST, 2)
    rig.end(in_order=True)
    disk.flip(SEGMENT, start * 8)
    rig.start()
    disk.fail("create", errno.ENOSPC)
    assert bodies(rig) == [b"1", b"3", b"4", b"5", b"6"]
    assert "damaged journal bytes cannot be copied" in rig.log.errors
    rig.finish(1, 6)
    rig.outlive()
    assert any(note.moved for note in list_damaged(ROOT, disk))


def test_a_ledger_that_says_nothing_makes_everything_new(rig: Rig, disk: Disk) -> None:
    rig.finish(1, 3)
    rig.end(in_order=True)
    disk.files[ledger(disk)].pages = {0: b"\xff" * fmt.PAGE}
    rig.start()
    assert bodies(rig) == ALL_BODIES
    assert rig.damaged_frames == 1
    assert rig.recovered.clean is False


@pytest.mark.parametrize("in_order", [True, False], ids=["sealed", "not-sealed"])
def test_a_journal_without_any_header_is_kept_byte_by_byte(rig: Rig, disk: Disk, in_order: bool) -> None:
    """No salt is left to tell frames by."""
    rig.end(in_order=in_order)
    content = disk.files[SEGMENT].content()[fmt.PAGE :]
    for path in (SEGMENT, ledger(disk)):
        disk.files[path].pages.pop(0)
    rig.start()
    assert rig.read() == []
    assert rig.journal.commit([rig.request(b"7")]) >= 1
    kept = [disk.files[path].content() for path in disk.files if path.parent == ROOT / "damaged"]
    assert content.rstrip(b"\0") in [piece[fmt.PAGE :].rstrip(b"\0") for piece in kept]


@pytest.mark.parametrize(
    ("stored", "lost"), [((), DamagedRequests(1, 6, 6000)), (((1, 2),), DamagedRequests(3, 6))], ids=["none", "some"]
)
def test_the_requests_of_a_segment_of_which_nothing_can_be_read_are_told_to_be_lost(
    rig: Rig, disk: Disk, stored: tuple[Range, ...], lost: DamagedRequests
) -> None:
    for number, part in enumerate(stored):
        rig.finish(*part, number)
    rig.end(in_order=True)
    file = disk.files[SEGMENT]
    file.pages = dict.fromkeys(file.pages, b"\xff" * fmt.PAGE)
    rig.start()
    assert rig.read() == []
    assert rig.take_damaged() == [lost]
    assert rig.damaged_frames == lost.last - lost.first + 2  # and the header
