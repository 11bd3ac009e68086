"""Projects of an organization over HTTP."""

import asyncio
import re
from typing import Any

import msgspec
import pytest

from chassis.auth.id_generation import new_token
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def test_a_project_is_created_shown_and_listed(control: Control) -> None:
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


async def test_new_project_is_found_despite_a_cached_miss(control: Control) -> None:
    assert (await control.call("GET", "/orgs/acme/projects/api"))[0] == 404
    await control.call("POST", "/orgs/acme/projects", {"slug": "api", "name": "API"})
    assert (await control.call("GET", "/orgs/acme/projects/api"))[0] == 200


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
async def test_pages_list_every_project_once_in_order(control: Control, limit: int) -> None:
    made = [f"p{number}" for number in range(12)]
    for slug in made:
        await control.call("POST", "/orgs/acme/projects", {"slug": slug, "name": slug})
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        _, page, _ = await control.call("GET", "/orgs/acme/projects", params={"limit": str(limit)} | cursor)
        seen += [one["slug"] for one in page["data"]]
        assert page["hasMore"] is (page["nextCursor"] is not None)
        if not page["hasMore"]:
            break
        assert len(page["data"]) == limit
        assert 1 <= len(page["nextCursor"]) <= 500
        cursor = {"cursor": page["nextCursor"]}
    assert seen == sorted([*made, "web"])


async def test_a_page_has_25_projects_by_default(control: Control) -> None:
    for number in range(26):
        await control.call("POST", "/orgs/acme/projects", {"slug": f"p{number}", "name": "x"})
    _, page, _ = await control.call("GET", "/orgs/acme/projects")
    assert (len(page["data"]), page["hasMore"]) == (25, True)


@pytest.mark.parametrize(
    ("query", "issues"),
    [
        ({"limit": "0"}, [("query.limit", "too_small")]),
        ({"limit": "101"}, [("query.limit", "too_large")]),
        ({"limit": "x"}, [("query.limit", "type")]),
        ({"cursor": "x" * 500}, [("query.cursor", "invalid")]),
        ({"cursor": "x" * 501, "limit": ""}, [("query.limit", "type"), ("query.cursor", "too_long")]),
    ],
)
async def test_queries_out_of_bounds_are_400(
    control: Control, query: dict[str, str], issues: list[tuple[str, str]]
) -> None:
    status, body, _ = await control.call("GET", "/orgs/acme/projects", params=query)
    assert (status, body["error"]["code"]) == (400, "bad_request")
    assert [(issue["path"], issue["code"]) for issue in body["error"]["details"]] == issues


async def test_empty_cursor_starts_at_the_first_page(control: Control) -> None:
    _, first, _ = await control.call("GET", "/orgs/acme/projects")
    assert (await control.call("GET", "/orgs/acme/projects?cursor="))[:2] == (200, first)


async def test_a_cursor_of_another_organization_or_list_is_400(control: Control) -> None:
    for slug in ("a", "b"):
        await control.call("POST", "/orgs/acme/projects", {"slug": slug, "name": "x"})
        await control.call("POST", "/orgs/acme/projects/web/keys", {"name": "x"})
    for path, token in (
        ("/orgs/globex/projects", control.globex.token.secret),
        ("/orgs/acme/projects/web/keys", control.acme.token.secret),
    ):
        cursor = (await control.call("GET", "/orgs/acme/projects", params={"limit": "1"}))[1]["nextCursor"]
        status, body, _ = await control.call("GET", path, token=token, params={"cursor": cursor})
        assert (status, body["error"]["details"][0]["path"]) == (400, "query.cursor")


@pytest.mark.parametrize(
    ("body", "issues"),
    [
        ({}, [("body.slug", "missing"), ("body.name", "missing")]),
        ({"slug": "", "name": ""}, [("body.slug", "too_short"), ("body.name", "too_short")]),
        ({"slug": "a" * 65, "name": "x" * 201}, [("body.slug", "too_long"), ("body.name", "too_long")]),
        ({"slug": "Api", "name": "x\n"}, [("body.slug", "format"), ("body.name", "format")]),
        ({"slug": "a\x00", "name": "\x00"}, [("body.slug", "format"), ("body.name", "format")]),
        (
            {"slug": 1, "name": None, "x": 1},
            [("body.slug", "type"), ("body.name", "type"), ("body.x", "unknown_field")],
        ),
        ([], [("body", "type")]),
        ("x", [("body", "type")]),
    ],
)
async def test_invalid_bodies_name_every_field(control: Control, body: object, issues: list[tuple[str, str]]) -> None:
    status, answer, _ = await control.call("POST", "/orgs/acme/projects", body)
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert [(issue["path"], issue["code"]) for issue in answer["error"]["details"]] == issues
    assert all(list(issue) == ["path", "message", "code"] for issue in answer["error"]["details"])


@pytest.mark.parametrize("length", [1, 64])
async def test_bounds_of_slugs_and_names_are_inclusive(control: Control, length: int) -> None:
    slug, name = "s" * length, "é" * (200 if length > 1 else 1)
    assert (await control.call("POST", "/orgs/acme/projects", {"slug": slug, "name": name}))[0] == 201


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


@pytest.mark.parametrize(
    ("body", "issues"),
    [
        ({"sensitiveWords": ["ok", "A", ""]},
         [("body.sensitiveWords[1]", "format"), ("body.sensitiveWords[2]", "too_short")]),
        ({"sensitiveWords": ["a"] * 101}, [("body.sensitiveWords", "too_long")]),
        ({"sensitiveWords": None}, [("body.sensitiveWords", "type")]),
        ({"slug": "x"}, [("body.slug", "unknown_field")]),
        ({"resolveOnMerge": "later"}, [("body.resolveOnMerge", "not_allowed")]),
        ({"resolveOnMerge": None}, [("body.resolveOnMerge", "type")]),
    ],
)  # fmt: skip
async def test_invalid_changes_are_400(control: Control, body: object, issues: list[tuple[str, str]]) -> None:
    status, answer, _ = await control.call("PATCH", "/orgs/acme/projects/web", body)
    assert status == 400
    assert [(issue["path"], issue["code"]) for issue in answer["error"]["details"]] == issues


def counts(header: str) -> bool:
    """Whether it tells how many requests the principal has made, wherever they went."""
    return header.lower() in ("x-ratelimit-remaining", "x-ratelimit-reset")


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
async def test_foreign_and_missing_projects_get_the_same_response(control: Control, method: str) -> None:
    bodies = set()
    below = "" if method == "POST" else "/{}"
    paths = [f"/orgs/{org}/projects" for org in ("globex", "none", "%00", "a" * 200, "%ff", "ACME")]
    paths = [path + below.format("web") for path in paths]
    if below:
        paths += [f"/orgs/acme/projects/{slug}" for slug in ("none", "%00", "WEB", "x" * 200)]
    for path in paths:
        async with control.client.request(
            method,
            path,
            headers={"Authorization": f"Bearer {control.acme.token.secret}", "X-Request-Id": "same"},
        ) as answer:
            raw = await answer.read()
            stable = {name: value for name, value in answer.headers.items() if name != "Date" and not counts(name)}
            bodies.add((answer.status, raw, msgspec.json.encode(stable, order="sorted")))
    assert len(bodies) == 1
    [(status, raw, _)] = bodies
    assert status == 404
    assert raw == b'{"error":{"code":"not_found","message":"Not found.","requestId":"same"}}'


async def test_roles_and_permitted_operations(control: Control) -> None:
    expected = {Role.VIEWER: (200, 403), Role.BILLING: (200, 403), Role.MEMBER: (200, 403), Role.ADMIN: (200, 201)}
    for role, statuses in expected.items():
        _, token = await new_member_token(control.checks.database, control.acme, role)
        read, _, _ = await control.call("GET", "/orgs/acme/projects", token=token)
        body = {"slug": role.lower(), "name": "x"}
        write, refusal, _ = await control.call("POST", "/orgs/acme/projects", body, token)
        assert (role, read, write) == (role, *statuses)
        assert write == 201 or refusal["error"]["code"] == "forbidden"


async def test_request_without_a_valid_token_is_401(control: Control) -> None:
    for path in ("/orgs/acme/projects", "/orgs/none/projects/none"):
        status, body, headers = await control.call("GET", path, token=new_token())
        assert (status, body["error"]["code"], headers["WWW-Authenticate"]) == (401, "unauthorized", "Bearer")


async def test_the_order_of_checks(control: Control) -> None:
    _, viewer = await new_member_token(control.checks.database, control.acme, Role.VIEWER)
    bad: dict[str, Any] = {"headers": {"Content-Type": "text/plain"}, "data": b"x" * 10_000}
    assert (await control.call("PUT", "/orgs/acme/projects", token=new_token()))[0] == 405
    assert (await control.call("POST", "/orgs/none/projects", token=new_token(), **bad))[0] == 401
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
