"""Releases that are reported, with their commits."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control.code import commits
from control.code.releases import store
from control.issues.lifecycle import find_merged, set_unresolved
from tests.control.conftest import Control
from tests.control.issues.releases.stored import NOW, activity, commit, issue, new_issue, new_project, report

RELEASES = "/orgs/acme/releases"


async def commits_of(control: Control, release_id: str, **parameters: str) -> list[Any]:
    """All of a release, page by page."""
    found: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        path = f"{RELEASES}/{release_id}/commits"
        _, page, _ = await control.call("GET", path, params={"limit": "2"} | cursor | parameters)
        found += page["data"]
        if not page["hasMore"]:
            return found
        cursor = {"cursor": page["nextCursor"]}


@pytest.mark.both_stores
async def test_a_report_is_stored_whole(control: Control) -> None:
    body = {
        "version": "checkout@1.4.0",
        "projects": ["web"],
        "repository": "shop/web",
        "ref": "v1.4.0",
        "url": "https://ci.example.org/builds/17?x=1#log",
        "releasedAt": "2026-11-20T16:00:00+01:00",
        "commits": [
            {
                "sha": "A" * 40,
                "message": "Round totals once\n\nBody\tof it\n",
                "authorName": "Ada",
                "authorEmail": "ada@host (none)",
                "authoredAt": "2026-11-19T10:00:00Z",
                "files": ["src/shop/cart.py", "docs/ünï cödé.md", "src/shop/cart.py"],
                "url": "https://git.example.org/shop/web/commit/aaaa",
            },
            {"sha": "b" * 64, "message": "", "repository": "shop/lib"},
        ],
    }
    status, answer, _ = await control.call("POST", RELEASES, body)
    assert status == 201
    assert (answer["version"], answer["ref"], answer["releasedAt"]) == (
        "checkout@1.4.0",
        "v1.4.0",
        "2026-11-20T15:00:00.000Z",
    )
    assert (answer["commits"], answer["commitsUpserted"], answer["issuesResolved"]) == (2, 2, [])
    assert answer["projects"] == [{"slug": "web", "firstSeen": None}]
    first, second = await commits_of(control, answer["id"])
    assert first == {
        "repository": "shop/web",
        "sha": "a" * 40,
        "message": "Round totals once\n\nBody\tof it\n",
        "authorName": "Ada",
        "authorEmail": "ada@host (none)",
        "authoredAt": "2026-11-19T10:00:00.000Z",
        "url": "https://git.example.org/shop/web/commit/aaaa",
        "files": ["src/shop/cart.py", "docs/ünï cödé.md"],
        "filesTruncated": False,
    }
    assert (second["repository"], second["files"]) == ("shop/lib", None)
    shown = {name: value for name, value in answer.items() if not name.startswith(("commitsU", "issues"))}
    assert (await control.call("GET", f"{RELEASES}/{answer['id']}"))[:2] == (200, shown)


@pytest.mark.both_stores
async def test_a_repeated_report_changes_nothing_and_a_longer_one_adds(control: Control) -> None:
    first = await report(control, "1.0.0", commit("a", "One", "x.py"), ref="v1")
    _, audit, _ = await control.call("GET", "/orgs/acme/audit")
    again = await report(control, "1.0.0", commit("a", "One", "x.py"), ref="v1")
    assert again == {**first, "commitsUpserted": 0}
    assert (await control.call("GET", "/orgs/acme/audit"))[1] == audit
    assert len((await control.call("GET", "/orgs/acme/changes"))[1]["data"]) == 1
    more = await report(control, "1.0.0", commit("a", "Other", "y.py"), commit("b", "Two"), commit("c", "Three"))
    assert (more["id"], more["commits"], more["commitsUpserted"], more["ref"]) == (first["id"], 3, 2, "v1")
    assert [one["message"] for one in await commits_of(control, first["id"])] == ["One", "Two", "Three"]


async def test_commits_without_files_get_them_from_a_later_report(control: Control) -> None:
    bare = commit("a", "One") | {"files": None}
    assert (await report(control, "1.0.0", bare))["commitsUpserted"] == 1
    later = await report(control, "1.1.0", commit("a", "One", "x.py", filesTruncated=True))
    assert (later["commitsUpserted"], later["commits"]) == (1, 1)
    (one,) = await commits_of(control, later["id"])
    assert (one["files"], one["filesTruncated"]) == (["x.py"], True)


async def test_a_release_is_201_where_it_is_new_in_a_project(control: Control) -> None:
    await new_project(control, "api")
    body = {"version": "1.0.0", "projects": ["web"]}
    assert [(await control.call("POST", RELEASES, body))[0] for _ in range(2)] == [201, 200]
    status, answer, _ = await control.call("POST", RELEASES, body | {"projects": ["api", "web", "api"]})
    assert (status, [one["slug"] for one in answer["projects"]]) == (201, ["api", "web"])
    _, changes, _ = await control.call("GET", "/orgs/acme/changes", params={"kind": "release"})
    assert sorted((one["project"], one["release"]) for one in changes["data"]) == [("api", "1.0.0"), ("web", "1.0.0")]


@pytest.mark.both_stores
async def test_releases_are_listed_by_project_and_prefix(control: Control) -> None:
    await new_project(control, "api")
    for version, project in (("web@1", "web"), ("api@1", "api"), ("web@2", "web"), ("Web@3", "web")):
        await report(control, version, projects=[project])

    async def versions(**parameters: str) -> list[str]:
        _, page, _ = await control.call("GET", RELEASES, params=parameters)
        return [one["version"] for one in page["data"]]

    assert await versions() == ["Web@3", "web@2", "api@1", "web@1"]
    assert await versions(project="web", query="web@") == ["web@2", "web@1"]
    assert await versions(query="w%") == []
    _, page, _ = await control.call("GET", RELEASES, params={"limit": "1", "query": "web@"})
    assert (await control.call("GET", RELEASES, params={"cursor": page["nextCursor"]}))[0] == 400
    assert (await control.call("GET", RELEASES, params={"project": "none"}))[0] == 400


@pytest.mark.both_stores
async def test_issues_that_commits_name_are_resolved_in_the_release(control: Control) -> None:
    await new_project(control, "api")
    ids = [await new_issue(control, number) for number in (1, 2, 3, 4)]
    foreign = await new_issue(control, 5, control.globex)
    answer = await report(
        control,
        "1.0.0",
        commit("a", "Round totals\n\nFixes: web-1, [WEB-2](https://tracker.example.org/3)"),
        commit("b", f"closes https://ops.example.org/orgs/acme/issues/{ids[2]}, see WEB-4, fixes API-1, fixes WEB-5"),
        commit("c", f"fixes https://ops.example.org/orgs/globex/issues/{foreign}"),
    )
    assert answer["issuesResolved"] == ["WEB-1", "WEB-2", "WEB-3"]
    rows = [await issue(control, one) for one in (*ids, foreign)]
    assert [row.status for row in rows] == ["resolved"] * 3 + ["unresolved"] * 2
    assert [row.resolved_in_release for row in rows[:3]] == ["1.0.0"] * 3
    named = {"repository": "shop/web", "sha": "a".ljust(40, "0")}
    assert await activity(control, ids[0]) == [("commit", named), ("resolved", {"inRelease": "1.0.0"} | named)]


async def test_only_projects_of_the_release_have_their_issues_resolved(control: Control) -> None:
    """And those of a further project once the release is reported there."""
    api = await new_project(control, "api")
    other = await new_issue(control, 7, project_id=api)
    assert (await report(control, "1.0.0", commit("a", "fix API-7")))["issuesResolved"] == []
    assert [kind for kind, _ in await activity(control, other)] == ["commit"]
    assert (await report(control, "1.0.0", projects=["api"]))["issuesResolved"] == ["API-7"]


async def test_a_fix_resolves_once(control: Control) -> None:
    """Not again where it is reported again, nor in later releases that list it again: the issue has come back since."""
    one = await new_issue(control, 1)
    fix = commit("a", "Fixes WEB-1")
    assert (await report(control, "1.0.0", fix))["issuesResolved"] == ["WEB-1"]
    async with control.checks.database.write() as connection:
        resolved = await find_merged(connection, one)
        assert resolved
        await set_unresolved(connection, resolved, now=datetime.now(UTC), by=None)
    assert (await report(control, "1.0.0", fix))["issuesResolved"] == []
    assert (await report(control, "1.1.0", fix, commit("b", "More")))["issuesResolved"] == []
    assert (await report(control, "1.2.0", commit("c", "Now. Fixes WEB-1")))["issuesResolved"] == ["WEB-1"]


@pytest.mark.both_stores
async def test_a_revert_reopens_what_the_commit_had_fixed(control: Control) -> None:
    one, two = await new_issue(control, 1), await new_issue(control, 2)
    fix = commit("a1", "Round\n\nFixes WEB-1, WEB-2")
    await report(control, "1.0.0", fix)
    revert = commit("b", f'Revert "Round (fixes WEB-1)"\n\nThis reverts commit {fix["sha"]}.\n')
    elsewhere = revert | {"repository": "shop/other"}
    assert (await report(control, "1.0.5", elsewhere))["issuesReopened"] == []
    answer = await report(control, "1.1.0", revert)
    assert (answer["issuesReopened"], answer["issuesResolved"]) == (["WEB-1", "WEB-2"], [])
    assert [(await issue(control, each)).status for each in (one, two)] == ["unresolved"] * 2
    assert (await report(control, "1.1.0", revert))["issuesReopened"] == []
    again = commit("c", f'Reapply "Round"\n\nThis reverts commit {revert["sha"]}.\n\nFixes WEB-1')
    assert (await report(control, "1.2.0", again))["issuesResolved"] == ["WEB-1", "WEB-2"], "the fix is there again"
    late = commit("d", f"Undo\n\nThis reverts commit {fix['sha'][:12]}.")
    assert (await report(control, "1.3.0", late))["issuesReopened"] == ["WEB-2"], "WEB-1 has a later fix"


async def test_a_fix_that_its_release_reverts_resolves_nothing(control: Control) -> None:
    """Also where the revert, which is newer, comes in an earlier part of the report."""
    one = await new_issue(control, 1)
    fix = commit("a", "Fixes WEB-1")
    await report(control, "1.0.0", commit("b", f"This reverts commit {fix['sha']}."))
    assert (await report(control, "1.0.0", fix))["issuesResolved"] == []
    assert (await issue(control, one)).status == "unresolved"


@pytest.mark.both_stores
async def test_a_report_settles_issues_that_wait_for_the_next_release(control: Control) -> None:
    await report(control, "1.1.0")
    waits: dict[str, Any] = {"status": "resolved", "resolved_at": NOW}
    one = await new_issue(control, 1, resolved_after_release="1.1.0", **waits)
    two = await new_issue(control, 2, resolved_after_release="2.0.0", **waits)
    await report(control, "1.0.9")
    assert (await issue(control, one)).resolved_in_release is None
    await report(control, "1.2.0")
    rows = [await issue(control, each) for each in (one, two)]
    assert [(row.resolved_in_release, row.resolved_after_release) for row in rows] == [("1.2.0", None), (None, "2.0.0")]


# What a report must not say, by the field that is named.
INVALID: dict[str, list[Any]] = {
    "projects": [[], ["web"] * 21],
    "projects[0]": [["none", "web"]],
    "version": [" 1", "a\u0000b"],
    "url": ["javascript:alert(1)", "https://user:pass@example.org/"],
    "releasedAt": [
        *("9999-12-31T23:59:59-14:00", "9998-12-31T23:59:59Z"),
        *("1969-12-31T23:59:59Z", "1970-01-01T00:00:00+14:00"),
    ],
    "environment": ["a\n"],
    "ref": ["a\n"],
    "repository": ["a b"],
    "commits": [[commit("a", "m")] * 501],
    "commits[0].sha": [[commit("x", "y")]],
    "commits[0].message": [[commit("a", "a\u0000b")]],
    "commits[0].files": [[commit("a", "m") | {"files": ["f"] * 1_001}]],
    "commits[0].files[0]": [[commit("a", "m", "a\u0000b")]],
    "commits[0].repository": [[commit("a", "m")]],  # where the report names none
}


async def test_invalid_reports_are_refused(control: Control) -> None:
    for field, value in [(field, value) for field, values in INVALID.items() for value in values]:
        body = {"version": "1.0.0", "projects": ["web"]} | {field.partition("[")[0]: value}
        if field not in ("repository", "commits[0].repository"):
            body["repository"] = "shop/web"
        status, answer, _ = await control.call("POST", RELEASES, body)
        ((fault,)) = answer["error"]["details"]
        assert (status, fault["path"]) == (400, f"body.{field}"), value
        assert fault["message"].startswith(("Must ", "Expected ", "Is "))


async def test_a_release_is_at_most_one_day_ahead(control: Control) -> None:
    for hours, status in ((23, 201), (25, 400)):
        at = (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"version": "1.0.0", "projects": ["web"], "releasedAt": at}
        assert (await control.call("POST", RELEASES, body))[0] == status


@pytest.mark.both_stores
async def test_odd_texts_are_stored_as_they_are(control: Control) -> None:
    message = "\x1b[31mred\x07 \u202egnp.exe 🦊 %s '; DROP TABLE commits; --\r\n" + "x" * 9_000
    answer = await report(control, "日本語/1 ü", commit("a", message, "a'b\"c\\d%.py"))
    (one,) = await commits_of(control, answer["id"])
    assert (one["message"], one["files"]) == (message[:8_192], ["a'b\"c\\d%.py"])


@pytest.mark.both_stores
async def test_the_number_of_everything_is_bounded(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest make room; a release that is too large is refused as a whole."""
    monkeypatch.setattr(store, "MAX_RELEASES", 2)
    monkeypatch.setattr(commits, "MAX_COMMITS", 3)
    monkeypatch.setattr("control.code.releases.store.MAX_RELEASE_COMMITS", 2)
    await new_issue(control, 1)
    for number in range(4):
        await report(control, f"1.{number}.0", commit(f"a{number}", "Fixes WEB-1"))
    _, page, _ = await control.call("GET", RELEASES)
    assert [(one["version"], one["commits"]) for one in page["data"]] == [("1.3.0", 1), ("1.2.0", 1)]
    body = {"version": "1.3.0", "projects": ["web"], "repository": "shop/web"} | {
        "commits": [commit("b1", "x"), commit("b2", "y")]
    }
    status, answer, _ = await control.call("POST", RELEASES, body)
    assert (status, "Report another version, or a shorter range" in answer["error"]["message"]) == (409, True)
    assert (await control.call("GET", f"{RELEASES}/{page['data'][0]['id']}"))[1]["commits"] == 1
