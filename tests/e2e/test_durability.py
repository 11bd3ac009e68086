"""What is acknowledged survives the end of the process, however it ends."""

import os
import time
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.e2e.conftest import Deploy
from tests.e2e.reading import arrived

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
@pytest.mark.parametrize("deploy", ["embedded-sqlite", "apart-sqlite"], indirect=True)
@pytest.mark.parametrize("settings", [{}, STORE], ids=["default", "store"])
def test_acknowledged_spans_are_there_once_after_a_kill(
    deploy: Deploy, settings: dict[str, str], tmp_path: Path
) -> None:
    acknowledged = []
    sluice = deploy(tmp_path, **settings)
    try:
        for _ in range(3):
            sluice.start()  # what was killed
            for _ in range(5):
                trace_id, body = one_span()
                assert sluice.export("traces", body).status == 200
                acknowledged.append(trace_id)
            sluice.writer.kill()

        sluice.start()
        if settings != STORE:
            arrived(sluice, "/spans?hours=1", len(acknowledged))
        for trace_id in acknowledged:
            assert [span["traceId"] for span in sluice.explore(f"/spans?traceId={trace_id}")["data"]] == [trace_id]
            assert sluice.explore(f"/traces/{trace_id}/waterfall")["spanCount"] == 1
        sluice.stop()
    finally:
        sluice.kill()
