"""Errors that SDKs send become issues with a life, on the real product."""

import json
import os
import random
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from proto.storage.tables import ERROR_OCCURRENCES
from tests.e2e.conftest import Deploy
from tests.e2e.product import APART, Service, Sluice, call, eventually, run
from tests.e2e.reading import settled
from tests.engine.process import PASSWORD, USER
from tests.selection import scaled

ERRORS = 7
RELEASES = ("", "1.0.0", "1.0.1")


def test_an_error_is_seen_resolved_deployed_and_comes_back(sluice: Sluice) -> None:
    kind, number = f"Declined{time.time_ns()}", int(time.time())
    old, new = f"{number}.4.1", f"{number}.4.2"  # which no other test of this deployment has
    channel = subscribed(sluice)
    raise_error(sluice, kind, old)
    issue = eventually(lambda: the_issue(sluice, kind), "the issue")
    assert (issue["status"], issue["count"], issue["firstRelease"]) == ("unresolved", 1, old)
    assert issue["title"] == f"{kind}: card declined"
    assert issue["culprit"].endswith("e2e/test_issues.py:raise_error")
    (error,) = sluice.explore(f"/errors?filters=type:{kind}")["data"]
    assert error["issue"] == {name: issue[name] for name in ("id", "shortId", "status")}

    path = f"/orgs/{sluice.org}/projects/{sluice.project}/issues/{issue['id']}"
    report = {"version": new, "projects": [sluice.project]}
    fix = {"sha": "c0ffee" * 6 + "abcd", "message": f"Retry the charge\n\nFixes {issue['shortId']}"}
    commits = [{**fix, "files": ["tests/e2e/test_issues.py"], "authorName": "Ada"}]
    status, answer = asked(
        sluice, "POST", f"/orgs/{sluice.org}/releases", {**report, "repository": "x/y", "commits": commits}
    )
    assert (status, answer["issuesResolved"]) == (201, [issue["shortId"]])
    status, resolved = asked(sluice, "GET", path)
    assert (resolved["status"], resolved["resolvedInRelease"]) == ("resolved", new)

    raise_error(sluice, kind, old)  # an instance that still runs the old release
    eventually(lambda: asked(sluice, "GET", path)[1]["count"] == 2, "counted")
    assert asked(sluice, "GET", path)[1]["status"] == "resolved"
    raise_error(sluice, kind, new)
    again = eventually(
        lambda: asked(sluice, "GET", path)[1]["regressedAt"] and asked(sluice, "GET", path)[1], "regression"
    )
    assert (again["status"], again["count"], again["lastRelease"]) == ("unresolved", 3, new)
    _, activity = asked(sluice, "GET", f"{path}/activity")
    assert [one["kind"] for one in activity["data"]][-1] == "created"
    assert {"regressed", "resolved"} <= {one["kind"] for one in activity["data"]}
    _, sent = asked(sluice, "GET", f"/orgs/{sluice.org}/deliveries?channelId={channel}")
    assert [one["type"] for one in sent["data"] if one["subject"] == issue["id"]] == ["issue.regression", "issue.new"]
    _, suspects = asked(sluice, "GET", f"{path}/suspects")
    assert suspects["firstBadRelease"] == old


@pytest.mark.sized
@pytest.mark.parametrize(
    "deploy",
    ["embedded-sqlite", *(pytest.param(name, marks=pytest.mark.long) for name in ("apart-postgresql", "apart-sqlite"))],
    indirect=True,
)
def test_each_occurrence_counts_once_though_processes_are_killed(deploy: Deploy, tmp_path: Path) -> None:
    """Apart there are two control processes; whatever is killed, what is stored is counted once."""
    sluice = deploy(tmp_path)
    chance = random.Random(7)
    try:
        if "control" in sluice.services:
            other = sluice.services["control"]
            second = Service("control", tmp_path / "control-2", tmp_path / "control-2.log", other.environment)
            second.start()
            sluice.services["control-2"] = second
        over = threading.Event()
        sender = threading.Thread(target=send_errors, args=(sluice, over))
        sender.start()
        for _ in range(scaled(2, 50)):
            time.sleep(chance.uniform(0.2, 1.5))
            names = [name for name in sluice.services if name != APART[1]]
            sluice.services[chance.choice(names)].kill()
            sluice.start()
        over.set()
        sender.join()
        settled(sluice)
        stored = stored_counts(sluice)
        assert len(stored) == ERRORS
        eventually(lambda: counted(sluice) == stored, f"issues that count {stored}", 30)
        sluice.stop()
    finally:
        sluice.kill()


@pytest.mark.long
@pytest.mark.parametrize("deploy", ["apart-sqlite"], indirect=True)
def test_a_repair_beside_the_follower_counts_each_occurrence_once(deploy: Deploy, tmp_path: Path) -> None:
    """Blocks that were lost before and after they were counted come back, second copies go."""
    sluice, chance = deploy(tmp_path), random.Random(11)
    sender_is_over = threading.Event()
    try:
        for _ in range(40):
            assert sluice.export("traces", errors(chance)).status == 200
            time.sleep(0.02)  # several batches
        settled(sluice)
        eventually(lambda: counted(sluice) == stored_counts(sluice), "counted", 30)
        sluice.services["control"].stop()
        for _ in range(40):
            assert sluice.export("traces", errors(chance)).status == 200
            time.sleep(0.02)
        settled(sluice)
        whole = stored_counts(sluice)
        told(sluice, "DELETE FROM error_occurrences WHERE batch_id % 2 = 0 SETTINGS mutations_sync = 2")
        columns = ", ".join(ERROR_OCCURRENCES.column_names)
        copies = f"SELECT {columns} FROM error_occurrences WHERE batch_id % 4 = 1"
        told(sluice, f"INSERT INTO error_occurrences ({columns}) {copies}")
        broken = stored_counts(sluice)
        assert sum(broken.values()) < sum(whole.values())
        sluice.start()
        days = datetime.now(UTC).date() - timedelta(days=1), datetime.now(UTC).date()
        sender = threading.Thread(target=send_errors, args=(sluice, sender_is_over, 3))
        sender.start()  # errors of another day than those of the repair
        run(
            "repair",
            *("--from", str(days[0]), "--to", str(days[1]), "--data", str(tmp_path / "operator")),
            environment=sluice.services["control"].environment,
        )
        sender_is_over.set()
        sender.join()
        settled(sluice)
        assert stored_counts(sluice) == whole
        recent = stored_counts(sluice, hours=120)
        eventually(lambda: counted(sluice) == recent, f"issues that count {recent}", 60)
        sluice.stop()
    finally:
        sender_is_over.set()
        sluice.kill()


def told(sluice: Sluice, statement: str) -> None:
    """The ClickHouse server of the deployment has executed a statement."""
    url = urlsplit(sluice.services["control"].environment["SLUICE_CLICKHOUSE_URL"])
    address = f"http://{url.hostname}:{url.port}/?database={url.path.strip('/')}"
    answer = call("POST", address, statement.encode(), {"X-ClickHouse-User": USER, "X-ClickHouse-Key": PASSWORD})
    assert answer.status == 200, answer.body


def subscribed(sluice: Sluice) -> str:
    """Id of a channel that hears of issues. It may not post to its URL; its deliveries are listed all the same."""
    base = f"/orgs/{sluice.org}/projects/{sluice.project}/notification-channels"
    config = {"url": "https://hooks.example.org/x", "secret": "whsec_" + "c2VjcmV0" * 5 + "c2U="}
    status, channel = asked(sluice, "POST", base, {"kind": "webhook", "name": "x", "config": config})
    assert status == 201, channel
    events = {"events": ["issue.new", "issue.regression"]}
    assert asked(sluice, "PUT", f"{base}/{channel['id']}/subscriptions", events)[0] == 200
    return str(channel["id"])


def raise_error(sluice: Sluice, kind: str, release: str) -> None:
    """An application of this release raises and records an error."""
    resource = Resource.create({"service.name": "checkout", "service.version": release})
    provider = TracerProvider(resource=resource)
    headers = {"X-Legacy-Auth": f"Legacy legacy_key={sluice.key}"}
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{sluice.base_url}/v1/traces", headers=headers)))
    try:
        with provider.get_tracer("checkout").start_as_current_span("charge"):
            raise type(kind, (Exception,), {"__module__": "builtins"})("card declined")
    except Exception:  # noqa: BLE001 (it was made above)
        provider.shutdown()


def the_issue(sluice: Sluice, kind: str) -> Any:
    _, page = asked(sluice, "GET", f"/orgs/{sluice.org}/projects/{sluice.project}/issues?query={kind}")
    return page["data"][0] if page["data"] else None


def asked(sluice: Sluice, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Status and JSON of a request of the owner."""
    headers = {"Authorization": f"Bearer {sluice.token}", "Content-Type": "application/json"}
    raw = None if body is None else json.dumps(body).encode()
    answer = call(method, sluice.url_of(path) + path, raw, headers)
    return answer.status, answer.json() if answer.body else None


def send_errors(sluice: Sluice, over: threading.Event, days_ago: int = 0) -> None:
    """Export errors until it is over, whether they are taken or not."""
    chance = random.Random(3)
    while not over.is_set():
        try:
            sluice.export("traces", errors(chance, days_ago))
            time.sleep(0.01)
        except OSError:
            time.sleep(0.05)


def errors(chance: random.Random, days_ago: int = 0) -> bytes:
    """An export with errors, some of which happened a day earlier."""
    request = ExportTraceServiceRequest()
    for _ in range(3):
        scope = request.resource_spans.add()
        release = chance.choice(RELEASES)
        if release:
            attribute = scope.resource.attributes.add(key="service.version")
            attribute.value.string_value = release
        spans = scope.scope_spans.add().spans
        for _ in range(5):
            at = time.time_ns() - 86_400 * 10**9 * (days_ago + chance.choice((0, 0, 0, 1)))
            span = spans.add(trace_id=os.urandom(16), span_id=os.urandom(8), name="x")
            span.start_time_unix_nano, span.end_time_unix_nano = at, at + 1
            event = span.events.add(name="exception", time_unix_nano=at)
            event.attributes.add(
                key="exception.type"
            ).value.string_value = f"Error{'ABCDEFG'[chance.randrange(ERRORS)]}"
    return request.SerializeToString()


def stored_counts(sluice: Sluice, hours: int = 48) -> dict[str, int]:
    """Stored occurrences of the last hours by fingerprint."""
    return {one["fingerprint"]: one["count"] for one in sluice.explore(f"/errors?hours={hours}&limit=100")["data"]}


def counted(sluice: Sluice) -> dict[str, int]:
    """Those that issues count."""
    _, page = asked(sluice, "GET", f"/orgs/{sluice.org}/projects/{sluice.project}/issues?limit=100")
    return {one["fingerprint"]: one["count"] for one in page["data"]}
