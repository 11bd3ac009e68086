"""`sluice repair` over what a gateway stored, on the embedded engine and on a server."""

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from gateway.journal import Batch, Journal, JournaledRequest, JournalLimits, JournalMetrics
from proto.otlp.policy import Policy
from sluice.main import main
from tests.engine.process import Engine

from .conftest import DEADLINE_S, Start, clean_environment, refusal, sluice

TABLES = ("trace_index", "attribute_keys", "error_occurrences")


def days() -> list[str]:
    """Yesterday to tomorrow: the test may run over midnight."""
    today = datetime.now(UTC).date()
    return [str(today + timedelta(days=days)) for days in (-1, 0, 1)]


def repaired(*arguments: Any, **settings: str) -> list[list[str]]:
    """The lines of the derived tables: table, rows before and after, totals before and after."""
    yesterday, _, tomorrow = days()
    done = sluice("repair", "--from", yesterday, "--to", tomorrow, *arguments, **settings)
    assert done.returncode == 0, done.stderr
    assert "ingest_outcomes" in done.stdout
    return [line.split()[1:] for line in done.stdout.splitlines() if re.search(f"  ({'|'.join(TABLES)})  ", line)]


def test_derived_rows_are_rebuilt_on_the_embedded_engine(start: Start, migrated: Path) -> None:
    up = start()
    assert sluice("send", "--data", up.data).returncode == 0
    sentence = refusal(sluice("repair", "--data", up.data, "--from", days()[0], "--to", days()[2]), 1)
    assert "in use by another sluice process" in sentence
    assert up.stop() == 0
    made = repaired("--data", up.data, "--dry-run")
    assert [line[0] for line in made] == list(TABLES)
    assert [line[3] for line in made] == [line[4] for line in made]
    assert int(made[0][4]) > 0
    assert int(made[1][4]) > 0
    assert [line[3:] for line in repaired("--data", up.data)] == [line[3:] for line in made]


def test_invalid_days_and_missing_tables_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("repair", "--data", str(tmp_path / "data"))
    first, _, last = days()
    assert main([*arguments, "--from", last, "--to", first]) == 2
    assert "is later than" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "--from", "yesterday", "--to", last])
    assert "sluice migrate" in refusal(sluice(*arguments, "--from", first, "--to", last), 1)


# As on a cluster: the tables of readers and writers are Distributed ones over those that keep the rows.
DISTRIBUTED = """
import asyncio, sys
from pathlib import Path
from chassis.clickhouse import migrations
from chassis.clickhouse import ClickHouse
from gateway.repair.days import DERIVED_TABLES
from sluice.main import main
from tests.engine.shards import opened

async def made(directory):
    store = ClickHouse(f"chdb://{directory}")
    await store.start()
    await migrations.migrate(store, retention_days=30)
    for table in ("spans", "logs", *DERIVED_TABLES):
        await store.command(f"RENAME TABLE {table} TO {table}_local")
        engine = f"Distributed('two', 'default', '{table}_local')"
        await store.command(f"CREATE TABLE {table} AS {table}_local ENGINE = {engine}")
    await store.close()

data, arguments = Path(sys.argv[1]), sys.argv[2:]
data.mkdir(mode=0o700)
anchor = opened(data / "clickhouse")
asyncio.run(made(data / "clickhouse"))
tables = "SELECT name, engine, metadata_modification_time FROM system.tables WHERE database = 'default' ORDER BY name"
before = anchor.query(tables).bytes()
code = main(["repair", "--data", str(data), *arguments])
assert anchor.query(tables).bytes() == before
sys.exit(code)
"""


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["for_real", "dry_run"])
def test_distributed_tables_are_rejected_before_any_change(tmp_path: Path, more: list[str]) -> None:
    first, _, last = days()
    done = subprocess.run(
        [sys.executable, "-c", DISTRIBUTED, str(tmp_path / "data"), "--from", first, "--to", last, *more],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env=clean_environment(),
    )
    assert refusal(done, 1) == (
        "`sluice repair` supports only tables of the MergeTree family. These tables have another engine:"
        " attribute_keys (Distributed), error_occurrences (Distributed), logs (Distributed), spans (Distributed),"
        " trace_index (Distributed). Run `sluice repair` on each shard, with the database of the local tables in"
        " SLUICE_CLICKHOUSE_URL. The local tables must have the same names."
    )


async def test_a_journal_with_a_partial_batch_must_be_stored_first(tmp_path: Path) -> None:
    left = Journal(
        tmp_path / "data" / "journal",
        JournalLimits(min_free_bytes=0),
        JournalMetrics(CollectorRegistry()),
        structlog.get_logger("test"),
    )
    left.open()
    await left.append(JournaledRequest(1, "traces", "protobuf", "identity", 0, 1, Policy(), b"body"))
    await left.begin(Batch(1, 0, ((1, 1),)))
    await left.close()
    first, _, last = days()
    arguments = ("repair", "--data", tmp_path / "data", "--from", first, "--to", last)
    assert "partially stored batches. Start the gateway" in refusal(sluice(*arguments), 1)


def test_it_works_on_a_server_without_rows(engine: Engine, tmp_path: Path) -> None:
    settings = {"SLUICE_CLICKHOUSE_URL": f"{engine.url}/repaired", "SLUICE_DATA": str(tmp_path / "data")}
    assert sluice("migrate", **settings).returncode == 0
    first, _, last = days()
    done = sluice("repair", "--from", first, "--to", last, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("no spans and no logs: unchanged") == 3
