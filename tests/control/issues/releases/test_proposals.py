"""Proposals that are reported, and the issues that they fix."""

from typing import Any

import pytest

from control.code.proposals import store
from tests.control.conftest import Control
from tests.control.issues.releases.stored import activity, commit, issue, new_issue, new_project, report

PROPOSALS = "/orgs/acme/proposals"


async def put(control: Control, number: str, state: str = "open", **more: Any) -> Any:
    body = {"repository": "shop/web", "number": number, "title": "Round totals", "state": state} | more
    status, answer, _ = await control.call("PUT", PROPOSALS, body)
    assert status in (200, 201), answer
    return answer


async def states(control: Control, **filters: str) -> dict[str, str]:
    _, page, _ = await control.call("GET", PROPOSALS, params=filters)
    return {one["number"]: one["state"] for one in page["data"]}


@pytest.mark.both_stores
async def test_a_merge_resolves_issues_and_supersedes_the_other_proposals(control: Control) -> None:
    ids = [await new_issue(control, number) for number in (1, 2, 3)]
    await report(control, "1.0.0")
    one = await put(
        control, "1", body="Fixes WEB-1\n\ncloses [web-2](https://x.example)", issues=["web-3"], headSha="A" * 40
    )
    assert (one["issues"], one["headSha"]) == (["WEB-1", "WEB-2", "WEB-3"], "a" * 40)
    await put(control, "2", title="Fix WEB-2 otherwise")
    await put(control, "3", state="closed", issues=["WEB-2"])
    merged = await put(control, "1", "merged", body="Fixes WEB-1, WEB-2", mergeSha="b" * 40)
    assert (merged["issuesResolved"], merged["proposalsSuperseded"]) == (["WEB-1", "WEB-2"], ["shop/web#2"])
    assert await states(control) == {"1": "merged", "2": "superseded", "3": "closed"}
    rows = [await issue(control, each) for each in ids]
    assert [(row.status, row.resolved_after_release) for row in rows] == [("resolved", "1.0.0")] * 2 + [
        ("unresolved", None)
    ]
    kinds = [kind for kind, _ in await activity(control, ids[0])]
    assert kinds == ["proposal", "resolved"]
    await report(control, "1.1.0")
    assert (await issue(control, ids[0])).resolved_in_release == "1.1.0"


@pytest.mark.both_stores
async def test_an_older_report_changes_nothing(control: Control) -> None:
    one = await new_issue(control, 1)
    await put(control, "1", "closed", changedAt="2026-11-20T12:00:00Z")
    late = await put(control, "1", "merged", changedAt="2026-11-20T11:59:59Z", issues=["WEB-1"])
    assert (late["state"], late["issues"], late["issuesResolved"]) == ("closed", [], [])
    assert (await issue(control, one)).status == "unresolved"
    assert (await put(control, "1", changedAt="2026-11-20T12:00:01Z"))["state"] == "open"
    assert (await put(control, "1", "merged", changedAt="2026-11-20T12:00:01Z"))["state"] == "merged"
    assert (await put(control, "1", changedAt="2026-11-20T13:00:00Z"))["state"] == "merged", "for good"


@pytest.mark.both_stores
async def test_a_superseded_proposal_opens_with_its_issue(control: Control) -> None:
    await new_issue(control, 1)
    await put(control, "1", issues=["WEB-1"])
    await put(control, "2", "merged", issues=["WEB-1"], mergeSha="b" * 40)
    assert (await put(control, "1", issues=["WEB-1"]))["state"] == "superseded"
    revert = commit("c", f'Revert "Round"\n\nThis reverts commit {"b" * 40}.')
    assert (await report(control, "2.0.0", revert))["issuesReopened"] == ["WEB-1"], "the merge has fixed it"
    assert (await put(control, "1", issues=["WEB-1"]))["state"] == "open"


@pytest.mark.both_stores
async def test_proposals_are_filtered(control: Control) -> None:
    await new_issue(control, 1)
    await put(control, "1", issues=["WEB-1"])
    await put(control, "2", "closed")
    await put(control, "3", repository="shop/lib")
    assert set(await states(control, state="open")) == {"1", "3"}
    assert set(await states(control, repository="shop/lib")) == {"3"}
    assert set(await states(control, issue="web-1")) == {"1"}
    assert set(await states(control, issue="WEB-2")) == set()
    for wrong in ({"state": "new"}, {"issue": "web"}, {"repository": "a\x00"}):
        assert (await control.call("GET", PROPOSALS, params=wrong))[0] == 400


async def test_invalid_reports_are_refused(control: Control) -> None:
    await new_issue(control, 99, control.globex)
    invalid: list[tuple[dict[str, Any], str]] = [
        ({"issues": ["WEB-99"]}, "issues[0]"),
        ({"issues": ["no id"]}, "issues[0]"),
        ({"state": "superseded"}, "state"),
        ({"changedAt": "2999-01-01T00:00:00Z"}, "changedAt"),
        ({"number": ""}, "number"),
        ({"body": "a\u0000"}, "body"),
    ]
    for change, field in invalid:
        body = {"repository": "shop/web", "number": "1", "title": "x", "state": "open"} | change
        status, answer, _ = await control.call("PUT", PROPOSALS, body)
        assert (status, [one["path"] for one in answer["error"]["details"]]) == (400, [f"body.{field}"]), change


@pytest.mark.both_stores
async def test_the_oldest_proposals_make_room(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_PROPOSALS", 2)
    await new_issue(control, 1)
    for number in "123":
        await put(control, number, issues=["WEB-1"])
    assert set(await states(control)) == {"2", "3"}


async def test_a_report_of_the_state_alone_keeps_the_issues(control: Control) -> None:
    one = await new_issue(control, 1)
    await put(control, "1", issues=["WEB-1"])
    merged = await put(control, "1", "merged")
    assert (merged["issues"], merged["issuesResolved"]) == (["WEB-1"], ["WEB-1"])
    assert (await issue(control, one)).status == "resolved"
    await new_issue(control, 2)
    await put(control, "2", issues=["WEB-2"])
    assert (await put(control, "2", body="", changedAt="2026-11-20T12:00:00Z"))["issues"] == ["WEB-2"], "older"
    assert (await put(control, "2", "closed", body=""))["issues"] == []


@pytest.mark.both_stores
async def test_proposals_follow_issues_that_are_merged(control: Control) -> None:
    first, second = await new_issue(control, 1), await new_issue(control, 2)
    await put(control, "1", issues=["WEB-1"])
    await put(control, "2", issues=["WEB-2"])
    path = f"/orgs/acme/projects/web/issues/{first}/merge"
    assert (await control.call("POST", path, {"issueIds": [second]}))[0] == 200
    merged = await put(control, "2", "merged")
    assert merged["proposalsSuperseded"] == ["shop/web#1"]
    assert (await put(control, "1", "open"))["state"] == "superseded", "its issue is resolved"


@pytest.mark.both_stores
async def test_a_merge_resolves_at_once_where_the_project_says_so(control: Control) -> None:
    api = await new_project(control, "api")
    assert (await control.call("PATCH", "/orgs/acme/projects/web", {"resolveOnMerge": "now"}))[0] == 200
    await report(control, "1.0.0", projects=["web", "api"])
    ids = [await new_issue(control, 1), await new_issue(control, 1, project_id=api)]
    await put(control, "1", "merged", issues=["WEB-1", "API-1"])
    rows = [await issue(control, one) for one in ids]
    assert [(row.status, row.resolved_after_release) for row in rows] == [("resolved", None), ("resolved", "1.0.0")]
