"""A snapshot of a journal: what another process finds in a copy of its links."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from chassis.errors import ServiceUnavailable
from gateway.journal import Batch, JournalLocked
from gateway.journal.storage.directories import JournalSnapshot, link_closed_journal, link_shared, list_shared
from gateway.journal.storage.files import Files
from tests.gateway.journal.running import LIMITS, journal_at, opened, request, until


def copied(snapshot: JournalSnapshot, links: Path, target: Path) -> Path:
    """The files of a snapshot, as long as they count."""
    target.mkdir(parents=True)
    for name, length in snapshot.lengths.items():
        (target / name).write_bytes((links / name).read_bytes()[:length])
    return target.parent


async def test_a_copy_has_what_was_acknowledged_before_and_nothing_else(tmp_path: Path) -> None:
    journal = journal_at(tmp_path / "a")
    numbers, acknowledged = count(1), 0

    async def append_on_and_on() -> None:
        nonlocal acknowledged
        for number in numbers:
            await journal.append(request(b"%d" % number * 50))
            acknowledged = number

    async with opened(journal):
        senders = asyncio.create_task(append_on_and_on())
        taken: list[tuple[int, JournalSnapshot, Path]] = []
        for at in range(5):
            await until(lambda: acknowledged > len(taken) * 20)
            before = acknowledged
            links = tmp_path / f"links-{at}"
            taken.append((before, await journal.snapshot(links), links))
        senders.cancel()
        await asyncio.gather(senders, return_exceptions=True)
    moments = [snapshot.moment_ns for _, snapshot, _ in taken]
    assert moments == sorted(moments)
    for at, (before, snapshot, links) in enumerate(taken):
        copy = journal_at(copied(snapshot, links, tmp_path / f"copy-{at}" / "0"))
        async with opened(copy) as recovered:
            entries = await copy.read(0, 2**30)
            assert [entry.sequence for entry in entries] == list(range(1, recovered.last_unbatched + 1))
            assert [entry.request.body for entry in entries] == [b"%d" % entry.sequence * 50 for entry in entries]
            assert before <= recovered.last_unbatched < before + 20
            assert copy.take_damaged() == []


async def test_it_knows_the_batches_also_those_that_no_sync_has_reached(tmp_path: Path) -> None:
    journal = journal_at(tmp_path / "a")
    async with opened(journal):
        for number in range(1, 4):
            await journal.append(request(b"%d" % number))
        await journal.begin(Batch(7, 1, ((1, 1),)))
        await journal.begin(Batch(8, 1, ((2, 2),)))
        journal.finish(7, {("spans", 1): 1})  # with the next sync, a second later
        snapshot = await journal.snapshot(tmp_path / "links")
    copy = journal_at(copied(snapshot, tmp_path / "links", tmp_path / "b" / "0"))
    async with opened(copy) as recovered:
        assert [batch.batch_id for batch in recovered.unfinished] == [8]
        assert [batch.batch_id for batch in recovered.retained] == [7]
        assert recovered.last_unbatched == 3


async def test_what_the_journal_removes_afterwards_stays_in_it(tmp_path: Path) -> None:
    journal = journal_at(tmp_path / "a", LIMITS)
    async with opened(journal):
        await journal.append(request(b"first"))
        snapshot = await journal.snapshot(tmp_path / "links")
    async with opened(journal_at(tmp_path / "a")) as recovered:
        assert recovered.last_unbatched == 1
    for path in (tmp_path / "a" / "0").iterdir():
        path.unlink()
    copy = journal_at(copied(snapshot, tmp_path / "links", tmp_path / "b" / "0"))
    async with opened(copy):
        assert [entry.request.body for entry in await copy.read(0, 1)] == [b"first"]


async def test_a_journal_that_is_closing_gives_none(tmp_path: Path) -> None:
    journal = journal_at(tmp_path / "a")
    async with opened(journal):
        pass
    with pytest.raises(ServiceUnavailable):
        await journal.snapshot(tmp_path / "links")


async def test_a_journal_that_nobody_has_open_is_linked_whole(tmp_path: Path) -> None:
    journal = journal_at(tmp_path / "a")
    async with opened(journal):
        await journal.append(request(b"kept"))
        with pytest.raises(JournalLocked):
            link_closed_journal(Files(), journal.directory, tmp_path / "refused")
    lengths = link_closed_journal(Files(), tmp_path / "a" / "0", tmp_path / "links")
    assert "lock" not in lengths
    copy = journal_at(copied(JournalSnapshot(0, lengths), tmp_path / "links", tmp_path / "b" / "0"))
    async with opened(copy):
        assert [entry.request.body for entry in await copy.read(0, 1)] == [b"kept"]


def test_quarantine_and_damage_are_linked_as_far_as_they_are_there(tmp_path: Path) -> None:
    assert list_shared(Files(), tmp_path) == []
    for name in ("quarantine/a.segment", "quarantine/a.segment.json", "damaged/b.bytes", "quarantine/c.segment.tmp"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    listed = list_shared(Files(), tmp_path)
    (tmp_path / "damaged" / "b.bytes").unlink()  # it has expired meanwhile
    link_shared(Files(), listed, tmp_path / "links")
    found = sorted(str(path.relative_to(tmp_path / "links")) for path in (tmp_path / "links").rglob("*.*"))
    assert found == ["quarantine/a.segment", "quarantine/a.segment.json"]
