"""Every list has everything once, in pages of the size that is asked for, and no page that is not its own."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from control.settings import ControlSettings
from tests.chassis.auth.tenants import Tenant
from tests.control.approvals.proofs.made import bundle
from tests.control.code.source_maps.conftest import read_here  # noqa: F401  # a fixture
from tests.control.conftest import Control, serving
from tests.control.test_existence import everything_of, filled

pytestmark = pytest.mark.usefixtures("read_here")

WEB: Final = "/orgs/acme/projects/web"
PROJECTS: Final = "/orgs/acme/projects"
EMAIL: Final = {"kind": "email", "name": "x", "config": {"to": ["a@example.org"]}}
POLICY: Final = {"name": "x", "actionPattern": "a.b", "effect": "DENY", "riskClass": "HIGH"}
# What lists have the latest first of: where it is made, with which body, and where it is listed if not there.
LATEST_FIRST: Final[tuple[tuple[str, Callable[[int], Any], str], ...]] = (
    (f"{WEB}/keys", lambda n: {"name": f"{n}"}, ""),
    (f"{WEB}/notification-channels", lambda n: EMAIL | {"scope": ("org", "project")[n % 2]}, ""),
    (f"{WEB}/views", lambda _: {"name": "x", "path": "/ui/"}, ""),
    (f"{WEB}/proof-bundles", lambda _: bundle(), ""),
    (f"{WEB}/erasures", lambda _: {"to": "2026-11-20T00:00:00Z"}, "/orgs/acme/erasures"),
    ("/orgs/acme/approval-policies", lambda _: POLICY, ""),
    ("/orgs/acme/releases", lambda n: {"version": f"2.{n}.0", "projects": ["web"]}, ""),
)


@pytest.fixture
async def control(
    migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path, control_settings: ControlSettings
) -> AsyncIterator[Control]:
    async with serving(migrated_url, tmp_path, control_settings, tenants=tenants, api_rate=0) as control:
        yield control


async def lists(control: Control) -> dict[str, dict[str, Any]]:
    """The parameter `limit` of each list, by the path of the list in acme."""
    ours = await everything_of(control, control.acme)
    _, document, _ = await control.call("GET", "/openapi.json")
    found = {}
    for path, methods in document["paths"].items():
        declared = {one["name"]: one["schema"] for one in methods.get("get", {}).get("parameters", ())}
        if path.startswith("/orgs/") and {"limit", "cursor"} <= declared.keys():
            found[filled(path, "acme", "web", ours)] = declared["limit"]
    return found


async def page(control: Control, path: str, token: str | None = None, **query: object) -> Any:
    status, found, _ = await control.call("GET", path, token=token, params={name: str(query[name]) for name in query})
    assert (status, list(found)[:3]) == (200, ["data", "nextCursor", "hasMore"]), (path, query, found)
    assert found["hasMore"] is (found["nextCursor"] is not None)
    return found


async def pages(control: Control, path: str, limit: int) -> list[Any]:
    """What all pages have."""
    seen, cursor = list[Any](), ""
    while True:
        found = await page(control, path, limit=limit, cursor=cursor)
        seen += found["data"]
        if not found["hasMore"]:
            return seen
        assert len(found["data"]) == limit
        assert 1 <= len(found["nextCursor"]) <= 500
        cursor = found["nextCursor"]


@pytest.mark.both_stores
async def test_every_list_has_everything_once(control: Control) -> None:
    found = await lists(control)
    assert len(found) > 20
    made: dict[str, list[str]] = {}
    for path, body, listed in LATEST_FIRST:
        for number in range(4):
            status, one, _ = await control.call("POST", path, body(number))
            assert status in (201, 202), one
            made.setdefault(listed or path, []).append(one["id"])
    for number in range(25):
        assert (await control.call("POST", PROJECTS, {"slug": f"p{number}", "name": "x"}))[0] == 201
    for path, limit in found.items():
        whole = (await page(control, path, limit=limit["maximum"]))["data"]
        assert whole[: limit["default"]] == (await page(control, path))["data"], path
        assert await pages(control, path, max(1, len(whole) // 3)) == whole, path
        if path in made:
            assert [one["id"] for one in whole[:4]] == made[path][::-1], path
    first = await page(control, PROJECTS)
    assert (len(first["data"]), first["hasMore"]) == (25, True)
    slugs = [one["slug"] for one in await pages(control, PROJECTS, 7)]
    assert slugs == sorted(["web", *(f"p{number}" for number in range(25))])


async def test_what_bounds_no_page_is_named_and_a_cursor_belongs_to_its_list(control: Control) -> None:
    """To that of one organization, project and thing, and to its filters."""
    found = await lists(control)
    assert (await control.call("POST", PROJECTS, {"slug": "api", "name": "x"}))[0] == 201
    for _ in range(2):
        assert (await control.call("POST", f"{WEB}/notification-channels", EMAIL | {"scope": "org"}))[0] == 201
    of_web, of_projects, of_audit = [
        (await page(control, path, limit=1))["nextCursor"]
        for path in (f"{WEB}/notification-channels", PROJECTS, "/orgs/acme/audit")
    ]
    limit, cursor, foreign = "query.limit", "query.cursor", [("query.cursor", "invalid")]
    asked: list[tuple[str, dict[str, str], list[tuple[str, str]]]] = [
        (f"{PROJECTS}/api/notification-channels", {"cursor": of_web}, foreign),
        ("/orgs/globex/projects", {"cursor": of_projects}, foreign),
        ("/orgs/acme/audit", {"cursor": of_audit, "action": "erasure.create"}, foreign),
    ]
    for path, bound in found.items():
        other = of_projects if path.endswith("/notification-channels") else of_web
        asked += [
            (path, {"limit": "0", "cursor": "x" * 501}, [(limit, "too_small"), (cursor, "too_long")]),
            (path, {"limit": str(bound["maximum"] + 1)}, [(limit, "too_large")]),
            (path, {"cursor": "x" * 500}, foreign),
            (path, {"cursor": other}, foreign),
        ]
    for path, query, expected in asked:
        token = (control.globex if "globex" in path else control.acme).token.secret
        status, answer, _ = await control.call("GET", path, token=token, params=query)
        assert status == 400, (path, query)
        assert sorted((one["path"], one["code"]) for one in answer["error"]["details"]) == sorted(expected), (
            path,
            query,
        )
