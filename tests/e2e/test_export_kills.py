"""SIGKILL of the product while it exports, and a store that fails at every step: each stored row is in it once."""

import http.client
import io
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.e2e.conftest import Deploy
from tests.e2e.product import Service, Sluice, eventually
from tests.e2e.test_webhooks import api
from tests.selection import scaled

SINKS = "/warehouse/sinks"
ERRORS = 15  # of a request
STREAMS = ["ERROR_ESSENCES", "INGEST_OUTCOMES"]


class FaultyStore(ThreadingHTTPServer):
    """A bucket with conditional puts. `faults`: the chance that a request is answered 503 or cut, before or after it
    takes effect, or late.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, tuple[str, bytes]] = {}
        self.faults = 0.0
        self.chance = random.Random(11)
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_: Any) -> None:
        """A client that was killed has closed its connection."""

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """What the objects of a stream have."""
        bodies = [body for key, (_, body) in self.objects.items() if f"/{stream.lower()}/" in key]
        return [row for body in bodies for row in pq.read_table(io.BytesIO(body)).to_pylist()]


class _Handler(BaseHTTPRequestHandler):
    server: FaultyStore
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["If-None-Match"] == "*"
        if self._fails():
            return
        with self.server.lock:
            is_new = self.path not in self.server.objects
            if is_new:
                self.server.objects[self.path] = self.headers["x-amz-meta-row-digest"], body
        if not self._fails():
            self._answer(200 if is_new else 412)

    def do_HEAD(self) -> None:
        if self._fails():
            return
        digest, body = self.server.objects[self.path]
        self._answer(200, len(body), digest)

    def _fails(self) -> bool:
        chance, fault = self.server.chance, self.server.chance.random()
        if fault < self.server.faults / 3:
            self._answer(503)
        elif fault < self.server.faults * 2 / 3:
            self.close_connection = True
        elif fault < self.server.faults:
            time.sleep(chance.uniform(0, 0.5))
            return False
        return fault < self.server.faults * 2 / 3

    def _answer(self, status: int, size: int = 0, digest: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(size))
        self.send_header("x-amz-meta-row-digest", digest)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def store() -> Iterator[FaultyStore]:
    server = FaultyStore()
    yield server
    server.shutdown()
    server.server_close()


def send_errors(sluice: Sluice, first: int) -> None:
    """An acknowledged request with errors, whose messages are numbers."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(first, first + ERRORS):
        span = scope.spans.add(name="charge", trace_id=number.to_bytes(16), span_id=number.to_bytes(8))
        span.start_time_unix_nano = span.end_time_unix_nano = time.time_ns()
        event = span.events.add(name="exception", time_unix_nano=time.time_ns())
        for key, value in (("exception.type", "CardError"), ("exception.message", f"number {number}")):
            event.attributes.add(key=key).value.string_value = value
    assert sluice.export("traces", request.SerializeToString()).status == 200


def export(sluice: Sluice, sink_id: str) -> list[dict[str, Any]]:
    """The runs of an export; none if the process was killed meanwhile."""
    with suppress(OSError, http.client.HTTPException):
        runs: list[dict[str, Any]] = api(sluice, "POST", f"{SINKS}/{sink_id}/export", {}, 200)["runs"]
        return runs
    return []


@pytest.mark.sized
@pytest.mark.parametrize(
    "deploy", ["embedded-sqlite", pytest.param("apart-sqlite", marks=pytest.mark.long)], indirect=True
)
def test_every_stored_row_is_exported_once(deploy: Deploy, store: FaultyStore, tmp_path: Path) -> None:
    settings = {
        "SLUICE_CONTROL_EGRESS_ALLOW": "127.0.0.0/8",
        "SLUICE_CONTROL_EGRESS_HTTP": "true",
        "SLUICE_CONTROL_WAREHOUSE_INTERVAL_S": "0",
    }
    (tmp_path / "product").mkdir()
    sluice = deploy(tmp_path / "product", **settings)
    exporter = sluice.services.get("control") or sluice.services["up"]
    chance, sent, interrupted = random.Random(20), 0, 0
    try:
        config = {"endpoint": f"http://127.0.0.1:{store.server_port}", "bucket": "b", "region": "r", "pathStyle": True}
        config |= {"accessKeyId": "tests", "secretAccessKey": "tests"}
        body = {"name": "Lake", "kind": "BLOBSTORE", "streams": STREAMS, "config": config}
        sink_id = api(sluice, "POST", SINKS, body)["id"]
        for _ in range(scaled(3, 300)):
            for _ in range(chance.randrange(1, 4)):
                send_errors(sluice, sent + 1)
                sent += ERRORS
            time.sleep(chance.uniform(0, 1))  # what was sent is stored, or just being stored
            store.faults = chance.choice((0.0, 0.5))
            runs: list[dict[str, Any]] = []
            exporting = threading.Thread(target=lambda into: into.extend(export(sluice, sink_id)), args=(runs,))
            exporting.start()
            exporting.join(chance.uniform(0, 0.3))
            exporter.kill()
            exporting.join()
            interrupted += not runs
            start_again(exporter, tmp_path)
        store.faults = 0.0

        def is_exported() -> bool:
            runs = export(sluice, sink_id)
            assert {run["status"] for run in runs} == {"SUCCEEDED"}, runs
            return all(run["idle"] for run in runs) and len(store.rows("ERROR_ESSENCES")) >= sent

        eventually(is_exported, "everything is exported", 60)
        sluice.stop()
    finally:
        sluice.kill()
    errors = store.rows("ERROR_ESSENCES")
    assert Counter(row["message"] for row in errors) == Counter(f"number {number}" for number in range(1, sent + 1))
    for stream in STREAMS:
        ids = Counter(row["row_id"] for row in store.rows(stream))
        assert set(ids.values()) == {1}
    accepted = [row["items"] for row in store.rows("INGEST_OUTCOMES") if row["outcome"] == "accepted"]
    assert sum(accepted) == sent
    assert interrupted


def start_again(exporter: Service, directory: Path) -> None:
    """Start what was killed; its lease would hold for a minute."""
    (file,) = [path for name in ("sluice.db", "shared.db") for path in directory.rglob(name)]
    with closing(sqlite3.connect(file, timeout=30)) as connection:
        connection.execute("UPDATE warehouse_sinks SET lease_until = NULL")
        connection.commit()
    exporter.start()
