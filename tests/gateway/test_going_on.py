"""What looks for something now and then goes on looking, whatever goes wrong meanwhile."""

import errno
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from chassis.clickhouse import StoreUnavailable
from gateway.journal import Journal, find_orphans
from tests.gateway.conftest import RecordingStore, StartGateway, eventually
from tests.gateway.otlp import span, traces

NO_DESCRIPTORS = "[Errno 24] Too many open files"
NO_THREAD = "can't start new thread"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks again at once."""
    monkeypatch.setattr("gateway.ingest.wiring.SCAN_INTERVAL_S", 0.01)
    monkeypatch.setattr("gateway.ingest.wiring.POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr("gateway.inserts.store_state.RESTART_CHECK_S", 0.01)
    monkeypatch.setattr("gateway.ingest.journaled.DRAIN_S", 0.1)


@pytest.fixture
async def left_behind(start_gateway: StartGateway, tmp_path: Path) -> Path:
    """A journal with a request, of a gateway that is gone."""
    away = RecordingStore(away=StoreUnavailable("away"))
    gateway = await start_gateway(away, journal_dir=str(tmp_path / "elsewhere"))
    assert await gateway.statuses(traces(span(1))) == [200]
    await gateway.stop()
    return tmp_path / "elsewhere" / "0"


def events(lines: Sequence[Mapping[str, object]], event: str) -> list[str]:
    """What it was, each time that this was logged."""
    return [str(line.get("exc_info", line.get("error"))) for line in lines if line["event"] == event]


async def test_journals_are_looked_for_again_after_whatever_failure(
    start_gateway: StartGateway, left_behind: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [OSError(errno.EMFILE, "Too many open files"), RuntimeError(NO_THREAD)] * 3

    def looked_for(directory: Path) -> list[Path]:
        if faults:
            raise faults.pop()
        return find_orphans(directory)

    monkeypatch.setattr("gateway.ingest.wiring.find_orphans", looked_for)
    with capture_logs() as lines:
        gateway = await start_gateway(RecordingStore(), journal_dir=str(tmp_path / "journal"))
        shutil.copytree(left_behind, tmp_path / "journal" / "7")
        await eventually(lambda: gateway.metric("recovered_items_total") == 1)
    told = events(lines, "scanning for orphaned journals failed")
    assert told == [NO_THREAD, NO_DESCRIPTORS]


async def test_journals_that_cannot_be_opened_now_are_opened_later(
    start_gateway: StartGateway, left_behind: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though this fails more often than as many are adopted at once."""
    made, faults = Journal.__init__, [OSError(errno.EMFILE, "Too many open files")] * 5
    gateway = await start_gateway(RecordingStore(), journal_dir=str(tmp_path / "journal"))

    def make(self: Journal, *arguments: object, **options: object) -> None:
        if faults:
            raise faults.pop()
        made(self, *arguments, **options)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(Journal, "__init__", make)
    with capture_logs():
        shutil.copytree(left_behind, tmp_path / "journal" / "7")
        await eventually(lambda: gateway.metric("recovered_items_total") == 1)


async def test_restarts_are_looked_for_again_after_whatever_failure(start_gateway: StartGateway) -> None:
    faults = [RuntimeError(NO_THREAD), StoreUnavailable("away"), RuntimeError(NO_THREAD), ValueError("what is this?")]
    asked = 0

    class Faulty(RecordingStore):
        async def query(
            self, sql: str, parameters: Mapping[str, object], **_limits: object
        ) -> list[tuple[object, ...]]:
            nonlocal asked
            del parameters
            if "uptime" not in sql:
                return []
            if faults:
                raise faults.pop(0)
            asked += 1
            return [("one", 1_000)]

    with capture_logs() as lines:
        await start_gateway(Faulty())
        await eventually(lambda: asked > 1)
    assert events(lines, "checking for a restart of clickhouse failed") == [NO_THREAD, "away", "what is this?"]
