"""Requests that were set aside can be looked at, put back once, and are deleted in time."""

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.journal import Batch, JournalLocked, find_orphans
from gateway.journal.inspection import inspect, list_quarantined, verify
from gateway.journal.requeue import requeue
from gateway.journal.storage.files import Files
from gateway.journal.storage.quarantine import QuarantineNote
from gateway.journal.storage.scanning import run_to_completion
from tests.gateway.journal.disk import Disk, PowerLoss
from tests.gateway.journal.rig import EPOCH_S, FIRST, ROOT, SEGMENT, Rig

MADE_MS = EPOCH_S * 1000
SKIP = frozenset({("spans", 19_675), ("logs", 19_676)})


def rig_with(files: Files, batches: Sequence[Batch], root: Path = ROOT) -> Rig:
    """A journal that had eight requests, of which these batches were set aside."""
    rig = Rig(files, root)
    journal = rig.start()
    journal.commit([rig.request(b"%d" % number * 100, project_id=number) for number in range(1, 9)])
    for batch in batches:
        journal.begin(batch)
        run_to_completion(journal.quarantine(batch, "Code: 349. Cannot convert NULL"))
    return rig


def names(disk: Disk) -> list[str]:
    return [found.name for found in list_quarantined(ROOT, disk)]


def test_a_quarantined_request_is_finished_and_reported_without_a_byte_of_it(disk: Disk) -> None:
    rig = rig_with(disk, [Batch(77, MADE_MS, ((2, 3),), SKIP)])
    assert [entry.sequence for entry in rig.read()] == [1, 4, 5, 6, 7, 8]
    assert rig.journal.ledger.state.retained == {}
    first, second = list_quarantined(ROOT, disk, verify=True)
    assert (first.whole, second.whole) == (True, True)
    assert first.note == QuarantineNote(
        reason="Code: 349. Cannot convert NULL",
        set_aside="2023-11-14T22:13:20.000Z",
        received="2023-11-14T22:13:20.000Z",
        project_id=2,
        signal="traces",
        items=100,
        bytes=100,
        journal="0",
        sequence=2,
        batch=77,
        skip=(("logs", 19_676), ("spans", 19_675)),
    )
    disk.flip(ROOT / "quarantine" / first.name, 4200 * 8)
    assert [found.whole for found in list_quarantined(ROOT, disk, verify=True)] == [False, True]


def test_a_whole_batch_comes_back_under_its_id_in_a_journal_of_its_own(disk: Disk) -> None:
    batch = Batch(77, MADE_MS, ((2, 3), (6, 6)), SKIP)
    rig = rig_with(disk, [batch])
    done = requeue(disk, ROOT, None, rig.clock)
    assert (done.journal, done.requests, done.unreadable) == (ROOT / "1", 3, [])
    assert names(disk) == []
    adopted = Rig(disk)
    adopted.start(ROOT / "1")
    (back,) = adopted.recovered.unfinished
    assert back == batch._replace(ranges=((1, 3),))
    members = run_to_completion(adopted.journal.segment_set.read_batch(back))
    assert [entry.request for entry in members] == [
        rig.request(b"%d" % number * 100, project_id=number) for number in (2, 3, 6)
    ]
    assert adopted.read() == []


def test_parts_of_a_batch_come_back_as_batches_of_their_own(disk: Disk) -> None:
    """Under the old tokens the second part would be taken for a repetition of the first."""
    rig = rig_with(disk, [Batch(77, MADE_MS, ((2, 3),), SKIP)])
    for number, name in enumerate(names(disk), 1):
        done = requeue(disk, ROOT, [name], rig.clock)
        assert (done.journal, done.requests) == (ROOT / str(number), 1)
    adopted = [Rig(disk), Rig(disk)]
    for number, other in enumerate(adopted, 1):
        other.start(ROOT / str(number))
    first, second = (other.recovered.unfinished[0] for other in adopted)
    assert len({77, first.batch_id, second.batch_id}) == 3
    assert first.skip == second.skip == SKIP


def test_what_cannot_be_read_stays(disk: Disk) -> None:
    rig = rig_with(disk, [Batch(77, MADE_MS, ((2, 3),)), Batch(78, MADE_MS, ((4, 4),))])
    bad, good, other = names(disk)
    disk.flip(ROOT / "quarantine" / bad, (len(disk.files[ROOT / "quarantine" / bad].content()) - 20) * 8)
    done = requeue(disk, ROOT, [bad, good, other, "nothing.segment"], rig.clock)
    assert (done.requests, done.unreadable) == (2, [bad, "nothing.segment"])
    assert names(disk) == [bad]
    assert requeue(disk, ROOT, None, rig.clock) == (None, 0, [bad])


def test_wherever_power_is_lost_a_request_is_put_back_once() -> None:
    operations = 0
    while not _put_back_with_power_for(operations):
        operations += 1
    assert operations > 20


def _put_back_with_power_for(operations: int) -> bool:
    """Whether so many operations of the disk were enough."""
    disk = Disk(operations)
    rig = rig_with(disk, [Batch(77, MADE_MS, ((2, 3),)), Batch(78, MADE_MS, ((5, 5),))])
    disk.stop_at = operations
    try:
        requeue(disk, ROOT, None, rig.clock)
    except PowerLoss:
        done = False
    else:
        done = True
    disk.lose_power()
    journals = [facts for facts in inspect(ROOT, disk) if Path(facts.directory) != FIRST]
    for facts in journals:  # as a gateway that adopts it does
        Rig(disk).start(Path(facts.directory))
    back = sum(batch.requests for facts in journals for batch in facts.batches)
    assert (back, len(names(disk))) in ([(3, 0)] if done else [(3, 0), (0, 3)])
    return done


def test_a_crash_during_a_quarantine_leaves_the_batch_begun_and_nowhere_else(disk: Disk) -> None:
    rig = rig_with(disk, [])
    batch = Batch(77, MADE_MS, ((2, 3),))
    rig.journal.begin(batch)
    steps = rig.journal.quarantine(batch, "why")
    for _ in range(3):
        next(steps)
    assert len(names(disk)) == 2
    steps.close()
    disk.lose_power()
    rig.start()
    assert rig.recovered.unfinished == [batch]
    assert names(disk) == []


def test_the_number_of_quarantined_requests_is_returned_also_when_it_is_recorded_later(disk: Disk) -> None:
    rig = rig_with(disk, [])
    batches = [Batch(77, MADE_MS, ((2, 4),)), Batch(78, MADE_MS, ((5, 5),))]
    for batch in batches:
        rig.journal.begin(batch)
    for body in (b"3", b"5"):
        disk.flip(SEGMENT, disk.files[SEGMENT].content().index(body * 100) * 8)
    steps = rig.journal.quarantine(batches[0], "why")
    while len(names(disk)) < 2:
        next(steps)
    disk.fail("write", errno.EIO)
    disk.fail("create", errno.EIO)  # nor is there a new ledger
    with pytest.raises(OSError, match="Input/output"):
        run_to_completion(steps)
    rig.journal.tick()
    disk.unlink(SEGMENT)  # as it may be once all of it is finished
    assert run_to_completion(rig.journal.quarantine(batches[0], "why")) == 2
    assert run_to_completion(rig.journal.quarantine(batches[1], "why")) == 0
    assert rig.journal.ledger.state.begun == {}


def test_a_quarantine_that_cannot_be_written_finishes_nothing(disk: Disk) -> None:
    rig = rig_with(disk, [])
    batch = Batch(77, MADE_MS, ((2, 3),))
    rig.journal.begin(batch)
    disk.fail("create", errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        run_to_completion(rig.journal.quarantine(batch, "why"))
    assert rig.journal.ledger.state.begun == {77: batch}
    run_to_completion(rig.journal.quarantine(batch, "why"))
    assert len(names(disk)) == 2


def test_on_real_files_all_of_it_works_too(tmp_path: Path) -> None:
    rig = rig_with(Files(), [Batch(77, MADE_MS, ((2, 3),))], tmp_path)
    rig.journal.commit([rig.request(b"after")])
    own, *others = inspect(tmp_path)
    assert (own.taken, own.clean, own.batches, own.held, others) == (True, False, [], 0, [])
    assert [report.requests for report in verify(tmp_path)] == [9]
    rig.journal.close()
    assert requeue(Files(), tmp_path, None, rig.clock).requests == 2
    own, new = inspect(tmp_path)
    assert (own.segments[0].requests, own.segments[0].unfinished, own.segments[0].items) == (9, 7, 805)
    assert [(batch.batch, batch.requests) for batch in new.batches] == [(77, 2)]
    assert [(report.requests, report.items, report.projects) for report in verify(tmp_path)] == [
        (9, 805, [1, 2, 3, 4, 5, 6, 7, 8]),
        (2, 200, [2, 3]),
    ]
    assert find_orphans(tmp_path) == [tmp_path / "1"]
    lock = Files().lock(tmp_path / "quarantine" / "lock")
    with pytest.raises(JournalLocked):
        requeue(Files(), tmp_path, None, rig.clock)
    assert lock is not None
    Files().close(lock)


def test_inspection_reports_damage(disk: Disk) -> None:
    rig = rig_with(disk, [])
    rig.journal.begin(Batch(5, MADE_MS, ((1, 4),), SKIP))
    rig.journal.close()
    disk.kill_process()
    disk.flip(SEGMENT, (disk.files[SEGMENT].content().index(b"3" * 100) + 7) * 8)
    (facts,) = inspect(ROOT, disk)
    assert (facts.clean, facts.damaged_records) == (True, 0)
    assert [(batch.batch, batch.requests, batch.stored) for batch in facts.batches] == [(5, 4, 2)]
    (report,) = verify(ROOT, disk)
    (gone,) = report.damaged
    assert (report.version, report.requests, report.items) == (1, 7, 700)
    assert (gone.first, gone.last, gone.project_id, gone.end - gone.start) == (3, 3, 3, 64 + 104)
