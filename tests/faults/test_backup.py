"""Backups while clients send, read back: what was acknowledged before the moment, each item once, and nothing that was
sent after it.
"""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sluice.backup.target import find_backups
from tests.e2e import product
from tests.e2e.product import START_SECONDS, Service, Sluice, clean_environment, eventually, running
from tests.faults.deployment import SMALL, Tables, engine_of, has_stored_all, metric
from tests.faults.loading import accounted_for, more, sending_to
from tests.faults.preload import Layer, Rule
from tests.faults.reconciliation import reconcile
from tests.faults.records import SEQUENCE, Export
from tests.selection import scaled

DERIVED = f"""
SELECT (SELECT count() FROM spans) + (SELECT count() FROM logs),
       (SELECT sum(items) FROM trace_index),
       (SELECT sum(items) FROM ingest_outcomes WHERE outcome = 'accepted'),
       (SELECT count() FROM spans),
       (SELECT sum(spans) FROM attribute_keys WHERE key = '{SEQUENCE}')"""


@pytest.fixture
def sluice(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sluice]:
    """One that runs, with small segments and short pauses, in the mode of the test."""
    mode = getattr(request, "param", "journal")
    sluice = running(tmp_path / "data", tmp_path / "log", **{**SMALL, "SLUICE_DURABILITY": mode})
    yield sluice
    sluice.kill()


def back_up(data: Path, target: Path, *options: str) -> dict[str, Any]:
    """What the command says."""
    said = product.run("backup", "--to", str(target), "--json", "--data", str(data), *options, environment={})
    made: dict[str, Any] = json.loads(said)
    return made


@contextmanager
def tables_of(backup: Path, directory: Path, mode: str = "journal") -> Iterator[Tables]:
    """The tables of a backup, once what it has is stored."""
    directory.mkdir()
    product.run("restore", "--from", str(backup), "--to", str(directory / "data"), environment={})
    service = Service("up", directory / "data", directory / "log", {**SMALL, "SLUICE_DURABILITY": mode})
    service.start()
    try:
        eventually(lambda: has_stored_all(service.url), "all is stored", START_SECONDS)
        service.stop()
    finally:
        service.kill()
    with engine_of(directory / "data") as tables:
        yield tables


def wrong_with(backup: Path, exports: Sequence[Export], run_name: str, tables: Tables) -> dict[str, int]:
    """What a backup has and should not, and lacks and should have; empty if it is exact."""
    moment_ns = json.loads((backup / "manifest.json").read_text())["moment_ns"]
    before = [export for export in exports if 0 < export.acknowledged_ns < moment_ns]
    after = [export for export in exports if export.sent_ns > moment_ns]
    stored, damaged = tables.stored(run_name)
    times_stored = [[stored.get((export.client, sequence), 0) for sequence in export.good] for export in exports]
    ((rows, indexed, accepted, spans, keys),) = tables.ask(DERIVED)
    found = {
        "lost": sum(times.count(0) for export, times in zip(exports, times_stored, strict=True) if export in before),
        "of later": sum(sum(times) for export, times in zip(exports, times_stored, strict=True) if export in after),
        "in part": sum(len(set(times)) > 1 for times in times_stored),
        "doubled": reconcile(exports, stored, damaged).doubled,
        "damaged": damaged,
        "not indexed": int(rows) - int(indexed),
        "outcomes": int(rows) - int(accepted),
        "keys": int(spans) - int(keys),
    }
    assert before, "nothing was acknowledged before"
    return {name: value for name, value in found.items() if value}


@pytest.mark.sized
def test_a_backup_has_what_was_acknowledged_before_its_moment_once(sluice: Sluice, tmp_path: Path, run: str) -> None:
    """Round after round into the same target: each backup stands on its own, and links what it has in common."""
    target, made = tmp_path / "backups", []
    with sending_to(sluice, run) as load:
        for _ in range(scaled(2, 20)):
            more(load)
            made.append(back_up(sluice.data, target))
    assert not [export.answers for export in load.exports if export.answers != ["200"]], "no client noticed"
    assert [Path(each["directory"]) for each in reversed(made)] == find_backups(target)
    assert made[-1]["linked_files"] > 0
    for number, each in enumerate(made):
        with tables_of(Path(each["directory"]), tmp_path / str(number)) as tables:
            assert wrong_with(Path(each["directory"]), load.exports, run, tables) == {}, number
    eventually(lambda: has_stored_all(sluice.gateway_url), "all is stored")


@pytest.mark.long
@pytest.mark.parametrize(("sluice", "mode"), [("store", "store")], indirect=["sluice"])
def test_without_a_journal_it_has_what_was_stored_with_derived_rows(
    sluice: Sluice, mode: str, tmp_path: Path, run: str
) -> None:
    with sending_to(sluice, run) as load:
        more(load)
        made = Path(back_up(sluice.data, tmp_path / "backups")["directory"])
        more(load)
    with tables_of(made, tmp_path / "restored", mode) as tables:
        assert wrong_with(made, load.exports, run, tables) == {}


def left_over(data: Path) -> list[Path]:
    """What a snapshot that was given up has left."""
    return [*data.glob("clickhouse/shadow/sluice*"), *data.glob("journal/backup.tmp"), *data.glob("backup.tmp")]


def wait_for_snapshot(data: Path, process: "subprocess.Popen[bytes]") -> None:
    """Until there are links, or the command has ended."""
    eventually(lambda: left_over(data) or process.poll() is not None, "it begins", START_SECONDS)


def begun(data: Path, target: Path, log: Path, **environment: str) -> "subprocess.Popen[bytes]":
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "sluice", "backup", "--to", str(target), "--data", str(data)],
            stdout=out,
            stderr=out,
            env=clean_environment(environment),
        )


@pytest.mark.long
def test_a_killed_backup_leaves_nothing_that_a_restore_takes_and_harms_nobody(
    sluice: Sluice, tmp_path: Path, run: str
) -> None:
    chance, target = random.Random(run), tmp_path / "backups"
    with sending_to(sluice, run) as load:
        more(load)
        for _ in range(20):
            process = begun(sluice.data, target, tmp_path / "said")
            wait_for_snapshot(sluice.data, process)
            time.sleep(chance.uniform(0.0, 0.3))
            process.kill()
            process.wait()
            for backup in find_backups(target):  # those that were complete before
                _restore_checks(backup)
            eventually(lambda: not left_over(sluice.data), "the snapshot is removed")
        more(load)
        made = Path(back_up(sluice.data, target)["directory"])
        assert not list(target.glob(".partial-*"))
    assert not [export.answers for export in load.exports if export.answers != ["200"]], "no client noticed"
    with tables_of(made, tmp_path / "restored") as tables:
        assert wrong_with(made, load.exports, run, tables) == {}


def _restore_checks(backup: Path) -> None:
    product.run("restore", "--check", "--from", str(backup), environment={})


@pytest.mark.long
def test_a_service_killed_during_a_backup_starts_again_and_has_everything(
    sluice: Sluice, tmp_path: Path, run: str
) -> None:
    chance, target = random.Random(run), tmp_path / "backups"
    with sending_to(sluice, run) as load:
        for _ in range(10):
            more(load)
            process = begun(sluice.data, target, tmp_path / "said")
            wait_for_snapshot(sluice.data, process)
            time.sleep(chance.uniform(0.0, 0.1))
            assert sluice.writer.process is not None
            sluice.writer.process.send_signal(signal.SIGKILL)
            sluice.writer.process.wait(START_SECONDS)
            process.wait(START_SECONDS)  # with a backup, or with a sentence
            for backup in find_backups(target):
                _restore_checks(backup)
            sluice.writer.start()
            assert left_over(sluice.data) == []
        more(load)
    records = accounted_for(sluice, load)
    assert (records.faults, records.unanswered) == ({}, 0), records


@pytest.mark.long
@pytest.mark.parametrize("call", ["write", "mkdir"])
def test_a_full_disk_at_the_target_is_one_sentence_and_harms_nobody(
    sluice: Sluice, tmp_path: Path, run: str, call: Any
) -> None:
    target, said = tmp_path / "backups", tmp_path / "said"
    layer = Layer(tmp_path / "layer")
    with sending_to(sluice, run) as load:
        more(load)
        rule = Rule("ENOSPC", call, f"{target}/*", 3, onwards=True)
        assert begun(sluice.data, target, said, **layer.environment([rule])).wait(START_SECONDS) == 1
        lines = said.read_text().splitlines()
        assert [line for line in lines if line.startswith("sluice: No backup was made: ")] == lines[-1:]
        assert "No space left on device" in lines[-1]
        assert find_backups(target) == []
        assert not list(target.glob(".partial-*"))
        eventually(lambda: not left_over(sluice.data), "the snapshot is removed")
        assert metric(sluice.gateway_url, "sluice_backup_failures_total") == 1
        more(load)
        back_up(sluice.data, target)
    assert not [export.answers for export in load.exports if export.answers != ["200"]], "no client noticed"
