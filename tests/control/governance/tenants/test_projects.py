"""Projects of an organization over HTTP."""

import asyncio
import re
from typing import Any

import pytest

from chassis.auth.tables import new_token
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def test_a_project_is_created_shown_and_listed(control: Control) -> None:
    """Though it was looked for a moment ago."""
    assert (await control.call("GET", "/orgs/acme/projects/api"))[0] == 404
    status, made, headers = await control.call("POST", "/orgs/acme/projects", {"slug": "api", "name": "The API"})
    assert status == 201
    assert headers["Content-Type"] == "application/json"
    assert list(made) == [
        "id", "slug", "name", "sensitiveWords", "createdAt", "retentionDays", "resolveOnMerge", "exemptKeys",
    ]  # fmt: skip
    assert made["id"].isdecimal()
    assert TIME.fullmatch(made["createdAt"])
    assert (made["slug"], made["name"], made["sensitiveWords"], made["exemptKeys"]) == ("api", "The API", [], [])
    assert (await control.call("GET", "/orgs/acme/projects/api"))[:2] == (200, made)
    status, page, _ = await control.call("GET", "/orgs/acme/projects")
    assert status == 200
    assert list(page) == ["data", "nextCursor", "hasMore"]
    assert [one["slug"] for one in page["data"]] == ["api", "web"]
    assert (page["data"][0], page["nextCursor"], page["hasMore"]) == (made, None, False)


INVALID: list[tuple[str, object, list[tuple[str, str]]]] = [
    ("POST", {}, [("body.slug", "missing"), ("body.name", "missing")]),
    ("POST", {"slug": "", "name": ""}, [("body.slug", "too_short"), ("body.name", "too_short")]),
    ("POST", {"slug": "a" * 65, "name": "x" * 201}, [("body.slug", "too_long"), ("body.name", "too_long")]),
    ("POST", {"slug": "Api", "name": "x\n"}, [("body.slug", "format"), ("body.name", "format")]),
    ("POST", {"slug": "a\x00", "name": "\x00"}, [("body.slug", "format"), ("body.name", "format")]),
    ("POST", {"slug": 1, "name": None, "x": 1},
     [("body.slug", "type"), ("body.name", "type"), ("body.x", "unknown_field")]),
    ("POST", [], [("body", "type")]),
    ("POST", "x", [("body", "type")]),
    ("PATCH", {"sensitiveWords": ["ok", "A", ""]},
     [("body.sensitiveWords[1]", "format"), ("body.sensitiveWords[2]", "too_short")]),
    ("PATCH", {"sensitiveWords": ["a"] * 101}, [("body.sensitiveWords", "too_long")]),
    ("PATCH", {"sensitiveWords": None}, [("body.sensitiveWords", "type")]),
    ("PATCH", {"slug": "x"}, [("body.slug", "unknown_field")]),
    ("PATCH", {"resolveOnMerge": "later"}, [("body.resolveOnMerge", "not_allowed")]),
    ("PATCH", {"resolveOnMerge": None}, [("body.resolveOnMerge", "type")]),
]  # fmt: skip


async def test_invalid_bodies_name_every_field(control: Control) -> None:
    paths = {"POST": "/orgs/acme/projects", "PATCH": "/orgs/acme/projects/web"}
    for method, body, issues in INVALID:
        status, answer, _ = await control.call(method, paths[method], body)
        assert (status, answer["error"]["code"]) == (400, "bad_request"), body
        assert [(issue["path"], issue["code"]) for issue in answer["error"]["details"]] == issues, body
        assert all(list(issue) == ["path", "message", "code"] for issue in answer["error"]["details"])
    for slug, name in (("s", "é"), ("s" * 64, "é" * 200)):
        assert (await control.call("POST", "/orgs/acme/projects", {"slug": slug, "name": name}))[0] == 201


@pytest.mark.control_settings(max_body_bytes=4_096)
async def test_unsupported_type_size_and_encoding_are_rejected(control: Control) -> None:
    path, good = "/orgs/acme/projects", b'{"slug":"a","name":"a"}'
    for headers, data, expected in (
        ({"Content-Type": "text/plain"}, good, 415),
        ({}, good, 415),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, good, 415),
        ({"Content-Type": "application/json"}, b" " * 4_097, 413),
        ({"Content-Type": "application/json"}, b"", 400),
        ({"Content-Type": "application/json"}, b"{", 400),
        ({"Content-Type": "application/json; charset=utf-8"}, good + b" " * (4_096 - len(good)), 201),
    ):
        status, body, _ = await control.call("POST", path, headers=headers, data=data)
        assert (status, headers) == (expected, headers)
        assert "error" in body or status == 201


async def test_concurrent_duplicate_slugs_are_409_for_all_but_one(control: Control) -> None:
    calls = [control.call("POST", "/orgs/acme/projects", {"slug": "api", "name": "x"}) for _ in range(8)]
    answers = await asyncio.gather(*calls)
    assert sorted(status for status, _, _ in answers) == [201] + [409] * 7
    assert {body["error"]["code"] for status, body, _ in answers if status == 409} == {"conflict"}
    assert (
        await control.call("POST", "/orgs/globex/projects", {"slug": "api", "name": "x"}, control.globex.token.secret)
    )[0] == 201


@pytest.mark.both_stores
async def test_a_change_replaces_what_it_names(control: Control) -> None:
    path = "/orgs/acme/projects/web"
    before = await control.checks.project_keys.check(legacy_key=control.acme.key.secret)
    assert before.sensitive_words == ()
    status, changed, _ = await control.call("PATCH", path, {"sensitiveWords": ["iban", "tax_id"]})
    assert (status, changed["name"], changed["sensitiveWords"]) == (200, "Web", ["iban", "tax_id"])
    status, changed, _ = await control.call("PATCH", path, {"name": "Shop"})
    assert (status, changed["name"], changed["sensitiveWords"]) == (200, "Shop", ["iban", "tax_id"])
    status, changed, _ = await control.call("PATCH", path, {"resolveOnMerge": "now"})
    assert (status, changed["name"], changed["resolveOnMerge"]) == (200, "Shop", "now")
    assert (await control.call("GET", path))[1] == changed
    _, audit, _ = await control.call("GET", "/orgs/acme/audit", params={"action": "project.update"})
    assert audit["data"][0]["data"]["resolveOnMerge"] == "now"
    after = await control.checks.project_keys.check(legacy_key=control.acme.key.secret)
    assert after.sensitive_words == ("iban", "tax_id")


async def test_the_order_of_checks(control: Control) -> None:
    _, viewer = await new_member_token(control.checks.database, control.acme, Role.VIEWER)
    bad: dict[str, Any] = {"headers": {"Content-Type": "text/plain"}, "data": b"x" * 10_000}
    assert (await control.call("PUT", "/orgs/acme/projects", token=new_token()))[0] == 405
    status, body, headers = await control.call("POST", "/orgs/none/projects", token=new_token(), **bad)
    assert (status, body["error"]["code"], headers["WWW-Authenticate"]) == (401, "unauthorized", "Bearer")
    assert (await control.call("POST", "/orgs/none/projects", token=viewer, **bad))[0] == 404
    assert (await control.call("POST", "/orgs/acme/projects", token=viewer, **bad))[0] == 403
    assert (await control.call("POST", "/orgs/acme/projects", **bad))[0] == 415


async def test_unavailable_database_is_503_with_retry_after(control: Control) -> None:
    assert (await control.call("GET", "/readyz"))[0] == 200
    assert (await control.call("GET", "/orgs/acme/projects"))[0] == 200
    await control.checks.database.close()
    status, body, headers = await control.call("GET", "/orgs/acme/projects")
    assert (status, body["error"]["code"]) == (503, "service_unavailable")
    assert 1 <= int(headers["Retry-After"]) <= 5
    await control.checks.database.start()
    assert (await control.call("GET", "/orgs/acme/projects"))[0] == 200


@pytest.mark.both_stores
async def test_unexpected_error_is_500_without_detail(control: Control) -> None:
    async with control.checks.database.write() as connection:
        await connection.exec_driver_sql("ALTER TABLE projects RENAME COLUMN name TO label")
    status, body, headers = await control.call("GET", "/orgs/acme/projects")
    assert status == 500
    assert body["error"]["code"] == "internal_error"
    assert body["error"]["requestId"] == headers["X-Request-Id"]
    assert "name" not in body["error"]["message"]
    assert "details" not in body["error"]
