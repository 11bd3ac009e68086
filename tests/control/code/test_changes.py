"""Change events through the API of control."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control.code import changes
from tests.control.conftest import Control

CHANGES = "/orgs/acme/changes"
NOW = datetime.now(UTC)


def ago(**time: float) -> str:
    return (NOW - timedelta(**time)).isoformat()


async def create(control: Control, title: str, **more: Any) -> Any:
    status, answer, _ = await control.call("POST", CHANGES, {"kind": "generic", "title": title} | more)
    assert status == 201, answer
    return answer


async def titles(control: Control, **parameters: str) -> list[str]:
    status, page, _ = await control.call("GET", CHANGES, params=parameters)
    assert status == 200, page
    return [one["title"] for one in page["data"]]


@pytest.mark.both_stores
async def test_a_change_is_shown_as_it_was_recorded(control: Control) -> None:
    body = {
        "kind": "deployment",
        "title": "checkout 1.4.0",
        "project": "web",
        "detail": "By hand.\nTwice.",
        "at": "2026-11-20T16:00:00.1234567+01:00",
        "environment": "production",
        "release": "1.4.0",
        "service": "checkout",
        "url": "https://ci.example.org/17",
        "dedupeKey": "deploy-17",
    }
    monday = datetime(2026, 11, 23, tzinfo=UTC)
    if NOW - monday > timedelta(days=300):
        body["at"] = ago(days=1)
    status, answer, _ = await control.call("POST", CHANGES, body)
    assert status == 201, answer
    given = {name: value for name, value in answer.items() if name in body}
    assert given == body | {"at": answer["at"]}
    assert (answer["source"], answer["createdBy"]) == ("api", control.acme.owner_id)
    assert (await control.call("GET", f"{CHANGES}/{answer['id']}"))[:2] == (200, answer)
    _, audit, _ = await control.call("GET", "/orgs/acme/audit", params={"action": "change."})
    ((event,)) = audit["data"]
    assert (event["action"], event["objectId"]) == ("change.create", answer["id"])


@pytest.mark.both_stores
async def test_a_known_key_is_the_same_change(control: Control) -> None:
    first = await create(control, "One", dedupeKey="k")
    status, again, _ = await control.call("POST", CHANGES, {"kind": "flag", "title": "Other", "dedupeKey": "k"})
    assert (status, again) == (200, first)
    theirs = {"kind": "flag", "title": "Theirs", "dedupeKey": "k"}
    token = control.globex.token.secret
    assert (await control.call("POST", "/orgs/globex/changes", theirs, token))[0] == 201
    assert await titles(control) == ["One"]


@pytest.mark.both_stores
async def test_changes_are_listed_newest_first_and_filtered(control: Control) -> None:
    await control.call("POST", "/orgs/acme/projects", {"slug": "api", "name": "Api"})
    same = ago(hours=2)
    await create(control, "old", at=ago(hours=3), kind="flag", project="web")
    await create(control, "first", at=same, project="api", environment="production")
    await create(control, "second", at=same, environment="staging")
    await create(control, "now")
    assert sorted((await titles(control))[1:3]) == ["first", "second"]
    assert (await titles(control))[::3] == ["now", "old"]
    assert await titles(control, project="web") == ["now", "second", "old"]
    assert await titles(control, kind="flag") == ["old"]
    assert await titles(control, environment="production") == ["first"]
    assert await titles(control, **{"from": ago(hours=2.5), "to": ago(hours=1)}) == (await titles(control))[1:3]


@pytest.mark.both_stores
async def test_a_deleted_change_is_gone(control: Control) -> None:
    made = await create(control, "One")
    one = f"{CHANGES}/{made['id']}"
    assert [(await control.call(method, one))[0] for method in ("DELETE", "DELETE", "GET")] == [204, 404, 404]


INVALID_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "party"}, "kind"),
    ({"title": ""}, "title"),
    ({"dedupeKey": "release:rel_1:web:"}, "dedupeKey"),
    ({"title": "a\u0000"}, "title"),
    ({"detail": "a\u0000"}, "detail"),
    ({"project": "none"}, "project"),
    ({"at": "2025-01-01T00:00:00Z"}, "at"),
    ({"at": "9999-12-31T23:59:59Z"}, "at"),
    ({"url": "file:///etc/passwd"}, "url"),
    ({"dedupeKey": "x" * 201}, "dedupeKey"),
    ({"color": "red"}, "color"),
]
INVALID_FILTERS = [
    {"kind": "party"},
    {"project": "none"},
    {"project": "\x00"},
    {"environment": "\x00"},
]


async def test_invalid_changes_and_filters_are_refused(control: Control) -> None:
    for change, field in INVALID_CHANGES:
        status, answer, _ = await control.call("POST", CHANGES, {"kind": "flag", "title": "x"} | change)
        assert (status, [one["path"] for one in answer["error"]["details"]]) == (400, [f"body.{field}"]), change
    for query in INVALID_FILTERS:
        assert (await control.call("GET", CHANGES, params=query))[0] == 400, query


@pytest.mark.both_stores
async def test_old_and_surplus_changes_make_room(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(control, "outdated", at=ago(days=300))
    await create(control, "old", at=ago(days=3))
    await create(control, "middle", at=ago(days=2))
    monkeypatch.setattr(changes, "MAX_AGE", timedelta(days=200))
    await create(control, "new", at=ago(days=1))
    assert await titles(control) == ["new", "middle", "old"]
    monkeypatch.setattr(changes, "MAX_CHANGES", 3)
    await create(control, "newest")
    assert await titles(control) == ["newest", "new", "middle"]
