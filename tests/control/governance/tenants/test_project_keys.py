"""Project keys over HTTP."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chassis.errors import Unauthorized
from chassis.runtime.settings import ChassisSettings
from control.governance.tenants import project_keys
from control.identity.organizations import project_key_store
from control.settings import ControlSettings
from proto.identity import is_project_key, parse_dsn
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control, serving

KEYS = "/orgs/acme/projects/web/keys"


async def test_key_secret_is_returned_once_and_works(control: Control) -> None:
    status, made, _ = await control.call("POST", KEYS, {"name": "Browser"})
    assert status == 201
    assert list(made) == ["id", "name", "hint", "enabled", "rate", "createdAt", "revokedAt", "key", "dsn"]
    assert is_project_key(made["key"])
    assert made["hint"] == made["key"][-4:]
    dsn = parse_dsn(made["dsn"])
    assert (dsn.scheme, dsn.key, dsn.host) == ("https", made["key"], "sluice.example.org")
    found = await control.checks.project_keys.check(legacy_key=made["key"], project_id=str(dsn.project_id))
    assert (found.project_slug, found.key_id) == ("web", made["id"])
    status, page, _ = await control.call("GET", KEYS)
    assert status == 200
    shown = {name: value for name, value in made.items() if name not in ("key", "dsn")}
    assert page["data"][0] == shown
    assert [key["name"] for key in page["data"]] == ["Browser", "first"]


async def test_a_revoked_key_stops_at_once_and_stays_listed(control: Control) -> None:
    _, made, _ = await control.call("POST", KEYS, {"name": "Browser"})
    await control.checks.project_keys.check(legacy_key=made["key"])
    for _ in range(2):
        status, body, headers = await control.call("DELETE", f"{KEYS}/{made['id']}")
        assert (status, body) == (204, None)
        assert "X-Request-Id" in headers
    with pytest.raises(Unauthorized):
        await control.checks.project_keys.check(legacy_key=made["key"])
    _, page, _ = await control.call("GET", KEYS)
    assert [(key["id"], key["revokedAt"] is None) for key in page["data"]] == [
        (made["id"], False),
        (control.acme.key.key.id, True),
    ]


async def test_key_can_be_renamed_disabled_enabled_and_rated(control: Control) -> None:
    _, made, _ = await control.call("POST", KEYS, {"name": "Browser"})
    path, secret = f"{KEYS}/{made['id']}", made["key"]
    shown = {name: value for name, value in made.items() if name not in ("key", "dsn")}
    assert (shown["rate"], shown["enabled"]) == (None, True)
    await control.checks.project_keys.check(legacy_key=secret)
    for change in ({"name": "Web"}, {"enabled": False}, {}, {"enabled": True, "rate": 1}, {"rate": 7}, {"rate": None}):
        status, changed, _ = await control.call("PATCH", path, change)
        shown |= change
        assert (status, changed) == (200, shown)
        if shown["enabled"]:
            assert (await control.checks.project_keys.check(legacy_key=secret)).rate == shown["rate"]
        else:
            with pytest.raises(Unauthorized):
                await control.checks.project_keys.check(legacy_key=secret)
    assert (await control.call("GET", KEYS))[1]["data"][0] == shown


@pytest.mark.both_stores
async def test_rate_above_the_default_is_set_by_the_operator_only(control: Control) -> None:
    one = f"{KEYS}/{control.acme.key.key.id}"
    for rate in (1, ChassisSettings().otlp_rate):
        assert (await control.call("PATCH", one, {"rate": rate}))[0] == 200
    async with control.checks.database.write() as connection:
        await project_key_store.set_key_rate(
            connection, control.acme.organization.id, control.acme.key.key.id, 10_000_000
        )
    status, key, _ = await control.call("PATCH", one, {"name": "Web"})
    assert (status, key["rate"]) == (200, 10_000_000), "what he gave stays"
    assert (await control.call("PATCH", one, {"rate": 9_000_000}))[0] == 400
    assert (await control.call("PATCH", one, {"rate": 10_000_000, "enabled": True}))[0] == 200, "sent back as it is"
    assert (await control.call("POST", f"{one}/rotate", {}))[1]["rate"] == 10_000_000


async def test_any_rate_is_accepted_when_the_default_is_unlimited(
    migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path
) -> None:
    async with serving(migrated_url, tmp_path, ControlSettings(), tenants=tenants, otlp_rate=0) as control:
        for rate, expected in ((0, 400), (1, 200), (10_000_000, 200), (10_000_001, 400)):
            path = f"{KEYS}/{control.acme.key.key.id}"
            assert (await control.call("PATCH", path, {"rate": rate}))[0] == expected


async def test_keys_of_a_project_are_limited(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a rate, so many of them have any."""
    monkeypatch.setattr(project_keys, "MAX_KEYS", 2)
    _, made, _ = await control.call("POST", KEYS, {"name": "2"})
    status, refusal, _ = await control.call("POST", KEYS, {"name": "3"})
    assert (status, refusal["error"]["code"]) == (409, "conflict")
    for expected in (201, 201, 409):
        status, rotated, _ = await control.call("POST", f"{KEYS}/{made['id']}/rotate", {})
        made = rotated if status == 201 else made
        assert status == expected, "those that were rotated work for a day yet"
    status, made, _ = await control.call("POST", f"{KEYS}/{made['id']}/rotate", {"graceMinutes": 0})
    assert status == 201, "no more work than before"
    assert (await control.call("DELETE", f"{KEYS}/{made['id']}"))[0] == 204
    assert (await control.call("POST", KEYS, {"name": "3"}))[0] == 409, "three work"
    await control.call("POST", "/orgs/acme/projects", {"slug": "other", "name": "Other"})
    assert (await control.call("POST", "/orgs/acme/projects/other/keys", {"name": "1"}))[0] == 201


async def test_rotated_key_works_during_its_grace_period(control: Control) -> None:
    old = control.acme.key
    path = f"{KEYS}/{old.key.id}"
    await control.call("PATCH", path, {"rate": 9})
    status, made, _ = await control.call("POST", f"{path}/rotate", {"graceMinutes": 60})
    assert (status, made["name"], made["rate"], made["id"] == old.key.id) == (201, old.key.name, 9, False)
    for secret in (old.secret, made["key"]):
        assert (await control.checks.project_keys.check(legacy_key=secret)).rate == 9
    _, page, _ = await control.call("GET", KEYS)
    left = datetime.fromisoformat(page["data"][1]["revokedAt"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(minutes=60)
    assert (await control.call("POST", f"{path}/rotate", {}))[0] == 409
    assert (await control.call("DELETE", path))[0] == 204, "it can be ended sooner"
    with pytest.raises(Unauthorized):
        await control.checks.project_keys.check(legacy_key=old.secret)
    await control.checks.project_keys.check(legacy_key=made["key"])


async def test_rotated_key_stops_after_its_grace_period(control: Control) -> None:
    path = f"{KEYS}/{control.acme.key.key.id}/rotate"
    status, made, _ = await control.call("POST", path, {"graceMinutes": 0})
    assert status == 201
    with pytest.raises(Unauthorized):
        await control.checks.project_keys.check(legacy_key=control.acme.key.secret)
    assert (await control.call("POST", f"{KEYS}/{made['id']}/rotate", {}))[0] == 201
    for secret, late, works in (
        (made["key"], timedelta(days=1, seconds=-5), True),
        (made["key"], timedelta(days=1), False),
    ):
        now = datetime.now(UTC) + late
        control.checks.project_keys._now = lambda now=now: now  # type: ignore[misc]
        control.checks.project_keys.invalidate_all()
        if works:
            await control.checks.project_keys.check(legacy_key=secret)
        else:
            with pytest.raises(Unauthorized):
                await control.checks.project_keys.check(legacy_key=secret)


INVALID: list[tuple[str, object, list[tuple[str, str]]]] = [
    ("PATCH", {"name": ""}, [("name", "too_short")]),
    ("PATCH", {"enabled": 1}, [("enabled", "type")]),
    ("PATCH", {"rate": -1}, [("rate", "too_small")]),
    ("PATCH", {"rate": 0}, [("rate", "too_small")]),
    ("PATCH", {"rate": 5_001}, [("rate", "too_large")]),
    ("PATCH", {"rate": 5_001, "name": ""}, [("name", "too_short"), ("rate", "too_large")]),
    ("PATCH", {"rate": 10_000_001}, [("rate", "too_large")]),
    ("PATCH", {"rate": 1.5, "hint": "x"}, [("rate", "type"), ("hint", "unknown_field")]),
    ("POST", {}, [("name", "missing")]),
    ("POST", {"name": ""}, [("name", "too_short")]),
    ("POST", {"name": "x" * 201}, [("name", "too_long")]),
    ("POST", {"name": "x", "key": "mine"}, [("key", "unknown_field")]),
    ("rotate", {"graceMinutes": -1}, [("graceMinutes", "too_small")]),
    ("rotate", {"graceMinutes": 43_201}, [("graceMinutes", "too_large")]),
]


async def test_invalid_bodies_name_every_field(control: Control) -> None:
    one = f"{KEYS}/{control.acme.key.key.id}"
    places = {"PATCH": ("PATCH", one), "POST": ("POST", KEYS), "rotate": ("POST", f"{one}/rotate")}
    for place, body, issues in INVALID:
        status, answer, _ = await control.call(*places[place], body)
        assert status == 400, (place, body)
        found = [(issue["path"], issue["code"]) for issue in answer["error"]["details"]]
        assert found == [(f"body.{path}", code) for path, code in issues], (place, body)
    assert (await control.call(*places["rotate"], {"graceMinutes": 43_200}))[0] == 201, "bounds are inclusive"
