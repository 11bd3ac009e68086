"""The ledger: one small file that is replaced when it has grown, and when the disk did not take a record."""

import errno

import pytest

from gateway.journal import Batch
from gateway.journal.format import (
    BeginRecord,
    FinishRecord,
    Record,
    SkipRecord,
    SplitRecord,
    begin_record,
    finish_record,
)
from gateway.journal.storage.batch_state import BatchState
from tests.gateway.journal.disk import Disk
from tests.gateway.journal.rig import FIRST, Rig

ONE = Batch(1, 5, ((1, 4),))
TWO = Batch(2, 6, ((5, 6), (9, 9)), frozenset({("spans", 3)}))


@pytest.fixture
def rig(disk: Disk) -> Rig:
    """A journal with requests 1 to 10."""
    rig = Rig(disk)
    rig.start().commit([rig.request(b"%d" % number) for number in range(1, 11)])
    return rig


def ledgers(disk: Disk) -> list[str]:
    return [name for name in disk.list_directory(FIRST) if name.startswith("ledger-")]


def test_a_ledger_that_has_grown_is_replaced_by_the_state_as_it_is(rig: Rig, disk: Disk) -> None:
    rig.journal.begin(ONE)
    rig.journal.begin(TWO)
    for number in range(3, 60):
        rig.journal.begin(Batch(number, 7, ((10, 10),)))
        rig.journal.split(number, [])
    rig.journal.finish(1, {("spans", 4): 2})
    rig.journal.tick()
    assert len(ledgers(disk)) == 1
    assert ledgers(disk) > ["ledger-00000005"]
    disk.lose_power()
    rig.start()
    assert rig.recovered.unfinished == [TWO]
    assert rig.recovered.retained == [ONE._replace(rows={("spans", 4): 2})]
    assert [entry.sequence for entry in rig.read()] == [7, 8, 10]


@pytest.mark.parametrize("records", range(8))
def test_an_orderly_end_is_one_wherever_the_ledger_is_replaced(rig: Rig, disk: Disk, records: int) -> None:
    for _ in range(records):
        rig.journal.begin(ONE)
    rig.journal.close()
    disk.lose_power()
    rig.start()
    assert rig.recovered.clean
    disk.lose_power()
    rig.start()
    assert not rig.recovered.clean


def test_a_ledger_that_cannot_be_replaced_goes_on(rig: Rig, disk: Disk) -> None:
    before = ledgers(disk)
    disk.fail("allocate", errno.ENOSPC, 3)
    for _ in range(14):
        rig.journal.begin(ONE)
    assert ledgers(disk) == before
    assert {said[:2] for said in rig.log.said} == {
        ("warning", "the journal ledger cannot be compacted; retrying later")
    }
    disk.lose_power()
    rig.start()
    assert rig.recovered.unfinished == [ONE]


@pytest.mark.parametrize("fault", ["write", "sync"])
def test_what_a_ledger_did_not_take_is_in_the_next_one(rig: Rig, disk: Disk, fault: str) -> None:
    before = ledgers(disk)
    disk.fail(fault, errno.EIO)
    rig.journal.begin(ONE)
    assert ledgers(disk) > before
    disk.lose_power()
    rig.start()
    assert rig.recovered.unfinished == [ONE]


def test_while_there_is_no_ledger_everything_is_remembered(rig: Rig, disk: Disk) -> None:
    disk.fail("sync", errno.EIO, 3)
    for batch in (ONE, TWO):
        with pytest.raises(OSError, match="Input/output error"):
            rig.journal.begin(batch)
    rig.journal.finish(1, {})
    rig.journal.commit([rig.request(b"11")])  # needs no record
    assert [entry.sequence for entry in rig.read()] == [7, 8, 10, 11]
    rig.journal.tick()
    assert rig.log.said[-1][:2] == ("warning", "the journal ledger can be written again")
    disk.lose_power()
    rig.start()
    assert rig.recovered.unfinished == [TWO]
    assert [batch.batch_id for batch in rig.recovered.retained] == [1]


def test_a_new_ledger_whose_name_may_be_on_disk_is_never_followed_by_a_record_in_the_old_one(
    rig: Rig, disk: Disk
) -> None:
    """Else a start would find the new one, without that record."""
    disk.fail("sync_directory", errno.EIO, 100)
    refused = 0
    for number in range(20):
        try:
            rig.journal.begin(ONE if number % 2 else TWO)
        except OSError:
            refused += 1
    assert refused > 10
    rig.restart()
    assert sorted(rig.recovered.unfinished) == [ONE, TWO]


def test_of_two_ledgers_the_newer_counts(rig: Rig, disk: Disk) -> None:
    rig.journal.begin(ONE)
    old = disk.files[FIRST / ledgers(disk)[0]]
    rig.journal.split(1, [])
    for _ in range(20):
        rig.journal.begin(TWO)
    disk.kill_process()
    disk.files[FIRST / "ledger-00000001"] = old
    rig.start()
    assert rig.recovered.unfinished == [TWO]
    assert len(ledgers(disk)) == 1


BEGUN = Batch(1, 5, ((1, 9),))
PARTS = [Batch(2, 5, ((1, 4),)), Batch(3, 5, ((5, 9),))]
HISTORY: list[Record] = [
    begin_record(BEGUN),
    SplitRecord(1, tuple(begin_record(part) for part in PARTS)),
    finish_record(PARTS[0], {("spans", 1): 4}, 7),
    SkipRecord(((10, 12),), "refused"),
    finish_record(PARTS[1], None, 8),
]


def after(records: list[Record]) -> BatchState:
    progress = BatchState()
    for record in records:
        progress.apply(record)
    progress.reconcile([(1, 20)])
    return progress


def test_records_lead_to_a_state_and_a_state_to_records() -> None:
    progress = after(HISTORY)
    assert (list(progress.finished), progress.begun, list(progress.retained)) == ([(1, 12)], {}, [2])
    again = after(list(progress.snapshot()))
    assert (list(again.finished), again.begun, again.retained) == (list(progress.finished), {}, progress.retained)
    assert again.next_sequence == progress.next_sequence == 13


@pytest.mark.parametrize("lost", range(len(HISTORY)), ids=[type(record).__name__ for record in HISTORY])
def test_whatever_record_is_lost_nothing_finished_is_offered_as_new(lost: int) -> None:
    progress = after([record for at, record in enumerate(HISTORY) if at != lost])
    offered = {value for first, last in progress.available(1, 20) for value in range(first, last + 1)}
    record = HISTORY[lost]
    if isinstance(record, SkipRecord):
        assert offered == set(range(10, 21))  # looked for, and not found
    else:
        assert offered == set(range(13, 21))
    if isinstance(record, FinishRecord):
        assert list(progress.begun) == [record.batch]
    elif isinstance(record, BeginRecord):
        assert progress.begun == {}


def test_a_batch_that_was_split_and_nobody_knows_is_without_what_its_parts_finished() -> None:
    progress = after([HISTORY[0], HISTORY[2]])
    assert progress.begun == {1: BEGUN._replace(ranges=((5, 9),))}


def test_what_is_in_two_batches_is_in_the_first() -> None:
    progress = after([begin_record(BEGUN), begin_record(Batch(4, 6, ((8, 11),)))])
    assert [batch.ranges for batch in progress.begun.values()] == [((1, 9),), ((10, 11),)]
