"""What trackers send, with the whole answers and what has become of issues, links and change events."""

import copy
from typing import Any

import pytest

from tests.control.conftest import Control
from tests.control.inbound.webhooks.trackers.sent import incident, iso, jira_issue, linear_issue, new_integration, send
from tests.control.issues.releases.stored import NOW, activity, issue, new_issue, new_project

LINEAR_URL = "https://linear.app/shop/issue/ENG-12"
JIRA_URL = "https://shop.atlassian.net/browse/SHOP-9"


Answer = tuple[int, dict[str, Any]]
Cases = tuple[tuple[Any, Answer | None], ...]


def result(event: str, *, changes: int = 0, issues: int = 0, links: int = 0) -> Answer:
    """The whole answer."""
    counts = {"changeEventsCreated": changes, "issuesUpdated": issues, "linksUpdated": links}
    return 200, {"received": True, "event": event, **counts}


async def play(control: Control, tracker: dict[str, Any], cases: Cases) -> None:
    """Send each payload, and compare its answer; None: it is a 400."""
    for payload, expected in cases:
        status_, answer = await send(control, tracker, payload)
        if expected is None:
            assert (status_, answer["error"]["code"]) == (400, "bad_request"), payload
        else:
            assert (status_, answer) == expected, payload


def without(payload: dict[str, Any], *path: str) -> dict[str, Any]:
    """The payload without this field."""
    changed = copy.deepcopy(payload)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return changed


async def link(control: Control, issue_id: str, url: str, **more: Any) -> dict[str, Any]:
    path = f"/orgs/acme/projects/web/issues/{issue_id}/links"
    status, made, _ = await control.call("POST", path, {"url": url} | more)
    assert status == 201
    return dict(made)


async def links(control: Control, issue_id: str) -> list[tuple[Any, ...]]:
    _, page, _ = await control.call("GET", f"/orgs/acme/projects/web/issues/{issue_id}/links")
    return [(one["system"], one["externalId"], one["title"], one["state"]) for one in page["data"]]


async def changes(control: Control) -> list[dict[str, Any]]:
    _, page, _ = await control.call("GET", "/orgs/acme/changes", params={"limit": "100"})
    return list(page["data"])


async def status(control: Control, issue_id: str) -> str:
    return str((await issue(control, issue_id)).status)


@pytest.mark.both_stores
async def test_linear(control: Control) -> None:
    tracker = await new_integration(control, "linear")
    one = await new_issue(control, 1)
    other = await new_issue(control, 2)
    await link(control, one, LINEAR_URL + "/totals")
    await link(control, other, "https://linear.app/shop/issue/ENG-13")
    docs_url = {"url": "https://linear.app/issue/ENG-12/totals"}
    comment = {"id": "c", "body": "Hello", "issueId": "1", "issue": {"id": "1", "title": "x"}, "updatedAt": iso()}
    cases: Cases = (
        (linear_issue(), result("Issue.update", links=1)),
        (linear_issue(webhookId="2"), result("Issue.update")),  # the same in another body
        (linear_issue("completed"), result("Issue.update", links=1, issues=1)),
        (linear_issue("canceled"), result("Issue.update")),  # closed as well
        (linear_issue("backlog", action="create"), result("Issue.create", links=1, issues=1)),
        (linear_issue("completed", action="remove"), result("Issue.remove")),
        (linear_issue(type="Comment", action="create", data=comment), result("Comment.create")),
        (linear_issue(type="Reaction", action="create", data={}), result("Reaction.create")),
        (linear_issue("completed", updated=iso(-3_600)), result("Issue.update")),  # older than what is known
        (without(linear_issue("completed"), "data", "url"), result("Issue.update", links=1, issues=1)),
        (without(linear_issue() | docs_url, "data", "url"), None),
        (without(linear_issue(), "data", "title"), None),
        (without(linear_issue(), "type"), None),
        (linear_issue(updated="yesterday"), None),
        (linear_issue(updated="2026-11-20T00:00:00"), None),
        (linear_issue(updated=iso(7_200)), None),
    )
    await play(control, tracker, cases)
    assert await links(control, one) == [("linear", "shop/ENG-12", "Totals are wrong", "closed")]
    assert await status(control, one) == "resolved"
    assert await status(control, other) == "unresolved"
    entries = await activity(control, one)
    assert [kind for kind, _ in entries] == ["link_added", *["link_changed"] * 4, *["resolved"] * 2, "unresolved"]
    assert dict(entries)["link_changed"].keys() == {
        *("linkId", "url", "title", "system", "state", "integrationId"),
    }
    assert dict(entries)["unresolved"].keys() == {"linkId", "url", "integrationId"}
    assert dict(entries)["unresolved"]["integrationId"] == tracker["id"]


def retitled() -> dict[str, Any]:
    """An issue with a title that no link may have, and without a status."""
    changed = without(jira_issue(), "issue", "fields", "status")
    changed["issue"]["fields"]["summary"] = "A\u202e new\ttitle" + "!" * 300
    return changed


async def test_jira(control: Control) -> None:
    tracker = await new_integration(control, "jira")
    one = await new_issue(control, 1)
    await link(control, one, JIRA_URL, state="open")
    created = jira_issue("new", webhookEvent="jira:issue_created")
    comment = {"comment": {"id": "1", "body": "Hello"}, "webhookEvent": "comment_created"}
    elsewhere = jira_issue("done")
    elsewhere["issue"]["self"] = "https://jira.example.org/rest/api/2/issue/1"
    cases: Cases = (
        (created, result("jira:issue_created", links=1)),
        (jira_issue("done"), result("jira:issue_updated", links=1, issues=1)),
        (jira_issue("done", user=None), result("jira:issue_updated")),
        (jira_issue("indeterminate", updated=iso(-10)), result("jira:issue_updated")),
        (jira_issue("indeterminate"), result("jira:issue_updated", links=1, issues=1)),
        (without(jira_issue("done"), "issue", "fields", "updated"), result("jira:issue_updated", links=1, issues=1)),
        (jira_issue("new", webhookEvent="jira:issue_deleted"), result("jira:issue_deleted")),
        (comment, result("comment_created")),
        (retitled(), result("jira:issue_updated", links=1)),
        (elsewhere, None),
        (jira_issue(timestamp=2**53), None),
        (jira_issue(webhookEvent="jira:issue\x00"), None),
        (jira_issue(webhookEvent="x" * 101), None),
    )
    await play(control, tracker, cases)
    title = "A new title" + "!" * 189
    assert await links(control, one) == [("jira", "shop.atlassian.net/SHOP-9", title, "closed")]
    assert await status(control, one) == "resolved"


async def test_pagerduty(control: Control) -> None:
    await new_project(control, "api")
    tracker = await new_integration(control, "pagerduty", config={"projects": ["web", "api"]})
    everywhere = await new_integration(control, "pagerduty")
    cases: Cases = (
        (incident(), result("incident.triggered", changes=2)),
        (incident(agent=None), result("incident.triggered")),  # the same event in another body
        (incident("incident.acknowledged", id="02"), result("incident.acknowledged", changes=2)),
        (incident("incident.resolved", id="03"), result("incident.resolved", changes=2)),
        (incident("incident.annotated", id="04"), result("incident.annotated")),
        (incident("service.updated", id="05", data={}), result("service.updated")),
        (incident("pagey.ping", id="06", data={"message": "Hello"}), result("pagey.ping")),
        (incident(id="07", data={}), result("incident.triggered", changes=2)),
        (incident(id="08", data=[]), None),
        (incident(id=""), None),
        (incident(id="09", occurred_at="2020-10-02T18:45:22.169Z"), None),
    )
    await play(control, tracker, cases)
    assert await send(control, everywhere, incident()) == result("incident.triggered", changes=1)
    found = await changes(control)
    titles = [
        *("Incident triggered: The cart does not answer", "Incident acknowledged: The cart does not answer"),
        *("Incident resolved: The cart does not answer", "Incident triggered: without a title"),
    ]
    assert sorted((one["title"], one["project"] or "") for one in found) == sorted(
        [(title, project) for title in titles for project in ("api", "web")] + [(titles[0], "")]
    )
    one = next(each for each in found if each["project"] is None)
    assert {name: one[name] for name in ("kind", "detail", "url", "source", "service", "createdBy")} == {
        "kind": "generic",
        "detail": "Service: Cart; Urgency: high",
        "url": "https://shop.pagerduty.com/incidents/PGR0VU2",
        "source": "pagerduty",
        "service": None,
        "createdBy": None,
    }


@pytest.mark.both_stores
async def test_generic(control: Control) -> None:
    tracker = await new_integration(control, "generic")
    one = await new_issue(control, 1)
    item = {"url": "https://desk.example.com/4711", "system": "desk", "id": "4711", "title": "Totals"}
    known = {"system": "desk", "id": "4711"}
    flag = {"kind": "flag", "title": "new-cart: 50 %", "project": "web", "at": iso(-5), "dedupeKey": "f-1"}
    deploy = {"title": "web 1.4.0", "environment": "production", "release": "1.4.0", "service": "cart"}
    cases: Cases = (
        ({"event": "link.created", "issue": "WEB-1", "item": item}, result("link.created", links=1)),
        ({"event": "link.created", "issue": one, "item": item}, result("link.created")),
        ({"event": "link.created", "issue": "WEB-99", "item": item}, result("link.created")),
        ({"event": "issue.closed", "item": known}, result("issue.closed", links=1, issues=1)),
        ({"event": "issue.reopened", "item": known, "n": 1}, result("issue.reopened", links=1, issues=1)),
        ({"event": "issue.closed", "item": known | {"updatedAt": iso(-60)}}, result("issue.closed")),
        ({"event": "issue.updated", "item": known | {"title": "Sums"}}, result("issue.updated", links=1)),
        ({"event": "issue.updated", "item": known | {"state": "closed"}}, result("issue.updated", links=1, issues=1)),
        ({"event": "issue.updated", "item": {"url": "https://desk.example.com/1"}}, result("issue.updated")),
        ({"event": "issue.reopened", "issue": "web-1"}, result("issue.reopened", issues=1)),
        ({"event": "issue.closed", "issue": one}, result("issue.closed", issues=1)),
        ({"event": "issue.updated", "issue": one}, result("issue.updated")),
        ({"event": "issue.commented", "issue": one}, result("issue.commented")),
        ({"event": "link.deleted", "issue": one, "item": known}, result("link.deleted", links=1)),
        ({"event": "link.deleted", "issue": one, "item": known, "n": 1}, result("link.deleted")),
        ({"event": "change.flag", "change": flag}, result("change.flag", changes=1)),
        ({"event": "change.flag", "change": flag, "n": 1}, result("change.flag")),
        ({"event": "deploy.finished", "change": deploy}, result("deploy.finished", changes=1)),
        ({"event": "ping"}, result("ping")),
        ({"event": "issue.closed"}, None),
        ({"event": "issue.closed", "issue": "no"}, None),
        ({"event": "issue.closed", "item": {"system": "desk"}}, None),
        ({"event": "link.created", "issue": one, "item": known}, None),
        ({"event": "link.created", "issue": one}, None),
        ({"event": "change.flag"}, None),
        ({"event": "change.flag", "change": flag | {"project": "none", "dedupeKey": "f-2"}}, None),
        ({"event": "change.flag", "change": flag | {"at": iso(7_200)}}, None),
        ({"event": "change.flag", "change": flag | {"title": "a\x00"}}, None),
        ({"event": ""}, None),
        ([], None),
        (b'{"event": "ping"', None),
        (b'{"event": "\\ud800"}', None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    )
    await play(control, tracker, cases)
    assert await status(control, one) == "resolved"
    assert await links(control, one) == []
    found = await changes(control)
    assert sorted((each["kind"], each["title"], each["project"], each["environment"]) for each in found) == [
        ("deployment", "web 1.4.0", None, "production"),
        ("flag", "new-cart: 50 %", "web", None),
    ]


async def test_issues_do_not_follow_without_sync_status(control: Control) -> None:
    tracker = await new_integration(control, "linear", config={"syncStatus": False})
    generic = await new_integration(control, "generic", config={"syncStatus": False})
    one = await new_issue(control, 1)
    await link(control, one, LINEAR_URL)
    assert await send(control, tracker, linear_issue("completed")) == result("Issue.update", links=1)
    assert await send(control, generic, {"event": "issue.closed", "issue": one}) == result("issue.closed")
    assert await status(control, one) == "unresolved"


async def test_a_ticket_that_was_not_known_to_be_closed_reopens_nothing(control: Control) -> None:
    tracker = await new_integration(control, "linear")
    one = await new_issue(control, 1, status="resolved", resolved_at=NOW)
    await link(control, one, LINEAR_URL)
    assert await send(control, tracker, linear_issue()) == result("Issue.update", links=1)
    assert await status(control, one) == "resolved"


async def test_other_organizations_are_not_reached(control: Control) -> None:
    """By ticket, by name, by id, by project."""
    theirs = await new_integration(control, "generic", control.globex)
    linear = await new_integration(control, "linear", control.globex)
    one = await new_issue(control, 1)
    await link(control, one, LINEAR_URL)
    assert await send(control, linear, linear_issue("completed")) == result("Issue.update")
    for name in (one, "WEB-1"):
        body = {"event": "issue.closed", "issue": name}
        assert await send(control, theirs, body) == result("issue.closed")
    assert await status(control, one) == "unresolved"
    assert [kind for kind, _ in await activity(control, one)] == ["link_added"]


async def test_deleted_projects_are_not_reached(control: Control) -> None:
    """Their changes are not those of all projects, their links are not followed."""
    project_id = await new_project(control, "api")
    one = await new_issue(control, 1, project_id=project_id)
    path = f"/orgs/acme/projects/api/issues/{one}/links"
    assert (await control.call("POST", path, {"url": LINEAR_URL}))[0] == 201
    tracker = await new_integration(control, "pagerduty", config={"projects": ["api"]})
    linear = await new_integration(control, "linear")
    assert (await control.call("DELETE", "/orgs/acme/projects/api"))[0] in (202, 204)
    assert await send(control, tracker, incident()) == result("incident.triggered")
    assert await send(control, linear, linear_issue("completed")) == result("Issue.update")
    assert await status(control, one) == "unresolved"


async def test_an_issue_with_too_many_links_gets_no_further_one(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.code.issue_links.store.MAX_LINKS", 1)
    tracker, one = await new_integration(control, "generic"), await new_issue(control, 1)
    for number, expected in ((1, 200), (2, 400)):
        body = {"event": "link.created", "issue": one, "item": {"url": f"https://desk.example.com/{number}"}}
        assert (await send(control, tracker, body))[0] == expected
