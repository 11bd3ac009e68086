"""The journal on the event loop, on real files."""

import asyncio
import os
import shutil
import stat
from pathlib import Path
from typing import cast

import pytest
import structlog
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from chassis.errors import ServiceUnavailable, StartupError
from gateway.journal import (
    Batch,
    Journal,
    JournalLike,
    JournalLocked,
    JournalMetrics,
    NullJournal,
    RecoveredState,
    find_orphans,
)
from gateway.journal import format as fmt
from gateway.journal.storage.files import Files
from gateway.journal.storage.scanning import run_to_completion
from gateway.journal.storage.segments import BLOCK_BYTES
from tests.gateway.journal.disk import Disk
from tests.gateway.journal.rig import ALL, NO_LIMITS, RecordingLog, Rig
from tests.gateway.journal.running import LIMITS, journal_at, opened, request, until
from tests.gateway.journal.test_format import DEFLATED, EMPTY, GOLDEN, LOGS, TRACES


class HeldFiles(Files):
    """Syncs wait until they are let go."""

    def __init__(self) -> None:
        self.hold = False
        self.held = 0
        self.syncs = 0

    def sync(self, fd: int) -> None:
        self.held += self.hold
        while self.hold:
            os.sched_yield()
        self.syncs += 1
        super().sync(fd)


async def test_what_is_appended_is_there_after_a_crash_and_after_an_orderly_end(tmp_path: Path) -> None:
    journal: JournalLike = journal_at(tmp_path / "a")
    journal.open()
    journal.pause_retention(on=False)
    requests = [request(b"%d" % number * 100, number % 3, slow=number % 2 == 0) for number in range(20)]
    assert await asyncio.gather(*map(journal.append, requests)) == list(range(1, 21))
    assert journal.last_sequence == 20
    shutil.copytree(tmp_path / "a", tmp_path / "b")  # as a process that is killed leaves it
    await journal.close()
    crashed = journal_at(tmp_path / "b")
    async with opened(crashed) as recovered:
        assert recovered == RecoveredState([], [], clean=False, last_unbatched=20)
        assert [tuple(entry) for entry in await crashed.read(0, 2**30)] == list(enumerate(requests, 1))
        assert [entry.sequence for entry in await crashed.read(5, 2**30, slow=True)] == [7, 9, 11, 13, 15, 17, 19]
        assert [entry.sequence for entry in await crashed.read(5, 100, slow=False)] == [6]
        assert await crashed.read(20, 1) == []
    async with opened(journal_at(tmp_path / "a")) as recovered:
        assert recovered == RecoveredState([], [], clean=True, last_unbatched=20)


async def test_requests_that_wait_share_a_sync_and_land_in_order_though_nobody_waits_any_more(tmp_path: Path) -> None:
    files = HeldFiles()
    journal = journal_at(tmp_path, files=files)
    async with opened(journal):
        await journal.append(request(b"first"))
        before = files.syncs
        files.hold = True
        landed: list[int] = []
        tasks = [asyncio.create_task(journal.append(request(b"%d" % n), landed.append)) for n in range(30)]
        await until(lambda: files.held == 1)
        tasks[3].cancel()
        tasks[20].cancel()
        await asyncio.sleep(0)
        assert landed == []
        files.hold = False
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert landed == list(range(2, 32))
        assert [result for result in results if isinstance(result, int)] == [
            *range(2, 5),
            *range(6, 22),
            *range(23, 32),
        ]
        assert files.syncs - before <= 2  # the first alone, and all that came while it was written
        assert len(await journal.read(1, 2**30)) == 30


async def test_what_goes_wrong_with_one_that_landed_is_not_the_others_concern(tmp_path: Path) -> None:
    def refuse(sequence: int) -> None:
        raise ValueError(sequence)

    journal = journal_at(tmp_path)
    async with opened(journal):
        landed: list[int] = []
        results = await asyncio.gather(
            journal.append(request(b"a"), refuse),
            journal.append(request(b"b"), landed.append),
            journal.append(request(b"c")),
        )
        assert (list(results), landed) == ([1, 2, 3], [2])


async def test_a_request_that_is_larger_than_a_segment_gets_a_larger_one(tmp_path: Path) -> None:
    journal = journal_at(tmp_path)
    large = request(os.urandom(9 * 2**20))
    async with opened(journal):
        await asyncio.gather(*(journal.append(request(b"%d" % number)) for number in range(5)), journal.append(large))
        await journal.append(request(b"after"))
        entries = await journal.read(0, 2**30)
        assert [entry.request for entry in entries if len(entry.request.body) > 5] == [large]
        assert len(entries) == 7


async def test_lanes_are_read_apart_over_many_blocks(tmp_path: Path) -> None:
    journal = journal_at(tmp_path)
    async with opened(journal):
        for number in range(60):
            await journal.append(request(b"%02d" % number * 25_000, slow=number // 15 % 2 == 1))
        await journal.begin(Batch(1, 2, ((3, 4), (20, 50))))
        wanted = {True: [*range(16, 20), *range(51, 61)], False: [1, 2, *range(5, 16)]}
        for slow, sequences in wanted.items():
            found: list[int] = []
            while entries := await journal.read(found[-1] if found else 0, 120_000, slow=slow):
                assert 1 <= len(entries) <= 3
                found += [entry.sequence for entry in entries]
            assert found == sequences
        assert [entry.sequence for entry in await journal.read_batch(Batch(1, 2, ((3, 4), (20, 50))))] == [
            3,
            4,
            *range(20, 51),
        ]


async def test_a_null_journal_logs_lost_items() -> None:
    said = RecordingLog()
    log: JournalLike = NullJournal(cast("structlog.stdlib.BoundLogger", said))
    assert (log.open(), log.durable, log.last_sequence) == (RecoveredState(), False, 0)
    landed: list[int] = []
    assert [await log.append(request(b"x"), landed.append) for _ in range(4)] == landed == [1, 2, 3, 4]
    await log.begin(Batch(1, 2, ((1, 4),)))
    await log.split(1, [Batch(2, 2, ((1, 3),)), Batch(3, 2, ((4, 4),))])
    log.finish(3, {})
    await log.quarantine(Batch(2, 2, ((1, 3),)), "why")
    await log.quarantine(Batch(3, 2, ((4, 4),)), "why")
    assert [fields["items"] for _, _, fields in said.said] == [9, 0]
    log.pause_retention(on=True)
    assert log.take_damaged() == ()
    assert (await log.read(0, 1), await log.read_batch(Batch(2, 2, ((1, 3),))), log.retained_batches()) == ([], [], ())
    await log.close()


async def test_batches_are_what_they_were_when_they_were_begun(tmp_path: Path) -> None:
    journal = journal_at(tmp_path, replace(LIMITS, hold_s=600))
    batch = Batch(2**63 - 1, 5, ((1, 2), (4, 4)), frozenset({("spans", 3)}))
    other = Batch(8, 6, ((3, 3),))
    async with opened(journal):
        for number in range(6):
            await journal.append(request(b"%d" % number))
        await journal.begin(batch)
        await journal.begin(other)
        assert [entry.sequence for entry in await journal.read(0, 2**30)] == [5, 6]
        assert [entry.request.body for entry in await journal.read_batch(batch)] == [b"0", b"1", b"3"]
        journal.finish(8, {("spans", 4): 10})
        await until(lambda: bool(journal.retained_batches()))
    async with opened(journal_at(tmp_path, replace(LIMITS, hold_s=600))) as recovered:
        assert recovered == RecoveredState(
            [batch], [other._replace(rows={("spans", 4): 10})], clean=True, last_unbatched=6
        )


async def test_what_is_finished_leaves_the_disk_and_the_journal_is_empty_and_can_be_removed(tmp_path: Path) -> None:
    journal = journal_at(tmp_path)
    async with opened(journal):
        for number in range(40):
            await journal.append(request(bytes(100_000), number % 2))
        await journal.begin(Batch(1, 2, ((1, 40),)))
        journal.finish(1, {("spans", 1): 2})
        await until(lambda: journal.nbytes < 2**20)  # what is left is being written to
    (orphan,) = find_orphans(tmp_path)
    adopted = journal_at(orphan, is_orphan=True)
    async with opened(adopted) as recovered:
        assert recovered == RecoveredState([], recovered.retained, clean=True, last_unbatched=0)
        assert adopted.directory == orphan == tmp_path / "0"
        await until(lambda: adopted.is_empty)
    adopted.remove()
    assert not orphan.exists()


async def test_an_orphan_that_was_removed_meanwhile_is_not_made_again(tmp_path: Path) -> None:
    async with opened(journal_at(tmp_path)):
        pass
    (orphan,) = find_orphans(tmp_path)
    shutil.rmtree(orphan)
    with pytest.raises(JournalLocked):
        journal_at(orphan, is_orphan=True).open()
    assert not orphan.exists()


async def test_a_journal_that_holds_something_is_not_removed(tmp_path: Path) -> None:
    journal = journal_at(tmp_path)
    async with opened(journal):
        await journal.append(request(b"x"))
        assert not journal.is_empty
    journal.remove()
    async with opened(journal_at(tmp_path)) as recovered:
        assert recovered.last_unbatched == 1


async def test_each_process_has_the_lowest_journal_that_is_free(tmp_path: Path) -> None:
    first, second, third = (journal_at(tmp_path) for _ in range(3))
    async with opened(first), opened(second):
        assert [first.directory.name, second.directory.name] == ["0", "1"]
        assert find_orphans(tmp_path) == []
        with pytest.raises(JournalLocked):
            journal_at(tmp_path / "0").open()
        await first.close()
        assert find_orphans(tmp_path) == [tmp_path / "0"]
        async with opened(third):
            assert third.directory.name == "0"


async def test_files_are_for_us_alone_and_have_nothing_but_what_is_documented(tmp_path: Path) -> None:
    journal = journal_at(tmp_path / "journal")
    async with opened(journal):
        await journal.append(request(b"x"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "journal" / "0").iterdir()}
        assert modes == {"lock": 0o600, "ledger-00000001": 0o600, f"{1:020d}.segment": 0o600}
        assert stat.S_IMODE((tmp_path / "journal").stat().st_mode) == 0o700
        assert (tmp_path / "journal" / "0" / f"{1:020d}.segment").stat().st_size == LIMITS.segment_bytes


@pytest.mark.parametrize("name", ["segment", "ledger"])
async def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "0"
    directory.mkdir()
    golden = bytearray((GOLDEN / f"version-1.{name}").read_bytes())
    header = fmt.read_file_header(bytes(golden))
    assert header is not None
    golden[: fmt.PAGE] = fmt.pack_file_header(header._replace(version=2))
    path = directory / {"segment": f"{41:020d}.segment", "ledger": "ledger-00000003"}[name]
    path.write_bytes(golden)
    (directory / "ledger-00000002.tmp").touch()
    (directory / "lock").touch()
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(StartupError) as refused:
        journal_at(tmp_path).open()
    assert str(refused.value) == (
        f"{path} has version 2 of the journal's format, written by a newer release. This release reads version 1. "
        "Start the newer release again, and let it store the requests of the journal."
    )
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert find_orphans(tmp_path) == [directory]  # its lock is free again


async def test_a_journal_of_version_1_is_replayed(tmp_path: Path) -> None:
    directory = tmp_path / "0"
    directory.mkdir()
    shutil.copy(GOLDEN / "version-1.segment", directory / f"{41:020d}.segment")
    journal = journal_at(tmp_path)
    async with opened(journal) as recovered:
        assert recovered == RecoveredState([], [], clean=False, last_unbatched=44)
        entries = await journal.read(0, 2**30)
        assert [tuple(entry) for entry in entries] == list(enumerate([TRACES, LOGS, EMPTY, DEFLATED], 41))
        assert await journal.append(request(b"next")) == 45


async def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "photographs").touch()
    with pytest.raises(StartupError, match="contains files that do not belong to a journal"):
        journal_at(tmp_path).open()
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match="cannot be used for the journal: File exists"):
        journal_at(tmp_path / "file").open()


async def test_after_the_end_nothing_is_taken(tmp_path: Path) -> None:
    journal = journal_at(tmp_path)
    async with opened(journal):
        await journal.append(request(b"x"))
        await journal.begin(Batch(1, 2, ((1, 1),)))
    with pytest.raises(ServiceUnavailable) as refused:
        await journal.append(request(b"y"))
    assert refused.value.message == "The gateway is shutting down; retry the request."
    journal.finish(1, {})
    await journal.close()
    async with opened(journal_at(tmp_path)) as recovered:
        assert [batch.batch_id for batch in recovered.unfinished] == [1]


async def test_metrics_tell_how_much_and_how_old_what_is_not_stored_is(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    journal = Journal(
        tmp_path, LIMITS, JournalMetrics(registry), structlog.get_logger(), clock=lambda: 1_763_700_090 * 10**9
    )

    def value(name: str) -> float:
        return registry.get_sample_value(f"sluice_gateway_journal_{name}") or 0.0

    async with opened(journal):
        await journal.append(request(bytes(9000)))
        await until(lambda: value("oldest_seconds") == 90)
        assert value("bytes") == 4 * fmt.PAGE  # its header, and 9000 bytes with what is told of them
        assert value("unfinished_bytes") == value("bytes")
        assert value("group_requests_sum") == value("sync_seconds_count") == 1
        await journal.begin(Batch(1, 2, ((1, 1),)))
        journal.finish(1, {})
        await until(lambda: value("oldest_seconds") == 0 and value("unfinished_bytes") == 0)
    assert b"sluice_gateway_journal_damaged_frames_total 0.0" in generate_latest(registry)


@pytest.mark.parametrize("seconds", [0, 1], ids=["the_block_is_full", "the_block_is_a_second_old"])
def test_a_reader_passes_over_nothing_that_is_written_between_its_steps(seconds: int) -> None:
    """What the block it is at gets meanwhile is left to the next reader, and so is what comes after that."""
    rig = Rig(Disk(), limits=replace(NO_LIMITS, segment_bytes=8 * BLOCK_BYTES))
    journal = rig.start()
    body = bytes(BLOCK_BYTES // 5)
    journal.commit([rig.request(body), rig.request(body)])
    reading = journal.segment_set.read(0, ALL)
    next(reading)
    journal.commit([rig.request(body), rig.request(body)])
    rig.now += seconds
    journal.commit([rig.request(body) for _ in range(4)])
    found = [entry.sequence for entry in run_to_completion(reading)]
    rest = [entry.sequence for entry in rig.read(found[-1])]
    assert found + rest == list(range(1, 9))
