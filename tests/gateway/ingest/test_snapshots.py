"""Snapshots of what a gateway has acknowledged, while it works."""

import asyncio
import shutil
from pathlib import Path

import pytest

from chassis.clickhouse import ClickHouse, StoreRejected
from gateway.ingest import snapshots
from gateway.ingest.snapshots import IngestSnapshot, SnapshotFailed
from gateway.journal.storage.directories import lock_quarantine
from gateway.journal.storage.files import Files
from tests.gateway.conftest import RecordingStore, Rows, eventually, holding
from tests.gateway.ingest.rig import AWAY, Start, acknowledged, all_stored, stored


async def nothing() -> None:
    """For a caller who freezes no tables."""


def copied(snapshot: IngestSnapshot, target: Path) -> str:
    """The files of a snapshot, as long as they count; the name of the directory."""
    for path in snapshot.directory.rglob("*"):
        if path.is_file():
            name = path.relative_to(snapshot.directory)
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(path.read_bytes()[: snapshot.lengths.get(str(name))])
    return target.name


async def test_inserts_wait_and_requests_do_not(start: Start, tmp_path: Path) -> None:
    store = holding("spans")
    gateway = await start(store)
    await acknowledged(gateway, 1)
    await eventually(lambda: len(store.held) == 1)  # under way
    seen: list[int] = []

    async def while_held() -> None:
        seen.append(len(store.taken))
        await acknowledged(gateway, 3)
        for _ in range(20):
            await asyncio.sleep(0)
        seen.append(len(store.taken))

    taking = asyncio.create_task(gateway.snapshots.take(while_held))
    await eventually((tmp_path / "journal" / "backup.tmp").exists)
    await acknowledged(gateway, 2)
    assert seen == []  # an insert is under way
    store.released.set()
    snapshot = await taking
    assert (seen[0], seen[1]) == (1, 1)
    assert snapshot.held_s > 0
    await gateway.all_stored()
    assert stored(gateway) == 3

    second = await start(RecordingStore(), copied(snapshot, tmp_path / "image"))
    await all_stored(second, 2)
    await gateway.snapshots.release()
    assert not (tmp_path / "journal" / "backup.tmp").exists()


async def test_an_insert_that_does_not_end_fails_it_and_nothing_else(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "HOLD_TIMEOUT_S", 0.05)
    store = holding("spans")
    gateway = await start(store)
    await acknowledged(gateway, 1)
    await eventually(lambda: len(store.held) == 1)
    with pytest.raises(SnapshotFailed, match="did not end"):
        await gateway.snapshots.take(nothing)
    store.released.set()
    await acknowledged(gateway, 2)
    await all_stored(gateway, 2)
    assert (await gateway.snapshots.take(nothing)).held_s > 0


async def test_inserts_do_not_wait_for_a_disk_that_hangs_or_a_caller_that_fails(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LINK_TIMEOUT_S", 1)
    gateway = await start(RecordingStore())

    async def hang() -> None:
        await acknowledged(gateway, 1)
        await asyncio.Event().wait()

    with pytest.raises(SnapshotFailed, match="took longer than"):
        async with asyncio.timeout(20):
            await gateway.snapshots.take(hang)
    await all_stored(gateway, 1)

    async def fail() -> None:
        raise TimeoutError("of the disk itself")

    with pytest.raises(TimeoutError, match="of the disk itself"):
        await gateway.snapshots.take(fail)
    await acknowledged(gateway, 2)
    await all_stored(gateway, 2)
    assert (await gateway.snapshots.take(nothing)).held_s > 0


async def test_it_has_the_journals_of_earlier_processes(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.ingest.wiring.SCAN_INTERVAL_S", 0.05)
    earlier = await start(RecordingStore(away=AWAY), "elsewhere")
    await acknowledged(earlier, 1, 2)
    await earlier.stop()
    shutil.copytree(tmp_path / "elsewhere" / "0", tmp_path / "journal" / "7")
    gateway = await start(RecordingStore(away=AWAY))
    await eventually(lambda: gateway.metric("pending_items") == 2)  # it has taken them over
    shutil.copytree(tmp_path / "elsewhere" / "0", tmp_path / "journal" / "8")
    await acknowledged(gateway, 3)
    snapshot = await gateway.snapshots.take(nothing)
    assert {name.partition("/")[0] for name in snapshot.lengths} == {"0", "7", "8"}
    copy = await start(RecordingStore(), copied(snapshot, tmp_path / "image"))
    await eventually(lambda: stored(copy) == 5)


async def test_it_has_the_quarantine_and_waits_for_a_requeue(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LOCK_TRIES", 2)
    monkeypatch.setattr(snapshots, "LOCK_RETRY_S", 0.01)
    store = RecordingStore(refuse=lambda _insert: StoreRejected("no"))
    gateway = await start(store)
    await acknowledged(gateway, 1)
    await eventually(lambda: gateway.metric("quarantined_items_total") == 1)
    lock = lock_quarantine(Files(), tmp_path / "journal")
    with pytest.raises(SnapshotFailed, match="requeueing"):
        await gateway.snapshots.take(nothing)
    Files().close(lock)
    snapshot = await gateway.snapshots.take(nothing)
    names = {path.name for path in (snapshot.directory / "quarantine").iterdir()}
    assert names == {path.name for path in (tmp_path / "journal" / "quarantine").iterdir()} - {"lock"}
    assert len(names) == 2


async def test_it_has_the_name_that_erasures_know_the_journals_by(start: Start, tmp_path: Path) -> None:
    gateway = await start(RecordingStore())
    (tmp_path / "journal" / "id").unlink(missing_ok=True)
    unnamed = await gateway.snapshots.take(nothing)
    assert not (unnamed.directory / "id").exists()
    (tmp_path / "journal" / "id").write_text("0123456789abcdef\n")
    named = await gateway.snapshots.take(nothing)
    assert (named.directory / "id").read_text() == "0123456789abcdef\n"


@pytest.mark.parametrize("mode", ["store", "memory"])
async def test_without_a_journal_derived_rows_are_stored_before(
    start: Start, clickhouse: ClickHouse, rows: Rows, mode: str
) -> None:
    gateway = await start(clickhouse, durability=mode, derived_linger_s=3_600.0, outcomes_flush_s=3_600.0)
    await acknowledged(gateway, 1)  # the first is not followed by a pause
    await all_stored(gateway, 1)
    await acknowledged(gateway, 2, 3)
    await all_stored(gateway, 3)
    assert (await gateway.post("/v1/traces", b"\xff")).status == 400
    found: list[tuple[object, ...]] = []

    async def while_held() -> None:
        found.extend(await rows("SELECT outcome, sum(items), sum(requests) FROM ingest_outcomes GROUP BY 1 ORDER BY 1"))

    await gateway.snapshots.take(while_held)
    assert found == [("accepted", 3, 3), ("refused", 0, 1)]
    await acknowledged(gateway, 9)


async def test_it_knows_when_the_disk_is_nearly_full(start: Start) -> None:
    assert not (await start(RecordingStore())).snapshots.is_disk_low
    full = await start(RecordingStore(), "full", journal_min_free_bytes=2**60)
    await eventually(lambda: full.snapshots.is_disk_low)
    assert not (await start(RecordingStore(), durability="store")).snapshots.is_disk_low
