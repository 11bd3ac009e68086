"""Erasing by filter over HTTP: what is stored, who may, and the bounds."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from chassis.db.database import Database
from chassis.erasures import repository
from chassis.erasures.repository import StoredErasure
from control.export import store
from control.export.model import Intent, Stream
from control.settings import ControlSettings
from proto.identity import PrincipalKind, Role
from tests.chassis.auth.tenants import Tenant
from tests.control.approvals.office import new_machine
from tests.control.conftest import Control, serving
from tests.control.governance.erasures.conftest import erase_telemetry

ERASURES: Final = "/orgs/acme/erasures"
WEB: Final = "/orgs/acme/projects/web/erasures"
BODY: Final[dict[str, Any]] = {"filters": [{"key": "user.id", "op": "eq", "value": "4711"}]}


async def stored(database: Database, erasure_id: str) -> StoredErasure:
    async with database.read() as connection:
        return await repository.get(connection, erasure_id)


@pytest.mark.both_stores
async def test_an_erasure_is_stored_and_shown_without_its_values(control: Control) -> None:
    filters = [
        {"key": "user.email", "op": "eq", "value": "mallory@example.com"},
        {"key": "attr:tags", "op": "in", "value": ["a", "b,c"]},
        {"key": "has", "op": "exists"},
        {"key": "durationMs", "op": "gt", "value": 100},
    ]
    body = {"filters": filters, "from": "2026-11-20T15:17:03.123456789+01:00", "to": "2026-11-21T00:00:00Z"}
    status, erasure, headers = await control.call("POST", WEB, body | {"dryRun": True})
    assert status == 202
    assert erasure | {"id": "", "requestedAt": ""} == {
        "id": "",
        "kind": "filter",
        "state": "PENDING",
        "projectId": str(control.acme.project.id),
        "projectSlug": "web",
        "dryRun": True,
        "filterCount": 4,
        "from": "2026-11-20T14:17:03.123456789Z",
        "to": "2026-11-21T00:00:00.000000000Z",
        "rows": {},
        "message": None,
        "requestedByPrincipalId": control.acme.owner_id,
        "requestedAt": "",
        "completedAt": None,
    }
    assert (await control.call("GET", headers["Location"]))[:2] == (200, erasure | {"exports": []})
    found = await stored(control.checks.database, erasure["id"])
    assert found.filters == [
        {"key": "user.email", "op": "eq", "value": "mallory@example.com"},
        {"key": "attr:tags", "op": "in", "value": ["a", "b,c"]},
        {"key": "has", "op": "exists", "value": None},
        {"key": "durationMs", "op": "gt", "value": "100"},
    ]
    assert (found.from_ns, found.to_ns) == (1_795_184_223_123_456_789, 1_795_219_200_000_000_000)
    async with control.client.get(
        "/orgs/acme/audit", headers={"Authorization": f"Bearer {control.acme.token.secret}"}
    ) as answer:
        text = await answer.text()
    assert '"action":"erasure.create"' in text
    assert '"filters":4' in text
    assert "mallory" not in text
    assert await erase_telemetry(control.checks.database) == 1
    _, shown, _ = await control.call("GET", headers["Location"])
    assert (shown["state"], shown["rows"]) == ("COMPLETED", {"spans": 1})
    async with control.checks.database.write() as connection:
        assert await repository.expire_filters(connection, datetime.max.replace(tzinfo=UTC), found.requested_at) == 1
    _, expired, _ = await control.call("GET", headers["Location"])
    assert (expired["filterCount"], expired["from"], expired["rows"]) == (None, None, {"spans": 1})


INVALID_BODIES: list[tuple[object, list[tuple[str, str]]]] = [
    ({}, [("body", "missing")]),
    ({"filters": [], "dryRun": True}, [("body", "missing")]),
    ({"filters": "user.id:1"}, [("body.filters", "type")]),
    ({"filters": [{"key": "a"}]}, [("body.filters[0].op", "missing")]),
    ({"filters": [{"key": "a", "op": "like", "value": "x"}]}, [("body.filters[0].op", "not_allowed")]),
    ({"filters": [{"key": "a", "op": "eq"}]}, [("body.filters[0].value", "missing")]),
    ({"filters": [{"key": "a" * 257, "op": "exists"}]}, [("body.filters[0].key", "length")]),
    ({"filters": [{"key": "a", "op": "eq", "value": "x" * 1_025}]}, [("body.filters[0].value", "too_long")]),
    ({"filters": [{"key": "a", "op": "exists"}] * 21}, [("body.filters", "too_many")]),
    ({"filters": [{"key": "durationMs", "op": "gt", "value": "x"}]}, [("body.filters[0].value", "type")]),
    ({"filters": [{"key": "severityNumber", "op": "gt", "value": "x"}]}, [("body.filters[0].value", "type")]),
    ({"filters": [{"key": "statusCode", "op": "eq", "value": "FINE"}]}, [("body.filters[0].value", "not_allowed")]),
    ({"from": "yesterday"}, [("body.from", "format")]),
    ({"from": "2026-11-20T15:17:03"}, [("body.from", "format")]),
    (
        {"from": "1969-12-31T23:59:59Z", "to": "2263-01-01T00:00:00Z"},
        [("body.from", "format"), ("body.to", "format")],
    ),
    ({"from": "2026-11-20T00:00:00Z", "to": "2026-11-20T00:00:00Z"}, [("body.from", "range")]),
    ({"to": "2026-13-20T00:00:00Z", "x": 1}, [("body.x", "unknown_field"), ("body.to", "format")]),
    ([], [("body", "type")]),
]


async def test_invalid_bodies_name_every_field(control: Control) -> None:
    wrong = []
    for body, issues in INVALID_BODIES:
        status, answer, _ = await control.call("POST", WEB, body)
        error = answer.get("error", {})
        named = [(one["path"], one["code"]) for one in error.get("details", ())]
        if (status, error.get("code"), named) != (400, "bad_request", issues):
            wrong.append((body, status, answer))
    assert wrong == []
    data = b'{"filters": [{"key": "a", "op": "eq", "value": "\\ud800"}]}'
    assert (await control.call("POST", WEB, data=data, headers={"Content-Type": "application/json"}))[0] == 400
    for body in (BODY, {"from": "2026-01-01T00:00:00Z"}):  # what comes after the request stays
        _, erasure, _ = await control.call("POST", WEB, body)
        assert erasure["to"] == erasure["requestedAt"].replace("Z", "000000Z")
    status, refusal, _ = await control.call("POST", WEB, {"from": "2200-01-01T00:00:00Z"})
    assert (status, refusal["error"]["details"][0]["code"]) == (400, "range")


async def test_without_the_query_service_filters_are_501(
    migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path, control_settings: ControlSettings
) -> None:
    async with serving(migrated_url, tmp_path, control_settings, tenants=tenants) as control:
        status, refusal, _ = await control.call("POST", WEB, BODY)
        assert (status, refusal["error"]["code"]) == (501, "not_implemented")
        assert (await control.call("POST", WEB, {"to": "2026-11-20T00:00:00Z"}))[0] == 202


async def test_an_organization_has_few_open_erasures(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.governance.erasures.api.MAX_OPEN", 4)
    await control.call("POST", "/orgs/acme/projects", {"slug": "other", "name": "x"})
    for number in range(4):
        path = WEB if number % 2 else WEB.replace("web", "other")
        assert (await control.call("POST", path, BODY | {"dryRun": number % 3 == 0}))[0] == 202
    status, refusal, _ = await control.call("POST", WEB, BODY)
    assert (status, refusal["error"]["code"]) == (409, "conflict")
    path = "/orgs/globex/projects/web/erasures"
    assert (await control.call("POST", path, BODY, control.globex.token.secret))[0] == 202
    assert (await control.call("DELETE", "/orgs/acme/projects/web"))[0] == 202
    await erase_telemetry(control.checks.database)
    assert (await control.call("POST", WEB.replace("web", "other"), BODY))[0] == 202


@pytest.mark.both_stores
async def test_agents_read_and_only_users_erase(control: Control) -> None:
    _, erasure, _ = await control.call("POST", WEB, BODY)
    owner_id = control.acme.owner_id
    machine = await new_machine(control.checks.database, control.acme, owner_id, PrincipalKind.AGENT, Role.ADMIN)
    assert (await control.call("POST", WEB, b"not even JSON", machine.token))[0] == 403
    assert (await control.call("GET", f"{ERASURES}/{erasure['id']}", token=machine.token))[0] == 200


async def test_what_left_by_export_is_listed(control: Control) -> None:
    """Of the sinks that exported something before the erasure was complete."""
    body = {"name": "Lake", "kind": "BLOBSTORE", "streams": ["ERROR_ESSENCES", "ISSUE_ROLLUPS"]}
    status, sink, _ = await control.call("POST", "/orgs/acme/warehouse/sinks", body)
    assert status == 201
    now = datetime(2026, 11, 20, 15, 17, 3, tzinfo=UTC)
    database, org_id = control.checks.database, control.acme.organization.id
    async with database.write() as connection:
        for stream in (Stream.ERROR_ESSENCES, Stream.ISSUE_ROLLUPS):
            checkpoint = await store.load_checkpoint(connection, sink["id"], org_id, stream)
            intent = Intent("key", b"1", now, "1", ())
            rows = 3 if stream is Stream.ERROR_ESSENCES else 0
            await store.store_exported(connection, checkpoint, intent, rows, now)
    _, _, headers = await control.call("POST", WEB, BODY)
    exports = (await control.call("GET", headers["Location"]))[1]["exports"]
    assert exports == [
        {
            "sinkId": sink["id"],
            "sinkName": "Lake",
            "sinkKind": "BLOBSTORE",
            "stream": "ERROR_ESSENCES",
            "exportedUntil": "2026-11-20T15:17:03.000Z",
        }
    ]
    async with database.read() as connection:
        assert await store.list_exported(connection, org_id, now) == []  # the sink is younger


SPAN_ONLY: Final = {"key": "durationMs", "op": "exists"}
EXCLUDING_NOTHING: Final[tuple[tuple[list[Any], str], ...]] = (
    ([{"key": "user.id", "op": "not_in", "value": []}], "body.filters[0]"),
    ([{"key": "user.id", "op": "eq", "value": "1"}, {"key": "user.id", "op": "not_in", "value": []}],
     "body.filters[1]"),
    ([{"any": [{"key": "k", "op": "exists"}, {"key": "k", "op": "not_exists"}]}], "body.filters[0]"),
    ([{"any": [{"key": "x", "op": "neq", "value": "a"}, {"key": "x", "op": "neq", "value": "b"}]}], "body.filters[0]"),
    ([{"any": [{"key": "durationMs", "op": "lt", "value": 5}, {"key": "durationMs", "op": "gte", "value": 5}]}],
     "body.filters"),
    ([{"key": "environment", "op": "neq", "value": ""}], "body.filters[0]"),
    ([{"key": "environment", "op": "regex", "value": ".*"}], "body.filters[0]"),
    ([{"key": "environment", "op": "regex", "value": ".|^$"}], "body.filters[0]"),
    ([{"key": "traceId", "op": "neq", "value": "x"}], "body.filters[0]"),
    ([SPAN_ONLY], "body.filters"),
    ([{"key": "severityNumber", "op": "neq", "value": 0}], "body.filters"),
)  # fmt: skip
EXCLUDING: Final[tuple[list[Any], ...]] = (
    [{"key": "x", "op": "neq", "value": "a"}],
    [{"any": [{"key": "serviceName", "op": "eq", "value": each} for each in ("web", "api")]}],
    [{"any": [{"key": "x", "op": "not_exists"}, {"key": "x", "op": "regex", "value": "^test-"}]}],
    [{"key": "environment", "op": "regex", "value": "^[a-z]+-test$"}],
    [SPAN_ONLY, {"key": "user.id", "op": "eq", "value": "4711"}],
)


async def test_filters_that_exclude_nothing_are_refused(control: Control) -> None:
    """Also where a time is given, and for a count: it would be one of everything."""
    for filters, path in EXCLUDING_NOTHING:
        for more in ({}, {"from": "2026-11-20T00:00:00Z", "dryRun": True}):
            status, answer, _ = await control.call("POST", WEB, {"filters": filters} | more)
            assert (status, [issue["path"] for issue in answer["error"]["details"]]) == (400, [path]), filters
    assert (await control.call("GET", ERASURES))[1]["data"] == []
    for filters in EXCLUDING:
        assert (await control.call("POST", WEB, {"filters": filters}))[0] == 202, filters
