"""A gateway in the mode `journal`, and its journal after a crash."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.ingest.wiring import TelemetryStore
from tests.gateway.conftest import Gateway, StartGateway
from tests.gateway.ingest.rig import Start


@pytest.fixture(autouse=True)
def soon_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop does not wait for a store that is away."""
    monkeypatch.setattr("gateway.ingest.journaled.DRAIN_S", 0.5)
    monkeypatch.setattr("gateway.ingest.wiring.DRAIN_DERIVED_S", 0.1)
    monkeypatch.setattr("gateway.ingest.wiring.DRAIN_RETRY_QUEUE_S", 0.1)


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is tried again at once."""
    monkeypatch.setattr("gateway.inserts.retries.CONFIRM_S", 0.01)
    monkeypatch.setattr("gateway.inserts.retries.PAUSE_S", 0.05)
    monkeypatch.setattr("gateway.inserts.pending_requests.RETRY_S", 0.05)
    monkeypatch.setattr("gateway.ingest.recovery.RETRY_S", 0.05)
    monkeypatch.setattr("gateway.inserts.retries.RECORD_RETRY_S", 0.01)
    monkeypatch.setattr("gateway.inserts.store_state.OUTAGE_S", 0.0)


@pytest.fixture
def start(start_gateway: StartGateway, tmp_path: Path) -> Start:
    """A gateway in mode `journal` over a store; the journal is below `place`."""

    async def start(store: TelemetryStore, place: str = "journal", **options: Any) -> Gateway:
        directory = str(tmp_path / place)
        return await start_gateway(
            store, **{"durability": "journal", "journal_dir": directory, "journal_linger_s": 0.0, **options}
        )

    return start


@pytest.fixture
def crash(tmp_path: Path) -> Callable[[str], str]:
    """The journal as it is on disk now, under another name."""

    def crash(name: str) -> str:
        shutil.copytree(tmp_path / "journal", tmp_path / name)
        return name

    return crash
