"""The endpoints of issues over HTTP."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from yarl import URL

from control.issues.counting.occurrences import Details
from proto.identity import Role
from tests.chassis.auth.tenants import new_member_token
from tests.control.conftest import Control
from tests.control.issues.conftest import Ledger, fingerprint, occurrence

ISSUES = "/orgs/acme/projects/web/issues"
KEYS = {
    "id", "shortId", "projectId", "fingerprint", "fingerprints", "title", "type", "culprit", "status", "resolvedAt",
    "resolvedInRelease", "resolvedAfterRelease", "ignoredUntil", "ignoredUntilCount", "assigneePrincipalId",
    "regressedAt", "count", "firstSeen", "lastSeen", "firstRelease", "lastRelease", "mergedInto", "createdAt",
    "updatedAt",
}  # fmt: skip


@pytest.fixture
async def errors(control: Control) -> Ledger:
    """Three errors: the third occurred last, the second most often."""
    ledger = Ledger(control.checks.database, control.acme)
    ledger.now = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    shown = Details("ValueError", "ValueError: no such sku", "shop/cart.py:add")
    await ledger.occur(1, "1.4.1", details=shown)
    for number, times in ((2, 5), (3, 2)):
        ledger.pass_by(timedelta(minutes=1))
        await ledger.occur(number, times=times)
    return ledger


async def listed(control: Control, **query: str) -> list[str]:
    status, body, _ = await control.call("GET", ISSUES, params=query)
    assert status == 200, body
    return [one["shortId"] for one in body["data"]]


async def the(control: Control, short_id: str) -> dict[str, Any]:
    _, body, _ = await control.call("GET", ISSUES, params={"shortId": short_id})
    (issue,) = body["data"]
    return dict(issue)


async def changed(control: Control, short_id: str, body: object, **options: Any) -> tuple[int, Any]:
    issue_id = (await the(control, short_id))["id"]
    status, answer, _ = await control.call("PATCH", f"{ISSUES}/{issue_id}", body, **options)
    return status, answer


async def kinds(control: Control, short_id: str) -> list[str]:
    issue_id = (await the(control, short_id))["id"]
    _, body, _ = await control.call("GET", f"{ISSUES}/{issue_id}/activity")
    return [one["kind"] for one in body["data"]]


async def test_an_issue_is_shown_whole(control: Control, errors: Ledger) -> None:
    issue = await the(control, "WEB-1")
    at = errors.now - timedelta(minutes=2)
    time = at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    assert issue.keys() == KEYS
    expected = {
        "shortId": "WEB-1",
        "projectId": str(errors.project_id),
        "fingerprint": "0" * 31 + "1",
        "fingerprints": ["0" * 31 + "1"],
        "title": "ValueError: no such sku",
        "type": "ValueError",
        "culprit": "shop/cart.py:add",
        "status": "unresolved",
        "count": 1,
        "firstSeen": time,
        "lastSeen": time,
        "firstRelease": "1.4.1",
        "lastRelease": "1.4.1",
    }
    assert issue == dict.fromkeys(KEYS) | expected | {name: issue[name] for name in ("id", "createdAt", "updatedAt")}
    assert (await control.call("GET", f"{ISSUES}/{issue['id']}"))[:2] == (200, issue)


async def test_lists_are_sorted_and_filtered(control: Control, errors: Ledger) -> None:
    assert await listed(control) == ["WEB-3", "WEB-2", "WEB-1"]
    assert await listed(control, sort="firstSeen") == ["WEB-3", "WEB-2", "WEB-1"]
    assert await listed(control, sort="count") == ["WEB-2", "WEB-3", "WEB-1"]
    assert await listed(control, query="NO SUCH") == ["WEB-1"]
    assert await listed(control, query="cart.py") == ["WEB-1"]
    assert await listed(control, query="100%") == []
    assert await listed(control, release="1.4.1") == ["WEB-1"]
    assert await listed(control, shortId="web-2") == ["WEB-2"]
    assert await listed(control, shortId="OTHER-2") == await listed(control, shortId="nonsense") == []
    await errors.occur(4, details=Details(None, "Übergabe fehlgeschlagen", None))
    assert await listed(control, query="übergabe") == await listed(control, query="ÜBERGABE") == ["WEB-4"]
    await changed(control, "WEB-4", {"status": "resolved"})
    await changed(control, "WEB-2", {"status": "ignored", "assigneePrincipalId": control.acme.owner_id})
    assert await listed(control, status="ignored") == await listed(control, assignee="me") == ["WEB-2"]
    assert await listed(control, assignee=control.acme.owner_id) == ["WEB-2"]
    assert await listed(control, assignee="none") == ["WEB-4", "WEB-3", "WEB-1"]
    assert await listed(control, status="unresolved", sort="count") == ["WEB-3", "WEB-1"]


@pytest.mark.usefixtures("errors")
async def test_pages_have_every_issue_once_and_belong_to_their_list(control: Control) -> None:
    for sort in ("lastSeen", "firstSeen", "count"):
        found: list[str] = []
        query = {"limit": "1", "sort": sort}
        while query.get("cursor", "") is not None:
            _, body, _ = await control.call("GET", ISSUES, params=query)
            found += [one["shortId"] for one in body["data"]]
            query["cursor"] = body["nextCursor"]
        assert found == await listed(control, sort=sort)
    _, body, _ = await control.call("GET", ISSUES, params={"limit": "1"})
    for other in ({"sort": "count"}, {"status": "resolved"}, {"assignee": "me"}, {"query": "x"}, {"shortId": "WEB-1"}):
        query = {"cursor": body["nextCursor"], **other}
        assert (await control.call("GET", ISSUES, params=query))[0] == 400


@pytest.mark.both_stores
async def test_text_that_no_column_takes_is_refused(control: Control) -> None:
    for name in ("query", "assignee", "release", "shortId"):
        for text, expected in (("%00", {400}), ("a%00b", {400}), ("%ED%A0%80", {200, 400})):
            path = URL(f"{ISSUES}?{name}={text}", encoded=True)
            assert (await control.call("GET", path))[0] in expected


@pytest.mark.usefixtures("errors")
async def test_resolving_assigning_and_reopening_leave_activity(control: Control) -> None:
    owner = control.acme.owner_id
    status, issue = await changed(
        control, "WEB-1", {"status": "resolved", "resolvedInRelease": "1.4.2", "assigneePrincipalId": owner}
    )
    assert (status, issue["status"], issue["resolvedInRelease"]) == (200, "resolved", "1.4.2")
    assert issue["resolvedAt"] is not None
    assert issue["assigneePrincipalId"] == owner
    assert (await changed(control, "WEB-1", {"status": "resolved", "resolvedInRelease": "1.4.2"}))[1] == issue
    status, issue = await changed(control, "WEB-1", {"status": "unresolved", "assigneePrincipalId": None})
    assert (status, issue["status"], issue["resolvedInRelease"], issue["resolvedAt"]) == (200, "unresolved", None, None)
    assert await kinds(control, "WEB-1") == ["unassigned", "unresolved", "assigned", "resolved", "created"]


async def test_the_next_release_is_the_one_after_the_latest(control: Control, errors: Ledger) -> None:
    status, body = await changed(control, "WEB-1", {"status": "resolved", "resolvedInNextRelease": True})
    assert (status, body["resolvedAfterRelease"]) == (200, "1.4.1")
    for release, state in (("1.4.1", "resolved"), ("1.5.0", "unresolved")):
        errors.now = datetime.now(UTC) + timedelta(seconds=1)
        await errors.occur(1, release)
        assert (await the(control, "WEB-1"))["status"] == state


async def test_an_outlier_is_no_next_release_and_hides_none(control: Control, errors: Ledger) -> None:
    """One occurrence of a developer's build named 999.9.9: the answer says which release comes before the next one."""
    errors.now = datetime.now(UTC)
    await errors.occur(2, "999.9.9", at=errors.now - timedelta(minutes=1))
    _, body = await changed(control, "WEB-1", {"status": "resolved", "resolvedInNextRelease": True})
    assert body["resolvedAfterRelease"] == "1.4.1"
    _, page, _ = await control.call("GET", f"{ISSUES}/{body['id']}/activity")
    assert page["data"][0]["data"] == {"afterRelease": "1.4.1"}
    for release, state in (("1.4.1", "resolved"), ("999.9.9", "resolved"), ("1.5.0", "unresolved")):
        errors.now = datetime.now(UTC) + timedelta(seconds=1)
        await errors.occur(1, release)
        assert (await the(control, "WEB-1"))["status"] == state, release


async def test_without_a_release_none_is_the_next(control: Control) -> None:
    ledger = Ledger(control.checks.database, control.acme)
    await ledger.occur(1)
    status, body = await changed(control, "WEB-1", {"status": "resolved", "resolvedInNextRelease": True})
    assert (status, body["error"]["code"]) == (409, "conflict")


async def test_ignoring_ends_by_count_and_by_time(control: Control, errors: Ledger) -> None:
    _, issue = await changed(control, "WEB-2", {"status": "ignored", "ignoredOccurrences": 2})
    assert (issue["status"], issue["ignoredUntilCount"]) == ("ignored", 7)
    await errors.occur(2)
    assert (await the(control, "WEB-2"))["status"] == "ignored"
    await errors.occur(2)
    assert (await the(control, "WEB-2"))["status"] == "unresolved"
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    _, issue = await changed(control, "WEB-2", {"status": "ignored", "ignoredUntil": until})
    assert (issue["status"], issue["ignoredUntil"]) == ("ignored", until[:23] + "Z")


# What a change must not say, by the field that is named; beside which status.
INVALID: list[tuple[str | None, str, list[Any]]] = [
    (None, "status", ["closed"]),
    (None, "resolvedInRelease", ["1"]),
    ("resolved", "resolvedInRelease", ["", "a\x00", "1.0\n", " 1.0", "v" * 201]),
    (None, "resolvedInNextRelease", [True]),
    (None, "ignoredOccurrences", [1]),
    ("ignored", "ignoredOccurrences", [0]),
    ("ignored", "ignoredUntil", ["2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"]),
    (None, "assigneePrincipalId", ["prn_00000000000000000000000000", "\x00"]),
    (None, "color", ["red"]),
]


@pytest.mark.usefixtures("errors")
async def test_what_a_change_must_not_say(control: Control) -> None:
    sent = [({field: value}, status, field) for status, field, values in INVALID for value in values]
    sent.append(({"resolvedInRelease": "1", "resolvedInNextRelease": True}, "resolved", "resolvedInNextRelease"))
    for body, beside, field in sent:
        status, answer = await changed(control, "WEB-1", body if beside is None else body | {"status": beside})
        assert (status, [one["path"] for one in answer["error"]["details"]]) == (400, [f"body.{field}"]), body


async def test_merging_leaves_one_issue(control: Control, errors: Ledger) -> None:
    target, *others = [(await the(control, name))["id"] for name in ("WEB-1", "WEB-2", "WEB-3")]
    await changed(control, "WEB-1", {"status": "resolved"})
    status, body, _ = await control.call("POST", f"{ISSUES}/{target}/merge", {"issueIds": others})
    assert (status, body["count"], body["status"]) == (200, 8, "unresolved")
    assert await listed(control) == ["WEB-1"]
    await errors.occur(3)
    assert (await the(control, "WEB-1"))["count"] == 9
    gone = f"{ISSUES}/{others[0]}"
    assert (await control.call("GET", gone))[1]["mergedInto"] == target
    assert (await control.call("PATCH", gone, {"status": "resolved"}))[0] == 409
    assert (await control.call("POST", f"{ISSUES}/{target}/merge", {"issueIds": others}))[0] == 409
    missing = {"issueIds": ["iss_00000000000000000000000000"]}
    assert (await control.call("POST", f"{ISSUES}/{target}/merge", missing))[0] == 404
    status, body, _ = await control.call("POST", f"{ISSUES}/{target}/merge", {"issueIds": [others[0], target]})
    assert (status, body["error"]["details"]) == (
        400,
        [
            {
                "path": "body.issueIds[1]",
                "message": f"{target} is the issue in the path. An issue cannot be merged into itself.",
                "code": "not_allowed",
            }
        ],
    )
    assert (await the(control, "WEB-1"))["count"] == 9
    assert (await kinds(control, "WEB-1"))[0] == "merged"


async def test_who_leaves_is_taken_from_issues(control: Control, errors: Ledger) -> None:
    member_id, _ = await new_member_token(control.checks.database, control.acme, Role.MEMBER)
    _, issue = await changed(control, "WEB-1", {"assigneePrincipalId": member_id})
    assert issue["assigneePrincipalId"] == member_id
    assert (await control.call("DELETE", f"/orgs/acme/members/{member_id}"))[0] in (200, 204)
    assert (await errors.issue(1)).assignee_id is None
    assert (await kinds(control, "WEB-1"))[0] == "unassigned"


@pytest.mark.usefixtures("errors")
async def test_changes_are_audited_with_what_they_changed(control: Control) -> None:
    await changed(control, "WEB-1", {"status": "resolved", "resolvedInRelease": "1.4.2"})
    _, body, _ = await control.call("GET", "/orgs/acme/audit", params={"limit": "1"})
    (event,) = body["data"]
    assert event["action"] == "issue.change"
    assert event["data"] == {"status": "resolved", "resolvedInRelease": "1.4.2"}


async def test_a_list_says_what_has_no_issue(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await control.call("GET", ISSUES))[1]["untracked"] is None
    monkeypatch.setattr("control.issues.counting.counter.MAX_ISSUES", 0)
    ledger = Ledger(control.checks.database, control.acme)
    await ledger.occur(1, times=4)
    time = ledger.now.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    expected = {"occurrences": 4, "since": time, "last": time}
    assert (await control.call("GET", ISSUES))[1] == {
        "data": [], "nextCursor": None, "hasMore": False, "untracked": expected,
    }  # fmt: skip


async def test_channels_subscribe_to_events(control: Control) -> None:
    base = "/orgs/acme/projects/web/notification-channels"
    email = {"kind": "email", "name": "x", "config": {"to": ["a@example.org"]}}
    _, channel, _ = await control.call("POST", base, email)
    path = f"{base}/{channel['id']}/subscriptions"
    assert (await control.call("GET", path))[:2] == (200, {"events": []})
    for events in (["issue.regression", "issue.new"], ["issue.new"], []):
        status, body, _ = await control.call("PUT", path, {"events": events})
        assert (status, sorted(body["events"])) == (200, sorted(events))
        assert (await control.call("GET", path))[1] == body
    assert (await control.call("PUT", path, {"events": ["issue.old"]}))[0] == 400


async def test_issues_of_other_projects_cannot_be_merged(control: Control, errors: Ledger) -> None:
    target = (await the(control, "WEB-1"))["id"]
    _, shop, _ = await control.call("POST", "/orgs/acme/projects", {"slug": "shop", "name": "Shop"})
    foreign = Ledger(control.checks.database, control.globex)
    await foreign.occur(1)
    await errors.count([occurrence(int(shop["id"]), fingerprint(1), errors.now)])
    sources = [(await foreign.issue(1)).id]
    _, page, _ = await control.call("GET", "/orgs/acme/projects/shop/issues")
    sources += [page["data"][0]["id"], "iss_00000000000000000000000000"]
    answers = [await control.call("POST", f"{ISSUES}/{target}/merge", {"issueIds": [one]}) for one in sources]
    assert [answer[0] for answer in answers] == [404] * 3
    assert len({answer[1]["error"]["message"] for answer in answers}) == 1
    assert (await the(control, "WEB-1"))["count"] == 1
