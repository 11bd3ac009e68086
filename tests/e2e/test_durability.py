"""What is acknowledged survives the end of the process, however it ends."""

import os
import time
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.e2e.conftest import Deploy
from tests.e2e.product import Sluice
from tests.e2e.reading import arrived
from tests.selection import scaled

DEFAULT = dict[str, str]()
STORE = {"SLUICE_DURABILITY": "store"}


def one_span() -> tuple[str, bytes]:
    trace_id = os.urandom(16)
    request = ExportTraceServiceRequest()
    now = time.time_ns()
    request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=trace_id, span_id=os.urandom(8), name="kept", start_time_unix_nano=now - 10**9, end_time_unix_nano=now
    )
    return trace_id.hex(), request.SerializeToString()


# The relational store has no part in it.
@pytest.mark.sized
@pytest.mark.parametrize(
    "deploy", ["embedded-sqlite", pytest.param("apart-sqlite", marks=pytest.mark.long)], indirect=True
)
def test_acknowledged_spans_are_there_once_after_a_kill(deploy: Deploy, tmp_path: Path) -> None:
    """In either mode, and whichever mode starts next: first what was taken under the default, then what was stored."""
    traces = []
    sluice = deploy(tmp_path)
    usual = sluice.writer.environment
    try:
        for mode, next_mode in ((DEFAULT, STORE), (STORE, DEFAULT), *scaled((), ((DEFAULT, DEFAULT),))):
            acknowledged = [exported(sluice) for _ in range(5)]
            sluice.writer.kill()
            sluice.writer.environment = {**usual, **next_mode}
            sluice.start()  # what was killed
            if mode == STORE:
                there_once(sluice, acknowledged)
            traces += acknowledged
        arrived(sluice, "/spans?hours=1", len(traces))
        there_once(sluice, traces)
        sluice.stop()
    finally:
        sluice.kill()


def exported(sluice: Sluice) -> str:
    """The trace of a span that was acknowledged."""
    trace_id, body = one_span()
    assert sluice.export("traces", body).status == 200
    return trace_id


def there_once(sluice: Sluice, traces: list[str]) -> None:
    for trace_id in traces:
        assert [span["traceId"] for span in sluice.explore(f"/spans?traceId={trace_id}")["data"]] == [trace_id]
        assert sluice.explore(f"/traces/{trace_id}/waterfall")["spanCount"] == 1
