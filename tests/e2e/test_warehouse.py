"""Sinks on the real product: what a data team finds in its object store, each row once."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from control.export.streams.schemas import ERROR_ESSENCES
from tests.e2e.conftest import Deploy
from tests.e2e.object_store import ObjectStore, object_store
from tests.e2e.product import Sluice, eventually
from tests.e2e.test_issues import raise_error, the_issue
from tests.e2e.test_webhooks import api

SINKS = "/warehouse/sinks"
STREAMS = ["ERROR_ESSENCES", "ISSUE_ROLLUPS", "RELEASE_HEALTH_ROLLUPS", "INGEST_OUTCOMES"]
RUN_FIELDS = {"runId", "stream", "status", "rows", "bytes", "objectKeys", "scrubTier", "error", "idle"}


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


def export(sluice: Sluice, sink_id: str, **body: int) -> dict[str, Any]:
    """The runs of an export by stream."""
    answer = api(sluice, "POST", f"{SINKS}/{sink_id}/export", body, 200)
    assert set(answer) == {"sinkId", "kind", "rows", "runs"}
    assert answer["rows"] == sum(run["rows"] for run in answer["runs"])
    for run in answer["runs"]:
        assert set(run) == RUN_FIELDS
        assert run["scrubTier"] == "stored"
    return {run["stream"]: run for run in answer["runs"]}


def rows_of(store: ObjectStore, stream: str, directory: Path) -> list[dict[str, Any]]:
    """All rows of a stream, as DuckDB reads them."""
    folder = directory / stream
    folder.mkdir(exist_ok=True)
    for number, key in enumerate(key for key in store.list_keys() if f"/{stream.lower()}/" in key):
        (folder / f"{number}.parquet").write_bytes(store.read(key))
    found = duckdb.read_parquet(f"{folder}/*.parquet")
    rows: list[dict[str, Any]] = found.to_arrow_table().to_pylist()
    assert len({row["row_id"] for row in rows}) == len(rows)
    return rows


@pytest.mark.parametrize(
    "deploy", ["embedded-sqlite", pytest.param("apart-postgresql", marks=pytest.mark.long)], indirect=True
)
def test_a_data_team_gets_every_row_once(deploy: Deploy, store: ObjectStore, tmp_path: Path) -> None:
    settings = {
        "SLUICE_CONTROL_EGRESS_ALLOW": "127.0.0.0/8",
        "SLUICE_CONTROL_EGRESS_HTTP": "true",
        "SLUICE_CONTROL_WAREHOUSE_INTERVAL_S": "0",
    }
    (tmp_path / "product").mkdir()
    sluice = deploy(tmp_path / "product", **settings)
    try:
        sink, other = _begin(sluice, store, tmp_path)
        _continue(sluice, store, sink, tmp_path)
        _end(sluice, store, sink, other)
    finally:
        sluice.stop()


def _serve(sluice: Sluice, release: str, milliseconds: list[int], *, failed: int, sessions: list[str | None]) -> int:
    """Requests of an application that took so long; the beginning of their hour, in seconds since 1970."""
    provider = TracerProvider(resource=Resource.create({"service.name": "checkout", "service.version": release}))
    headers = {"X-Legacy-Auth": f"Legacy legacy_key={sluice.key}"}
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{sluice.base_url}/v1/traces", headers=headers)))
    begun = (time.time_ns() // 10**9 - 7_200) // 3_600 * 3_600
    for number, (duration, session) in enumerate(zip(milliseconds, sessions, strict=True)):
        attributes = {} if session is None else {"session.id": session}
        start = (begun + number) * 10**9
        span = provider.get_tracer("checkout").start_span(
            "GET /", kind=SpanKind.SERVER, attributes=attributes, start_time=start
        )
        span.set_status(StatusCode.ERROR if number < failed else StatusCode.OK)
        span.end(start + duration * 10**6)
    provider.shutdown()
    return begun


def _begin(sluice: Sluice, store: ObjectStore, tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A sink whose streams have something, and one without config."""
    raise_error(sluice, "CardError", "1.0.0")
    eventually(lambda: the_issue(sluice, "CardError"), "the issue")

    empty = api(sluice, "POST", SINKS, {"name": "Later", "kind": "BLOBSTORE"})
    assert empty["configured"] is False
    assert "bucket" in empty["notConfiguredReason"]
    refused = export(sluice, empty["id"])
    assert {run["status"] for run in refused.values()} == {"NOT_CONFIGURED"}
    assert all(run["error"] and not run["idle"] and not run["objectKeys"] for run in refused.values())

    sink = api(sluice, "POST", SINKS, {"name": "Lake", "kind": "BLOBSTORE", "config": store.config(prefix="acme")})
    assert sink == {
        "id": sink["id"],
        "orgId": sink["orgId"],
        "name": "Lake",
        "kind": "BLOBSTORE",
        "enabled": True,
        "streams": STREAMS,
        "configured": True,
        "notConfiguredReason": None,
        "scrubTier": "stored",
        "createdByPrincipalId": sink["createdByPrincipalId"],
        "createdAt": sink["createdAt"],
    }
    assert api(sluice, "GET", SINKS, None, 200)["data"] == [empty, sink]

    runs: dict[str, Any] = {}

    def exported() -> bool:
        for stream, run in export(sluice, sink["id"]).items():
            assert (run["status"], run["error"]) == ("SUCCEEDED", None), run
            assert run["idle"] is (run["rows"] == 0)
            assert bool(run["objectKeys"]) is bool(run["rows"])
            if run["rows"]:
                runs.setdefault(stream, run)
        return set(runs) == set(STREAMS)

    eventually(exported, "every stream is exported")
    assert all(key.startswith(f"acme/{sink['id']}/") for key in store.list_keys())
    assert {key for run in runs.values() for key in run["objectKeys"]} <= set(store.list_keys())
    (error,) = rows_of(store, "ERROR_ESSENCES", tmp_path)
    assert (error["type"], error["message"], error["release"]) == ("CardError", "card declined", "1.0.0")
    issue = the_issue(sluice, "CardError")
    (rollup,) = rows_of(store, "ISSUE_ROLLUPS", tmp_path)
    assert (rollup["issue_id"], rollup["short_id"]) == (issue["id"], issue["shortId"])
    assert (rollup["status"], rollup["count"], rollup["fingerprint"]) == ("unresolved", 1, error["fingerprint"])
    health = rows_of(store, "RELEASE_HEALTH_ROLLUPS", tmp_path)
    last = max(health, key=lambda row: row["revision"])  # an hour in which something was stored meanwhile comes again
    assert {row["release"] for row in health} == {"1.0.0"}
    assert (last["new_issues"], last["p50_ms"]) == (1, None)
    outcomes = rows_of(store, "INGEST_OUTCOMES", tmp_path)
    assert sum(row["items"] for row in outcomes if row["outcome"] == "accepted") == 1
    return sink, empty


def _continue(sluice: Sluice, store: ObjectStore, sink: dict[str, Any], tmp_path: Path) -> None:
    """Nothing comes twice, and what is new comes."""
    idle = export(sluice, sink["id"])
    assert all(run["idle"] and run["rows"] == 0 and run["objectKeys"] == [] for run in idle.values())
    raise_error(sluice, "CardError", "1.0.1")
    eventually(lambda: the_issue(sluice, "CardError")["count"] == 2, "the second occurrence")
    hour = _serve(sluice, "1.0.0", [10, 20, 30, 40], failed=1, sessions=["a", "a", "b", None])

    def both() -> bool:
        export(sluice, sink["id"])
        errors, rollups = rows_of(store, "ERROR_ESSENCES", tmp_path), rows_of(store, "ISSUE_ROLLUPS", tmp_path)
        return len(errors) == 2 and max(row["count"] for row in rollups) == 2

    eventually(both, "the second error is exported")

    def health_of_hour() -> dict[str, Any] | None:
        export(sluice, sink["id"])
        rows = rows_of(store, "RELEASE_HEALTH_ROLLUPS", tmp_path)
        of_hour = [row for row in rows if row["release"] == "1.0.0" and row["hour"].timestamp() == hour]
        newest = max(of_hour, key=lambda row: row["revision"], default=None)
        return newest if newest is not None and newest["requests"] == 4 else None  # each is an export of its own

    served = eventually(health_of_hour, "the requests are exported")
    assert served is not None
    assert (served["failed"], served["sessions"]) == (1, 2)
    assert [served[f"p{level}_ms"] for level in (50, 95, 99)] == [20.0, 40.0, 40.0]

    status = api(sluice, "GET", f"{SINKS}/{sink['id']}/status", None, 200)
    assert status["sink"] == sink
    by_stream = {one["stream"]: one for one in status["checkpoints"]}
    assert set(by_stream) == set(STREAMS)
    assert by_stream["ERROR_ESSENCES"]["rowsExported"] == 2
    assert all(one["cursorAt"] and one["cursorId"] and one["lastRunAt"] for one in by_stream.values())
    assert all(run["finishedAt"] and run["scrubTier"] == "stored" for run in status["runs"])
    assert "tests" not in str(status["runs"])


def _end(sluice: Sluice, store: ObjectStore, sink: dict[str, Any], empty: dict[str, Any]) -> None:
    """Sinks that do not export, and sinks that are gone."""
    changed = api(sluice, "PATCH", f"{SINKS}/{sink['id']}", {"enabled": False, "streams": ["INGEST_OUTCOMES"]}, 200)
    assert (changed["enabled"], changed["streams"]) == (False, ["INGEST_OUTCOMES"])
    api(sluice, "POST", f"{SINKS}/{sink['id']}/export", {}, 409)
    wrong = api(sluice, "PUT", f"{SINKS}/{empty['id']}/config", {"config": {"bucket": 7}}, 400)
    assert wrong["error"]["details"][0]["path"] == "body.config.bucket"
    nowhere = store.config() | {"bucket": "nowhere", "endpoint": store.url}
    assert api(sluice, "PUT", f"{SINKS}/{empty['id']}/config", {"config": nowhere}, 200)["configured"] is True
    failed = export(sluice, empty["id"], maxBatchesPerStream=1)
    assert {run["status"] for run in failed.values()} == {"FAILED"}
    assert failed["ERROR_ESSENCES"]["error"] == "The bucket or container does not exist."
    assert api(sluice, "DELETE", f"{SINKS}/{empty['id']}", None, 200) == {"deleted": True}
    api(sluice, "DELETE", f"{SINKS}/{empty['id']}", None, 404)
    published = api(sluice, "GET", "/warehouse/streams", None, 200)["data"]
    assert {one["stream"]: [column["name"] for column in one["columns"]] for one in published}["ERROR_ESSENCES"] == [
        column.name for column in ERROR_ESSENCES.columns
    ]
