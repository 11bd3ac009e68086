"""`sluice init --quota` and `sluice limits`, over either relational store, and a gateway that goes by them."""

import json
import re
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.db.database import migration_engine
from chassis.db.migrations import migrate
from control.audit.tables import audit_events
from sluice.main import main
from sluice.sample_export import retry_hint

from .conftest import DEADLINE_S, Start, Up, refusal, sluice, wait_until

SPAN = {
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "name": "work",
}


def test_a_quota_is_created_shown_and_set(database_url: str, tmp_path: Path) -> None:
    migrate(database_url)
    settings = {"SLUICE_DATA": str(tmp_path / "data"), "SLUICE_DATABASE_URL": database_url}
    made = sluice("init", "--org", "acme", "--quota", "1000", **settings)
    assert made.returncode == 0, made.stderr
    assert "The organization's quota is 1000 items per month; `sluice limits --org acme` changes it." in made.stdout
    shown = sluice("limits", "--org", "acme", **settings).stdout
    month = re.fullmatch(r"acme: 0 of 1000 items in ([0-9]{4}-[0-9]{2}) \(UTC\)\.\n", shown)
    assert month is not None, shown
    done = sluice("limits", "--org", "acme", "--quota", "0", "--json", **settings)
    assert told(database_url) == [
        ("organization.create", {"slug": "acme", "monthlyItems": 1000}),
        ("principal.create", {"kind": "user", "name": "Owner", "role": "OWNER"}),
        ("token.create", {"name": "First start", "scopes": [], "expiresAt": ""}),
        ("project.create", {"slug": "default"}),
        ("key.create", {"name": "First start"}),
        ("organization.update", {"monthlyItems": 0, "before": 1000}),
    ]
    assert json.loads(done.stdout) == {
        "orgSlug": "acme",
        "month": month[1],
        "monthlyItems": 0,
        "usedItems": 0,
        "keys": [],
    }


def told(url: str) -> list[tuple[str, dict[str, Any]]]:
    """What the audit has, all of it by a command; without ids."""
    engine = migration_engine(url)
    with engine.begin() as connection:
        events = connection.execute(sa.select(audit_events).order_by(audit_events.c.seq)).all()
    engine.dispose()
    assert {(event.actor_id, event.request_id) for event in events} == {(None, "(command)")}
    ids = ("holder", "projectId")
    return [
        (event.action, {name: value for name, value in json.loads(event.data).items() if name not in ids})
        for event in events
    ]


def test_what_is_not_there_is_named(tmp_path: Path, migrated_file: Path) -> None:
    settings = {"SLUICE_DATA": str(tmp_path / "data"), "SLUICE_DATABASE_URL": f"sqlite:///{migrated_file}"}
    assert refusal(sluice("limits", "--org", "globex", **settings), 1) == "There is no organization globex."
    assert refusal(sluice("limits", "--rate", "5", **settings), 2).startswith("--key and --rate must be used together")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("init", "--quota", "-1"), "argument --quota: must be a whole number, 0 to 1000000000000000"),
        (("limits", "--quota", "many"), "argument --quota: must be a whole number, 0 to 1000000000000000"),
        (("limits", "--rate", "10000001"), "argument --rate: must be `default` or a whole number, 0 to 10000000"),
        (("limits", "--rate", "x"), "argument --rate: must be `default` or a whole number, 0 to 10000000"),
        (("up", "--workers", "x"), "argument --workers: must be a whole number, 1 to 256"),
        (("up", "--workers", "0"), "argument --workers: must be a whole number, 1 to 256"),
        (("up", "--port", "http"), "argument --port: must be a whole number, 0 to 65535"),
    ],
)
def test_an_invalid_number_is_usage_and_2(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr().err
    assert (ended.value.code, said.startswith("usage: sluice")) == (2, True)
    assert said.endswith(f"error: {sentence}\n")


def export(up: Up, key: str, spans: int) -> tuple[int, Any, str | None]:
    """Status, body and the header of the limit."""
    listed = [{**SPAN, "spanId": f"{n:016x}", "startTimeUnixNano": str(time.time_ns())} for n in range(1, spans + 1)]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": listed}]}]}).encode()
    request = urllib.request.Request(f"{up.url}/v1/traces", body, {"Content-Type": "application/json"})
    request.add_header("X-Legacy-Auth", f"Legacy legacy_key={key}")
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return answer.status, json.loads(answer.read()), answer.headers["x-ratelimit-limit"]
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read()), error.headers["x-ratelimit-limit"]


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ("1", "in 1 s"),
        ("120", "in 120 s"),
        ("121", "in 3 min"),
        ("7201", "in 3 h"),
        ("700000", "in 9 days"),
        *((odd, "later") for odd in (None, "", "0", "-1", "Fri, 31 Dec 1999 23:59:59 GMT", "9" * 5000)),
    ],
)
def test_the_retry_hint_has_a_readable_unit(header: str | None, sentence: str) -> None:
    assert retry_hint(header) == f"Try again {sentence}."


def test_a_running_gateway_applies_changed_limits(start: Start, migrated: Path) -> None:
    wait_until(lambda: datetime.now(UTC).month == (datetime.now(UTC) + timedelta(seconds=40)).month)  # it has to last
    up = start(SLUICE_GATEWAY_QUOTA_SYNC_S="0.1")
    made = up.credentials()
    store = {"SLUICE_DATA": str(up.data)}
    keys = up.get("/orgs/default/projects/default/keys", made["accessToken"])[1]["data"]
    done = sluice("limits", "--quota", "5", "--key", keys[0]["id"], "--rate", "7", "--json", **store)
    assert json.loads(done.stdout)["keys"] == [
        {"id": keys[0]["id"], "name": "First start", "hint": made["legacyKey"][-4:], "rate": 7}
    ]
    assert made["legacyKey"] not in done.stdout
    told = up.get("/orgs/default/audit?action=key.update", made["accessToken"])[1]["data"]
    assert [(one["objectId"], one["data"]) for one in told] == [(keys[0]["id"], {"rate": 7})]
    _, founded = up.get("/orgs/default/audit?action=organization.create", made["accessToken"])
    assert [one["data"]["slug"] for one in founded["data"]] == ["default"]
    missing = refusal(sluice("limits", "--key", "key_none", "--rate", "5", **store), 1)
    assert missing == "The organization default has no key key_none."
    wait_until(lambda: export(up, made["legacyKey"], 6)[::2] == (429, "5"))
    assert export(up, made["legacyKey"], 6)[1]["error"]["code"] == "quota_exceeded"
    status, _, limit = export(up, made["legacyKey"], 5)
    assert (status, limit) == (200, "14")
    assert export(up, made["legacyKey"], 1)[0] == 429
    sentence = refusal(sluice("send", **store), 1)
    assert re.sub("in [0-9]+ (s|min|h|days)", "in TIME", sentence) == (
        f"{up.url} did not accept the export: 429, The organization's quota is 5 items per month (UTC). It is used up. "
        "The next month has a new quota. Try again in TIME. `sluice limits` shows and sets quota and rates."
    )
    assert up.stop() == 0
    shown = sluice("limits", **store).stdout.splitlines()
    assert shown[0].startswith("default: 5 of 5 items in ")
    assert shown[1:] == [f"  key {keys[0]['id']} (First start, ...{made['legacyKey'][-4:]}): 7 requests per second"]
