"""What each platform sends, and the whole answer to it."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
import sqlalchemy as sa

from chassis.changes import change_events
from chassis.issues import issues
from control.audit.tables import audit_events
from control.inbound.integrations.tables import IntegrationKind
from control.issues.releases.tables import commits, proposals, releases
from control.issues.tables import issue_activity, issue_links
from tests.control.inbound.webhooks.forges import payloads
from tests.control.inbound.webhooks.forges.payloads import full_sha, github_commit
from tests.control.inbound.webhooks.forges.sending import Scm, result
from tests.control.inbound.webhooks.senders import FOLDER
from tests.control.issues.releases.stored import new_issue
from tests.programs import packages

EXAMPLES: Final = "@octokit/webhooks-examples/api.github.com/index.json"
_OLD: Final = re.compile(rb'"20(19|2[0-9])-[0-9]{2}-[0-9]{2}T')

Case = tuple[str, object, dict[str, Any]]


async def link(scm: Scm, issue_id: str, url: str, state: str | None = None) -> None:
    path = f"/orgs/acme/projects/web/issues/{issue_id}/links"
    assert (await scm.control.call("POST", path, {"url": url, "state": state}))[0] == 201


async def statuses(scm: Scm) -> dict[int, str]:
    return {row.number: row.status for row in await scm.rows(sa.select(issues.c.number, issues.c.status))}


async def play(scm: Scm, kind: IntegrationKind, cases: Sequence[Case], **config: Any) -> None:
    """Every case gets its answer."""
    integration = await scm.integrate(kind, **config)
    for number, (event, body, changes) in enumerate(cases):
        assert await scm.accepted(integration, event, body) == result(event, **changes), number


async def test_every_example_of_github_is_answered(scm: Scm) -> None:
    """As they were published; some with times, too, that are not too long ago for a time line."""
    integration = await scm.integrate(IntegrationKind.GITHUB)
    today = payloads.rfc(0)[:11].encode()
    expected: dict[tuple[str, bool], list[dict[str, Any]]] = {
        ("push", False): [{"commitsUpserted": 1}],
        ("release", True): [{"changeEventsCreated": 1}],
        ("deployment_status", True): [{"changeEventsCreated": 1}],
    }
    seen = 0
    for recent in (False, True):
        others: list[tuple[str, object]] = []
        for events in msgspec.json.decode((packages(FOLDER) / EXAMPLES).read_bytes()):
            for example in events["examples"]:
                body = _OLD.sub(b'"' + today, msgspec.json.encode(example)) if recent else msgspec.json.encode(example)
                if events["name"] not in ("push", "release", "deployment_status"):
                    others += [] if recent else [(events["name"], body)]
                    continue
                answer = await scm.accepted(integration, events["name"], body)
                effects = {name: count for name, count in answer.items() if type(count) is int and count}
                wanted = expected.get((events["name"], recent), [])
                assert not effects or (wanted and effects == wanted.pop(0)), (events["name"], effects)
                assert answer == result(events["name"], **effects)
                seen += 1
        for start in range(0, len(others), 100):
            some = others[start : start + 100]
            answers = await scm.accepted_together(integration, some)
            assert answers == [result(event) for event, _ in some]
            seen += len(some)
    assert not any(expected.values())
    assert seen > 329
    assert len(await scm.rows(sa.select(proposals.c.id))) == 1


@pytest.mark.both_stores
async def test_a_story_on_github(scm: Scm) -> None:
    ids = [await new_issue(scm.control, number) for number in range(1, 7)]
    await link(scm, ids[3], "https://github.com/Shop/Web/issues/40")
    await link(scm, ids[4], "https://github.com/shop/web/issues/41", "open")
    fix, merge, revert = full_sha("f1"), full_sha("3e"), full_sha("9e")
    elsewhere = github_commit("e1", "Fixes WEB-3", distinct=False), github_commit("e2", "Fixes WEB-3")
    cases: list[Case] = [
        ("ping", {"zen": "Keep it simple", "hook_id": 1, "hook": {"id": 1}}, {}),
        ("push", payloads.github_push(1, *elsewhere, branch="topic"), {"commitsUpserted": 1}),
        ("push", payloads.github_push(2, github_commit("f1", "Fixes WEB-1", 2)), {"commitsUpserted": 1}),
        ("push", payloads.github_push(2, github_commit("f1", "Fixes WEB-1", 2), branch="other"), {}),
        ("push", payloads.github_push(3, github_commit("9e", f"Revert\n\nThis reverts commit {fix}.", 3)),
         {"commitsUpserted": 1, "issuesReopened": ["WEB-1"]}),
        ("push", payloads.github_push(4), {}),
        ("push", payloads.github_push(4, github_commit("f2", "Tag")) | {"ref": "refs/tags/v1"}, {}),
        ("pull_request", payloads.github_pull_request(5, "opened", 7, "Fixes WEB-2"), {}),
        ("pull_request", payloads.github_pull_request(6, "opened", 8, "Closes WEB-2", opened=6), {}),
        ("pull_request", payloads.github_pull_request(7, "edited", 7, None, title="Fixes: WEB-2"), {}),
        ("pull_request", payloads.github_pull_request(7, "labeled", 9, "Fixes WEB-6"), {}),
        ("pull_request", payloads.github_pull_request(8, "synchronize", 8, "Closes WEB-2"), {}),
        ("pull_request", payloads.github_pull_request(
            9, "closed", 10, "Fixes WEB-6", state="closed", merged=True, merge_sha="ab", base="release"),
         {"proposalsMerged": ["shop/web#10"]}),
        ("pull_request", payloads.github_pull_request(
            10, "closed", 7, "Fixes WEB-2", state="closed", merged=True, merge_sha="3e"),
         {"proposalsMerged": ["shop/web#7"], "proposalsSuperseded": ["shop/web#8"]}),
        ("pull_request", payloads.github_pull_request(
            11, "edited", 7, "Fixes WEB-2.", state="closed", merged=True, merge_sha="3e"), {}),
        ("pull_request", payloads.github_pull_request(12, "closed", 8, "Closes WEB-2", state="closed"), {}),
        ("pull_request", payloads.github_pull_request(13, "reopened", 8, "Closes WEB-2"), {}),
        ("push", payloads.github_push(14, github_commit("9f", f"This reverts commit {merge}.", 14)),
         {"commitsUpserted": 1, "issuesReopened": ["WEB-2"]}),
        ("push", payloads.github_push(15, github_commit("9d", f"Reapply x\n\nThis reverts commit {revert}.", 15)),
         {"commitsUpserted": 1}),
        ("issues", payloads.github_issue(16, "closed", 40, "closed", title="Sums\tof\x00carts"), {}),
        ("issues", payloads.github_issue(17, "edited", 40, "closed", title="Sums"), {}),
        ("issues", payloads.github_issue(18, "reopened", 40, "open", title="Sums"), {"issuesReopened": ["WEB-4"]}),
        ("issues", payloads.github_issue(16, "edited", 40, "closed", title="Late"), {}),
        ("issues", payloads.github_issue(16, "closed", 41, "closed", state_reason="not_planned"), {}),
        ("issues", payloads.github_issue(16, "closed", 77, "closed"), {}),
        ("issue_comment", payloads.github_issue(19, "created", 40, "open") | {"comment": {"id": 1}}, {}),
        ("release", payloads.github_release(20, "1.2.0", "created"), {}),
        ("release", payloads.github_release(20, "1.2.0"), {"changeEventsCreated": 1}),
        ("release", payloads.github_release(21, "1.2.0"), {}),
        ("deployment_status", payloads.github_deployment(22, 1, "in_progress"), {}),
        ("deployment_status", payloads.github_deployment(23, 1), {"changeEventsCreated": 1}),
        ("deployment_status", payloads.github_deployment(24, 1), {}),
        ("meta", {"action": "deleted", "hook_id": 5, "hook": {"id": 5}}, {}),
        ("workflow_run", {"action": "completed", "workflow_run": {"id": 1}}, {}),
    ]  # fmt: skip
    await play(scm, IntegrationKind.GITHUB, cases, hook_id="6")
    assert await statuses(scm) == dict.fromkeys(range(1, 7), "unresolved") | {1: "resolved"}
    rows = await scm.rows(sa.select(proposals).order_by(proposals.c.number))
    assert [(row.number, row.state, row.title, row.merge_sha) for row in rows] == [
        ("10", "merged", "Change 10", full_sha("ab")),
        ("7", "merged", "Change 7", full_sha("3e")),
        ("8", "open", "Change 8", None),
    ]
    rows = await scm.rows(sa.select(issue_links).order_by(issue_links.c.external_id))
    assert [(row.external_id, row.title, row.state) for row in rows] == [
        ("shop/web#40", "Sums", "open"),
        ("shop/web#41", "Totals", "closed"),
    ]
    rows = await scm.rows(sa.select(change_events).order_by(change_events.c.at))
    assert [(row.kind, row.title, row.source, row.environment, row.release, row.url, row.detail) for row in rows] == [
        ("release", "shop/web 1.2.0", "github", None, "1.2.0", "https://github.com/shop/web/releases/tag/1.2.0", None),
        ("deployment", "shop/web main", "github", "production", None, "https://shop.example",
         f"Commit {full_sha('de')}"),
    ]  # fmt: skip
    stored = (await scm.rows(sa.select(commits).where(commits.c.sha == fix)))[0]
    assert (stored.author_name, stored.author_email, stored.files) == ("Ada", "ada@example.com", ["src/cart.py"])
    assert (stored.authored_at, stored.default_branch_at) == (payloads.at(2), payloads.at(2))
    activity = await scm.rows(sa.select(issue_activity).where(issue_activity.c.issue_id == ids[0]))
    assert {(row.kind, row.principal_id, row.data["sha"], row.data.get("reverts")) for row in activity} == {
        ("commit", None, fix, None),
        ("resolved", None, fix, None),
        ("unresolved", None, revert, fix),
        ("resolved", None, full_sha("9d"), revert),
    }
    assert {row.data["integrationId"][:4] for row in activity} == {"int_"}


async def test_projects_and_settings_of_an_integration_count(scm: Scm) -> None:
    """Its projects get releases and deployments; without `sync_status` a ticket leaves its issues alone."""
    issue_id = await new_issue(scm.control, 1)
    await link(scm, issue_id, "https://github.com/shop/web/issues/40")
    await play(
        scm,
        IntegrationKind.GITHUB,
        [
            ("release", payloads.github_release(1, "2.0.0"), {"changeEventsCreated": 1}),
            ("release", payloads.github_release(1, "2.0.0") | {"again": 1}, {}),
            ("deployment_status", payloads.github_deployment(2, 1), {"changeEventsCreated": 1}),
            ("issues", payloads.github_issue(3, "closed", 40, "closed"), {}),
        ],
        projects=["gone", "web"],
        sync_status=False,
    )
    await play(
        scm,
        IntegrationKind.GITHUB,
        [
            ("release", payloads.github_release(1, "3.0.0"), {}),
            ("deployment_status", payloads.github_deployment(2, 2), {}),
        ],
        projects=["gone"],
    )
    assert [row.version for row in await scm.rows(sa.select(releases.c.version))] == ["2.0.0"]
    rows = await scm.rows(sa.select(change_events.c.kind, change_events.c.project_id).order_by(change_events.c.at))
    assert [tuple(row) for row in rows] == [(kind, scm.control.acme.project.id) for kind in ("release", "deployment")]
    assert await statuses(scm) == {1: "unresolved"}


async def test_the_integration_of_a_deleted_webhook_is_disabled(scm: Scm) -> None:
    """If it is bound to this one."""
    await play(
        scm, IntegrationKind.GITHUB, [("meta", {"action": "deleted", "hook_id": 5, "hook": {"id": 5}}, {})], hook_id="5"
    )
    integration = await scm.integrate(IntegrationKind.GITHUB, hook_id="6", enabled=False)
    rows = await scm.rows(sa.text("SELECT enabled, version FROM integrations ORDER BY id"))  # type: ignore[arg-type]
    assert [(bool(row.enabled), row.version) for row in rows] == [(False, 2), (False, 1)]
    assert (await scm.send(integration, "ping", {"zen": "", "hook": {}}))[0] == 404
    change = audit_events.c.action == "integration.change"
    recorded = await scm.rows(sa.select(audit_events.c.actor_id, audit_events.c.data).where(change))
    assert [(row.actor_id, msgspec.json.decode(row.data)["enabled"]) for row in recorded] == [(None, False)]


async def test_a_story_on_gitlab(scm: Scm) -> None:
    ids = [await new_issue(scm.control, number) for number in range(1, 5)]
    await link(scm, ids[2], "https://gitlab.com/shop/web/-/issues/40")
    fix = full_sha("f1")
    await play(
        scm,
        IntegrationKind.GITLAB,
        [
            ("Push Hook", payloads.gitlab_push(1, "e1", "Fixes WEB-1", "topic"), {"commitsUpserted": 1}),
            ("Push Hook", payloads.gitlab_push(2, "f1", "Fixes WEB-1"), {"commitsUpserted": 1}),
            ("Push Hook", payloads.gitlab_push(3, "9e", f"This reverts commit {fix}."),
             {"commitsUpserted": 1, "issuesReopened": ["WEB-1"]}),
            ("Tag Push Hook", {"object_kind": "tag_push", "ref": "refs/tags/v1", "commits": []}, {}),
            ("Merge Request Hook", payloads.gitlab_merge_request(4, "open", 3, "opened", "Fixes WEB-2"), {}),
            ("Merge Request Hook", payloads.gitlab_merge_request(5, "open", 4, "opened", "Fixes WEB-2"), {}),
            ("Merge Request Hook", payloads.gitlab_merge_request(6, "approved", 4, "opened", "Fixes WEB-4"), {}),
            ("Merge Request Hook", payloads.gitlab_merge_request(7, "update", 4, "locked", "Fixes WEB-2"), {}),
            ("Merge Request Hook", payloads.gitlab_merge_request(8, "merge", 3, "merged", "Fixes WEB-2"),
             {"proposalsMerged": ["shop/web#3"], "proposalsSuperseded": ["shop/web#4"]}),
            ("Merge Request Hook", payloads.gitlab_merge_request(9, "close", 4, "closed", None), {}),
            ("Merge Request Hook", payloads.gitlab_merge_request(10, "merge", 5, "merged", "Fixes WEB-4", "old"),
             {"proposalsMerged": ["shop/web#5"]}),
            ("Issue Hook", payloads.gitlab_issue(11, "close", 40, "closed"), {}),
            ("System Hook", payloads.gitlab_issue(12, "reopen", 40, "opened", "work_item"),
             {"issuesReopened": ["WEB-3"]}),
            ("Release Hook", payloads.gitlab_release(13, "1.0.0"), {"changeEventsCreated": 1}),
            ("Release Hook", payloads.gitlab_release(13, "1.0.0", "update"), {}),
            ("Deployment Hook", payloads.gitlab_deployment(14, 15, "running"), {}),
            ("Deployment Hook", payloads.gitlab_deployment(15, 15), {"changeEventsCreated": 1}),
            ("Pipeline Hook", {"object_kind": "pipeline", "object_attributes": {"id": 31}}, {}),
        ],
    )  # fmt: skip
    assert await statuses(scm) == {1: "unresolved", 2: "resolved", 3: "unresolved", 4: "unresolved"}
    rows = await scm.rows(sa.select(proposals).order_by(proposals.c.number))
    assert [(row.number, row.state, row.merge_sha) for row in rows] == [
        ("3", "merged", full_sha("3e")),
        ("4", "closed", None),
        ("5", "merged", full_sha("3e")),
    ]
    row = (await scm.rows(sa.select(change_events).where(change_events.c.kind == "deployment")))[0]
    assert (row.at, row.environment, row.url, row.detail) == (
        *(payloads.at(15), "staging", "https://staging.shop.example"),
        f"Commit {full_sha('279484c0')}",
    )


async def test_stories_on_bitbucket(scm: Scm) -> None:
    """Cloud, then Data Center: one kind of integration."""
    ids = [await new_issue(scm.control, number) for number in range(1, 6)]
    await link(scm, ids[2], "https://bitbucket.org/shop/web/issues/40/totals")
    await play(
        scm,
        IntegrationKind.BITBUCKET,
        [
            ("repo:push", payloads.bitbucket_push(1, "e1", "Fixes WEB-5", "topic"), {"commitsUpserted": 1}),
            ("repo:push", payloads.bitbucket_push(2, "f1", "Fixes WEB-1"), {"commitsUpserted": 1}),
            ("pullrequest:created", payloads.bitbucket_pull_request(3, 1, "OPEN", "Fixes WEB-2"), {}),
            ("pullrequest:created", payloads.bitbucket_pull_request(3, 2, "OPEN", "Fixes WEB-2"), {}),
            ("pullrequest:approved",
             payloads.bitbucket_pull_request(4, 2, "OPEN", "Fixes WEB-5") | {"approval": {"date": "x"}}, {}),
            ("pullrequest:fulfilled", payloads.bitbucket_pull_request(5, 1, "MERGED", "Fixes WEB-2"),
             {"proposalsMerged": ["shop/web#1"], "proposalsSuperseded": ["shop/web#2"]}),
            ("pullrequest:rejected", payloads.bitbucket_pull_request(6, 2, "DECLINED", ""), {}),
            ("issue:updated", payloads.bitbucket_issue(7, 40, "resolved"), {}),
            ("issue:updated", payloads.bitbucket_issue(8, 40, "open"), {"issuesReopened": ["WEB-3"]}),
            ("repo:fork", {"repository": {"full_name": "shop/web"}}, {}),
            ("diagnostics:ping", {"test": True}, {}),
            ("repo:refs_changed", payloads.data_center_push(9, "f3", "Fixes WEB-3"), {"commitsUpserted": 1}),
            ("pr:opened", payloads.data_center_pull_request(10, "pr:opened", 1, "OPEN", "Fixes WEB-4"), {}),
            ("pr:merged", payloads.data_center_pull_request(11, "pr:merged", 1, "MERGED", "Fixes WEB-4"),
             {"proposalsMerged": ["SHOP/web#1"]}),
            ("pr:opened", payloads.data_center_pull_request(12, "pr:opened", 2, "OPEN", "Fixes WEB-5"), {}),
            ("pr:declined", payloads.data_center_pull_request(13, "pr:declined", 2, "DECLINED", ""), {}),
            ("pr:comment:added", {"eventKey": "pr:comment:added", "comment": {"id": 1}}, {}),
        ],
    )  # fmt: skip
    assert await statuses(scm) == {1: "resolved", 2: "resolved", 3: "resolved", 4: "resolved", 5: "unresolved"}
    rows = await scm.rows(sa.select(commits).order_by(commits.c.sha))
    assert [(row.sha, row.author_name, row.author_email, row.files) for row in rows] == [
        (full_sha(start), "Ada", "ada@example.com", None) for start in ("e1", "f1", "f3")
    ]
    rows = await scm.rows(sa.select(proposals).order_by(proposals.c.repository, proposals.c.number))
    assert {(row.repository, row.number, row.state, row.merge_sha, row.changed_at) for row in rows} == {
        ("SHOP/web", "1", "merged", full_sha("cbf26be"), payloads.at(11)),
        ("SHOP/web", "2", "closed", None, payloads.at(13)),
        ("shop/web", "1", "merged", "764413d85e29", payloads.at(5).replace(microsecond=205000)),
        ("shop/web", "2", "closed", None, payloads.at(6).replace(microsecond=205000)),
    }


@pytest.mark.parametrize("kind", [IntegrationKind.GITEA, IntegrationKind.FORGEJO])
async def test_a_story_on_gitea_and_forgejo(scm: Scm, kind: IntegrationKind) -> None:
    ids = [await new_issue(scm.control, number) for number in range(1, 5)]
    await link(scm, ids[3], "https://git.shop.example/shop/web/issues/40")
    revert = ("9e", f"This reverts commit {full_sha('f1')}.")
    review = payloads.gitea_pull_request(7, "reviewed", 2, "Fixes WEB-1") | {"review": {"type": "approve"}}
    await play(
        scm,
        kind,
        [
            ("push", payloads.gitea_push(1, ("f2", "Fixes WEB-2"), revert, ("f1", "Fixes WEB-1")),
             {"commitsUpserted": 3}),
            ("push", payloads.gitea_push(2, ("e1", "Fixes WEB-3"), branch="topic"), {"commitsUpserted": 1}),
            ("push", payloads.gitea_push(3, ("e0", "x")) | {"commits": None, "total_commits": 0}, {}),
            ("pull_request", payloads.gitea_pull_request(4, "opened", 2, "Fixes WEB-3"), {}),
            ("pull_request", payloads.gitea_pull_request(5, "synchronized", 2, "Fixes WEB-3"), {}),
            ("pull_request", payloads.gitea_pull_request(6, "label_updated", 2, "Fixes WEB-1"), {}),
            ("pull_request_approved", review, {}),
            ("pull_request", payloads.gitea_pull_request(8, "closed", 2, "Fixes WEB-3", merged=True),
             {"proposalsMerged": ["shop/web#2"]}),
            ("issues", payloads.gitea_issue(9, "closed", 40, "closed"), {}),
            ("issues", payloads.gitea_issue(10, "reopened", 40, "open"), {"issuesReopened": ["WEB-4"]}),
            ("issue_comment", payloads.gitea_issue(11, "created", 40, "open") | {"comment": {"id": 1}}, {}),
            ("release", payloads.gitea_release(12, "v1.0"), {"changeEventsCreated": 1}),
            ("release", payloads.gitea_release(12, "v1.0", "updated"), {}),
            ("repository", {"action": "deleted", "repository": payloads.GITEA_REPOSITORY}, {}),
            ("create", {"ref": "v1.0", "ref_type": "tag", "sha": full_sha("f2")}, {}),
        ],
    )  # fmt: skip
    assert await statuses(scm) == {1: "unresolved", 2: "resolved", 3: "resolved", 4: "unresolved"}
    assert [row.source for row in await scm.rows(sa.select(change_events.c.source))] == [kind.value]
    link_row = (await scm.rows(sa.select(issue_links)))[0]
    assert (link_row.system, link_row.title, link_row.state) == ("other", "Totals", "open")
