"""Links of issues to other systems."""

from typing import Any

import pytest
from yarl import URL

from chassis.auth.tables import new_id
from control.code.issue_links import store
from control.code.issue_links.addresses import ExternalItem, identify
from control.code.issue_links.store import find_by_external_id
from proto.identity import Role, Scope
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.issues.releases.stored import activity, new_issue, new_project

ADDRESS = "https://github.com/shop/checkout/issues/17"


def links(issue_id: str) -> str:
    return f"/orgs/acme/projects/web/issues/{issue_id}/links"


ADDRESSES: list[tuple[str, str, str | None]] = [
    (ADDRESS, "github", "shop/checkout#17"),
    ("https://github.com/shop/checkout/pull/17/", "github", "shop/checkout#17"),
    ("https://gitlab.com/shop/sub/group/-/merge_requests/3", "gitlab", "shop/sub/group!3"),
    ("https://gitlab.com/shop/sub/group/-/merge_requests/3/diffs", "gitlab", "shop/sub/group!3"),
    ("https://gitlab.com/shop/sub/group/-/issues/3", "gitlab", "shop/sub/group#3"),
    ("https://GitHub.com/Shop/Checkout/pull/17/files", "github", "shop/checkout#17"),
    ("https://linear.app/shop/issue/ENG-12/round-totals", "linear", "shop/ENG-12"),
    ("https://linear.app/other/issue/eng-12", "linear", "other/ENG-12"),
    ("https://shop.atlassian.net/browse/SHOP-9?focused=1", "jira", "shop.atlassian.net/SHOP-9"),
    ("https://github.com.example.org/shop/checkout/issues/17", "other", None),
    ("https://github.com/shop", "other", None),
    (f"https://github.com/{'x' * 200}/y/issues/1", "other", None),
]


def test_systems_are_known_by_their_addresses() -> None:
    for url, system, external_id in ADDRESSES:
        found = identify(url)
        assert found.system == system, url
        assert found.external_id == external_id or (external_id is None and len(found.external_id) == 32), url


@pytest.mark.both_stores
async def test_links_are_created_changed_and_deleted_with_activity(control: Control) -> None:
    issue = await new_issue(control, 1)
    status, made, _ = await control.call("POST", links(issue), {"url": ADDRESS, "title": "Totals"})
    assert (status, made["system"], made["externalId"], made["state"]) == (201, "github", "shop/checkout#17", None)
    again = {"url": ADDRESS + "#comment", "title": "Other", "state": "closed"}
    assert (await control.call("POST", links(issue), again))[:2] == (200, made)
    one = f"{links(issue)}/{made['id']}"
    status, changed, _ = await control.call("PATCH", one, {"state": "closed", "title": None})
    assert (status, changed["state"], changed["title"], changed["url"]) == (200, "closed", None, ADDRESS)
    jira = {"url": "https://tracker.example.org/9", "system": "jira", "externalId": "SHOP-9"}
    assert (await control.call("POST", links(issue), jira))[0] == 201
    _, page, _ = await control.call("GET", links(issue))
    assert [each["externalId"] for each in page["data"]] == ["SHOP-9", "shop/checkout#17"]
    async with control.checks.database.read() as connection:
        org_id, item = control.acme.organization.id, ExternalItem("jira", "SHOP-9")
        assert [each.issue_id for each in await find_by_external_id(connection, org_id, item, 10)] == [issue]
    assert [(await control.call("DELETE", one))[0] for _ in range(2)] == [204, 404]
    assert [kind for kind, _ in await activity(control, issue)] == [*["link_added"] * 2, "link_changed", "link_removed"]
    _, audit, _ = await control.call("GET", "/orgs/acme/audit", params={"action": "issue.", "objectId": issue})
    assert audit["data"][0]["action"] == "issue.link_removed"


@pytest.mark.both_stores
async def test_another_address_is_another_item(control: Control) -> None:
    """What was named besides the address stays."""
    issue, pull = await new_issue(control, 1), "https://github.com/shop/checkout/pull/18"
    for url in (ADDRESS, pull):
        assert (await control.call("POST", links(issue), {"url": url}))[0] == 201
    jira = {"url": "https://tracker.example.org/9", "system": "jira", "externalId": "SHOP-9"}
    page = {"url": "https://wiki.example.org/1", "system": "wiki"}
    made = [(await control.call("POST", links(issue), one))[1] for one in (jira, page)]
    _, listed, _ = await control.call("GET", links(issue))
    first = next(one for one in listed["data"] if one["url"] == ADDRESS)

    async def move(link: dict[str, Any], url: str) -> tuple[int, Any]:
        status, answer, _ = await control.call("PATCH", f"{links(issue)}/{link['id']}", {"url": url})
        return status, answer if status != 200 else (answer["system"], answer["externalId"])

    assert (await move(first, pull + "/files"))[0] == 409
    assert await move(first, ADDRESS + "#comment") == (200, ("github", "shop/checkout#17"))
    assert await move(first, "https://gitlab.com/a/b/-/merge_requests/1") == (200, ("gitlab", "a/b!1"))
    assert (await control.call("POST", links(issue), {"url": ADDRESS}))[0] == 201
    assert await move(made[0], "https://tracker.example.org/10") == (200, ("jira", "SHOP-9"))
    status, (system, external_id) = await move(made[1], "https://wiki.example.org/2")
    assert (status, system, external_id == made[1]["externalId"]) == (200, "wiki", False)


async def test_invalid_links_are_refused(control: Control) -> None:
    issue = await new_issue(control, 1)
    for body in (
        {"url": "javascript:alert(1)"},
        {"url": "https://user:password@example.org/"},
        {"url": "https://example.org/\n"},
        {"url": "https://example.org/a b"},
        {"url": "https://example.org/" + "x" * 2_048},
        {"url": ADDRESS, "system": "Git Hub"},
        {"url": ADDRESS, "title": "\u202e"},
        {"url": ADDRESS, "state": "done"},
        {},
    ):
        assert (await control.call("POST", links(issue), body))[0] == 400, body


async def test_an_issue_has_so_many_links(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_LINKS", 2)
    issue = await new_issue(control, 1)
    statuses = [(await control.call("POST", links(issue), {"url": f"https://x.example/{n}"}))[0] for n in range(3)]
    assert statuses == [201, 201, 409]


@pytest.mark.both_stores
async def test_links_belong_to_their_issue_and_project(control: Control) -> None:
    """Also for who may write and not read, whom no check of existence precedes."""
    issue, other = await new_issue(control, 1), await new_issue(control, 2)
    elsewhere = await new_issue(control, 3, project_id=await new_project(control, "api"))
    _, made, _ = await control.call("POST", links(issue), {"url": ADDRESS})
    scopes = frozenset({Scope.ISSUES_WRITE})
    _, writer = await new_member_token(control.checks.database, control.acme, Role.MEMBER, scopes)
    for token in (None, writer):
        for path in (
            f"{links(other)}/{made['id']}",
            f"{links(issue)}/{new_id('lnk')}",
            f"{links(issue)}/%00",
            f"{links('%00')}/{made['id']}",
        ):
            for method, body in (("PATCH", {"state": "closed"}), ("DELETE", None)):
                assert (await control.call(method, URL(path, encoded=True), body, token))[0] == 404, path
        for path in (links(elsewhere), links(new_id("iss"))):
            assert (await control.call("POST", path, {"url": ADDRESS}, token))[0] == 404
