"""`sluice up`: the engine is in the process, so its end is the process's end."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.journal.inspection import inspect
from tests.e2e.product import START_SECONDS, Sluice, clean_environment, eventually, running
from tests.faults.deployment import SMALL, engine_of, has_stored_all
from tests.faults.loading import accounted_for, more, sending_to
from tests.selection import scaled

DEATH_S = 10  # nobody is served meanwhile


@pytest.fixture
def sluice(tmp_path: Path) -> Iterator[Sluice]:
    sluice = running(tmp_path / "data", tmp_path / "log", **SMALL)
    yield sluice
    sluice.kill()


@pytest.mark.sized
def test_fault_17_engine_abort(sluice: Sluice, tmp_path: Path, run: str) -> None:
    """An abort of the engine, a fault in it, the kernel for want of memory; a supervisor starts the process again."""
    service = sluice.writer
    with sending_to(sluice, run) as load:
        numbers = scaled((signal.SIGSEGV,), (signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL))
        for number in numbers:
            more(load)
            assert service.process is not None
            service.process.send_signal(number)
            assert service.process.wait(DEATH_S) == -number
            service.start()
        fatal = len(set(numbers) - {signal.SIGKILL})  # which leaves no time to write the stacks
        assert service.log.read_text().count("Fatal Python error: ") == fatal
        more(load)
    records = accounted_for(sluice, load)
    assert (records.faults, records.unanswered) == ({}, 0), records
    assert records.attempts > records.requests


@pytest.mark.long
def test_fault_18_second_process_opens_the_engine(sluice: Sluice, tmp_path: Path, run: str) -> None:
    """With a data directory of its own, so that only the engine is shared: one sentence, and no harm."""
    with sending_to(sluice, run) as load:
        more(load)
        store = tmp_path / "data" / "clickhouse"
        other = subprocess.run(
            [sys.executable, "-m", "sluice", "up", "--data", str(tmp_path / "other"), "--port", "0"],
            env=clean_environment({"SLUICE_CLICKHOUSE_URL": f"chdb://{store}"}),
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        sentence = f"sluice: The directory {store} is in use by another process. "
        sentence += "Only one process can use an embedded engine."
        assert (other.returncode, other.stderr.splitlines()[-1]) == (1, sentence)
        more(load)
    records = accounted_for(sluice, load)
    assert (records.faults, records.unanswered, records.resent) == ({}, 0, 0), records


GONE = "missing rows were reinserted"


def lose_parts(data: Path) -> int:
    """Remove every part with spans and logs from a stopped engine; of how many batches."""
    with engine_of(data) as tables:
        parts = tables.ask("SELECT path FROM system.parts WHERE active AND table IN ('spans', 'logs')")
        ((batches,),) = tables.ask(
            "SELECT uniqExact(batch_id) FROM (SELECT batch_id FROM spans UNION ALL SELECT batch_id FROM logs)"
        )
    for (path,) in parts:
        shutil.rmtree(path)
    return int(batches)


@pytest.mark.long
def test_fault_16_lost_part_with_a_live_deduplication_log(tmp_path: Path, run: str) -> None:
    """After a power loss ClickHouse may know the token of a part that is gone. The rows are there once all the same."""
    sluice = running(tmp_path / "data", tmp_path / "log", **{**SMALL, "SLUICE_GATEWAY_JOURNAL_HOLD_S": "600"})
    try:
        with sending_to(sluice, run) as load:
            more(load)
        eventually(lambda: has_stored_all(sluice.gateway_url), "all is stored")
        eventually(lambda: not any(facts.batches for facts in inspect(tmp_path / "data" / "journal")), "it knows that")
        sluice.kill()
        batches = lose_parts(tmp_path / "data")
        assert batches > 0
        sluice.start()
        eventually(lambda: (tmp_path / "log").read_text().count(GONE) == batches, "all is stored again", 60)
        records = accounted_for(sluice, load)
    finally:
        sluice.kill()
    assert (records.faults, records.again, records.unanswered) == ({}, 0, 0), records
