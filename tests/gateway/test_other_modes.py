"""A journal that the mode `journal` left is stored by a gateway in another mode as well: it is acknowledged."""

from pathlib import Path
from typing import Any

import pytest

from chassis.clickhouse import StoreUnavailable
from tests.gateway.conftest import RecordingStore, StartGateway, eventually
from tests.gateway.otlp import span, traces


@pytest.mark.parametrize("mode", ["store", "memory"])
async def test_a_change_of_the_mode_leaves_nothing_behind(
    start_gateway: StartGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    for name in ("SCAN_INTERVAL_S", "POLL_INTERVAL_S"):
        monkeypatch.setattr(f"gateway.ingest.orphans.{name}", 0.05)
    monkeypatch.setattr("gateway.ingest.journaled.DRAIN_S", 0.1)
    options: dict[str, Any] = {"journal_dir": str(tmp_path / "journal"), "journal_linger_s": 0.0, "journal_hold_s": 0.0}
    first = await start_gateway(RecordingStore(away=StoreUnavailable("away")), durability="journal", **options)
    for number in (1, 2, 3):
        assert (await first.post("/v1/traces", traces(span(number)))).status == 200
    await first.stop()

    store = RecordingStore()
    second = await start_gateway(store, durability=mode, **options)
    await eventually(lambda: second.metric("stored_items_total") == 3)
    assert second.metric("recovered_items_total") == 3
    await eventually(lambda: not (tmp_path / "journal" / "0").exists())
    assert (await second.post("/v1/traces", traces(span(4)))).status == 200
    await eventually(lambda: second.metric("stored_items_total") == 4)
    assert not [path.name for path in (tmp_path / "journal").glob("[0-9]*")]
