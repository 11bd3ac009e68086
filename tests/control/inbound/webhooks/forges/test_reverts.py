"""Reverts as platforms report them, and what people decide meanwhile."""

import hashlib
from itertools import permutations
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.auth.tables import projects
from chassis.issues import issues
from control.code.fixes import graph
from control.inbound.integrations.tables import Integration, IntegrationKind
from tests.control.inbound.webhooks.forges import payloads
from tests.control.inbound.webhooks.forges.histories import FORGES
from tests.control.inbound.webhooks.forges.payloads import github_commit, rfc
from tests.control.inbound.webhooks.forges.sending import Scm
from tests.control.issues.releases.stored import activity, new_issue
from tests.selection import scaled

NOW = 10_000  # minutes that are not yet: such a push counts from when it is received


def sha(name: str) -> str:
    return hashlib.sha1(name.encode()).hexdigest()  # noqa: S324


def push(minutes: int, *named: tuple[str, str], branch: str = "main") -> tuple[str, Any]:
    listed = [github_commit(sha(name), message, minutes) for name, message in named]
    return "push", payloads.github_push(minutes, *listed, branch=branch)


def merged(minutes: int, number: int, title: str, text: str, name: str, edited: int | None = None) -> tuple[str, Any]:
    more: dict[str, Any] = {"title": title, "state": "closed", "merged": True, "merged_at": rfc(minutes)}
    at, action = (minutes, "closed") if edited is None else (edited, "edited")
    return "pull_request", payloads.github_pull_request(at, action, number, text, merge_sha=sha(name), **more)


async def status(scm: Scm, number: int = 1) -> str:
    (row,) = await scm.rows(sa.select(issues.c.status).where(issues.c.number == number))
    return str(row.status)


async def tell(scm: Scm, integration: Integration, *sent: tuple[str, Any]) -> None:
    for event, body in sent:
        await scm.accepted(integration, event, body)


async def change(scm: Scm, issue_id: str, **body: Any) -> None:
    path = f"/orgs/acme/projects/web/issues/{issue_id}"
    assert (await scm.control.call("PATCH", path, body))[0] == 200


FIX = [merged(1, 1, "Fixes WEB-1: totals", "", "fix"), push(1, ("fix", "Fixes WEB-1: totals (#1)"))]
# What is reported, by what its issue is in the end.
STORIES: dict[str, dict[str, list[tuple[str, Any]]]] = {
    "unresolved": {
        "a revert by button, with both events": [
            *FIX,
            push(2, ("undo", f'Revert "Fixes WEB-1: totals (#1)" (#2)\n\nThis reverts commit {sha("fix")}.')),
            merged(2, 2, 'Revert "Fixes WEB-1: totals"', "Reverts shop/web#1", "undo"),
        ],
        "a squashed revert without a hash": [
            *FIX, push(2, ("undo", 'Revert "Fixes WEB-1: totals" (#2)\n\nReverts shop/web#1'))],
        "a revert of one that was never reported": [
            push(2, ("undo", 'Revert "Fixes WEB-1: totals" (#2)\n\nReverts shop/web#9'))],
        "a merge, and its revert as a whole": [
            push(1, ("a", "Fixes WEB-1"), ("b", "Tidy up"), ("merge", "Merge branch 'topic'")),
            push(2, ("undo", f"This reverts commit {sha('merge')}, reversing\nchanges made to {sha('old')}.")),
        ],
        "a description that is changed after the merge": [
            *FIX[1:], merged(1, 1, "Totals", "", "fix"), merged(2, 2, "Undo", "", "undo"),
            merged(2, 2, "Undo", "Reverts #1", "undo", edited=3)],
        "a description that no longer fixes": [
            merged(1, 1, "Totals", "Fixes WEB-1", "x"), merged(1, 1, "Totals", "`Fixes WEB-1`", "x", edited=3)],
    },
    "resolved": {
        "a revert of a revert": [
            *FIX,
            push(2, ("undo", f'Revert "x"\n\nThis reverts commit {sha("fix")}.')),
            push(3, ("redo", f'Reapply "x"\n\nThis reverts commit {sha("undo")}.')),
        ],
        "a squashed fix beside a revert": [
            push(1, ("fix", f'Cart (#9)\n\n* Fixes WEB-1\n\n* Revert "try it"\n\nThis reverts commit {sha("try")}.'))],
        "a merge of which the last commit is reverted": [
            push(1, ("a", "Fixes WEB-1"), ("b", "Tidy up")), push(2, ("undo", f"This reverts commit {sha('b')}."))],
        "a number that two pull requests have in common with nothing": [
            push(1, ("a", "Fixes WEB-1 (#3)"), ("b", "Other (#4)")), push(2, ("undo", "Reverts shop/web#4"))],
        "a revert on another branch": [*FIX, push(2, ("undo", f"This reverts commit {sha('fix')}."), branch="topic")],
        "a description that no longer reverts": [
            *FIX, merged(2, 2, "Undo", "Reverts #1", "undo"), merged(2, 2, "Undo", "", "undo", edited=3)],
        "two pull requests that revert each other": [
            *FIX, merged(2, 2, "A", "Reverts #3\n\nReverts #1", "a"), merged(3, 3, "B", "Reverts #2", "b"),
            merged(2, 2, "A", "Reverts #3", "a", edited=4)],
    },
}  # fmt: skip


@pytest.mark.sized
async def test_any_order_of_a_story_ends_alike(scm: Scm, subtests: pytest.Subtests) -> None:
    """In its own order and in some others; what comes first comes again in the end."""
    integration = await scm.integrate(IntegrationKind.GITHUB)
    for story, expected, sent in [(name, end, STORIES[end][name]) for end in STORIES for name in STORIES[end]]:
        orders = list(permutations(sent))
        others = Random(story).sample(orders, min(len(orders), scaled(1, 24)))
        with subtests.test(story=story):
            for order in (sent, *others):
                await forget_everything(scm)
                await new_issue(scm.control, 1)
                await tell(scm, integration, *order, order[0])
                assert await status(scm) == expected, [event for event, _ in order]


async def forget_everything(scm: Scm) -> None:
    async with scm.control.checks.database.write() as connection:
        tables = ("code_reverts", "commit_issues", "proposal_issues", "commits", "proposals", "inbound_deliveries")
        for table in (*tables, "issue_activity", "issues"):
            await connection.execute(sa.text(f"DELETE FROM {table}"))


@pytest.mark.both_stores
async def test_what_a_person_has_resolved_stays_resolved(scm: Scm) -> None:
    """Whatever is reported late; and what happens later to the code opens it again."""
    integration = await scm.integrate(IntegrationKind.GITHUB)
    one = await new_issue(scm.control, 1)
    await tell(scm, integration, *FIX)
    undo = push(2, ("undo", f"This reverts commit {sha('fix')}."))
    await tell(scm, integration, undo)
    assert await status(scm) == "unresolved"
    await change(scm, one, status="resolved")
    late = merged(2, 2, 'Revert "x"', "Reverts shop/web#1", "undo")
    await tell(scm, integration, late, push(3, ("more", "Reverts shop/web#1")))
    assert await status(scm) == "resolved"
    await tell(scm, integration, push(4, ("again", "Fixes WEB-1")))
    assert await status(scm) == "resolved"
    await tell(scm, integration, push(NOW, ("gone", f"This reverts commit {sha('again')}.")))
    assert await status(scm) == "unresolved", "code fixed it when it was resolved, and does no more"
    kinds = sorted(kind for kind, _ in await activity(scm.control, one))
    assert kinds == ["commit"] * 2 + ["proposal"] + ["resolved"] * 2 + ["unresolved"] * 2


@pytest.mark.both_stores
async def test_what_a_person_has_opened_stays_open_until_a_later_fix(scm: Scm) -> None:
    integration = await scm.integrate(IntegrationKind.GITHUB)
    one = await new_issue(scm.control, 1)
    await tell(scm, integration, FIX[1])
    assert await status(scm) == "resolved"
    await change(scm, one, status="unresolved")
    await tell(scm, integration, FIX[0], push(3, ("late", "Fixes WEB-1")))
    assert await status(scm) == "unresolved"
    await tell(scm, integration, push(NOW, ("new", "Fixes WEB-1")))
    assert await status(scm) == "resolved"


async def test_a_push_counts_when_it_happens_not_when_its_commits_were_made(scm: Scm) -> None:
    """A commit is hours old, a person opens the issue, and the commit is pushed. The time of a push is when its webhook
    is received, if the platform sends none. Once more, and another decision: the first time counts.
    """
    for number, (name, forge) in enumerate(FORGES.items(), 1):
        integration = await scm.integrate(forge.kind)
        issue_id = await new_issue(scm.control, number)
        sends_time = name in ("github", "data center")
        await change(scm, issue_id, status="resolved")
        await change(scm, issue_id, status="unresolved")
        pushed = forge.push(NOW if sends_time else 1, [(sha(f"fix on {name}"), f"Fixes WEB-{number}")])
        await tell(scm, integration, pushed)
        assert await status(scm, number) == "resolved", name
        await change(scm, issue_id, status="unresolved")
        await tell(scm, integration, (pushed[0], pushed[1] | {"again": 1}))
        assert await status(scm, number) == "unresolved", name


async def test_issues_of_a_deleted_project_stay_as_they_are(scm: Scm) -> None:
    integration = await scm.integrate(IntegrationKind.GITHUB)
    await new_issue(scm.control, 1)
    await tell(scm, integration, FIX[1])
    async with scm.control.checks.database.write() as connection:
        await connection.execute(projects.update().where(projects.c.slug == "web").values(deleted_at=payloads.at(2)))
    answer = await scm.accepted(integration, *push(3, ("undo", f"This reverts commit {sha('fix')}.")))
    assert (answer["issuesReopened"], await status(scm)) == ([], "resolved")


async def test_an_issue_that_is_ignored_is_resolved_by_a_later_fix_alone(scm: Scm) -> None:
    integration = await scm.integrate(IntegrationKind.GITHUB)
    one = await new_issue(scm.control, 1)
    await change(scm, one, status="ignored")
    await tell(scm, integration, *FIX)
    assert await status(scm) == "ignored"
    await tell(scm, integration, push(NOW, ("new", "Fixes WEB-1")))
    assert await status(scm) == "resolved"
    await tell(scm, integration, push(NOW, ("undo", f"This reverts commit {sha('new')}.")))
    assert await status(scm) == "unresolved"


async def test_an_activity_names_what_has_changed_the_code(scm: Scm) -> None:
    integration = await scm.integrate(IntegrationKind.GITHUB)
    one = await new_issue(scm.control, 1)
    await tell(
        scm,
        integration,
        FIX[0],
        push(2, ("undo", "Reverts #1")),
        merged(3, 3, "Redo", f"This reverts commit {sha('undo')}.", "redo"),
    )
    found = [data for kind, data in await activity(scm.control, one) if kind in ("resolved", "unresolved")]
    shop = {"repository": "shop/web", "integrationId": integration.id}
    assert sorted(found, key=str) == sorted(
        [
            shop | {"proposal": "1"},
            shop | {"sha": sha("undo"), "reverts": "#1"},
            shop | {"proposal": "3", "reverts": sha("undo")},
        ],
        key=str,
    )


async def test_the_newest_reverts_of_a_change_count_to_a_bound(scm: Scm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "MAX_REVERTING", 2)
    integration = await scm.integrate(IntegrationKind.GITHUB)
    await new_issue(scm.control, 1)
    reverts = [push(n, (f"undo {n}", f"This reverts commit {sha('fix')}.")) for n in (4, 2, 3)]
    undone = [f"This reverts commits {sha('undo 4')} and {sha('undo 3')}.", f"This reverts commit {sha('undo 2')}."]
    await tell(scm, integration, push(1, ("fix", "Fixes WEB-1")), *reverts)
    assert await status(scm) == "unresolved"
    await tell(scm, integration, push(5, ("redo", undone[0])))
    assert await status(scm) == "resolved", "the oldest revert does not count any more"
    await tell(scm, integration, push(6, ("again", undone[1])))
    assert await status(scm) == "resolved"


async def test_a_chain_of_reverts_is_followed_to_a_bound(scm: Scm, monkeypatch: pytest.MonkeyPatch) -> None:
    integration = await scm.integrate(IntegrationKind.GITHUB)
    await new_issue(scm.control, 1)
    chain = [push(1, ("0", "Fixes WEB-1"))]
    chain += [push(n + 1, (f"{n}", f"This reverts commit {sha(f'{n - 1}')}.")) for n in range(1, 12)]
    for number, one in enumerate(chain):
        await tell(scm, integration, one)
        assert await status(scm) == ("unresolved" if number % 2 else "resolved"), number
    monkeypatch.setattr(graph, "MAX_DEPTH", 4)
    await tell(scm, integration, push(20, ("f", "Fixes WEB-1")))
    assert await status(scm) == "resolved"
