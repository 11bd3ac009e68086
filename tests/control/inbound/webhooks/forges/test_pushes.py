"""Pushes that are recorded together, and pushes of which the platform lists only some commits."""

import asyncio
import random
from typing import Any

import pytest
import sqlalchemy as sa

from control.code import pushes
from control.inbound.integrations.tables import IntegrationKind
from control.inbound.webhooks import inbox
from control.issues.releases.tables import code_reverts, commits
from tests.control.inbound.webhooks.forges import payloads
from tests.control.inbound.webhooks.forges.payloads import full_sha
from tests.control.inbound.webhooks.forges.sending import Scm, result
from tests.control.issues.releases.test_cost import counted

GITHUB = IntegrationKind.GITHUB


def push(number: int, *messages: str, branch: str = "main") -> dict[str, Any]:
    sent = [payloads.github_commit(f"{number:x}f{n:06x}", message) for n, message in enumerate(messages)]
    return payloads.github_push(number, *sent, branch=branch)


async def stored(scm: Scm) -> list[tuple[str, str, bool, bool]]:
    on_branch = commits.c.default_branch_at.is_not(None).label("on_branch")
    is_revert = sa.exists().where(code_reverts.c.source_id == commits.c.id)
    columns = (commits.c.sha, commits.c.message, on_branch, is_revert.label("is_revert"))
    return [tuple(row) for row in await scm.rows(sa.select(*columns).order_by(commits.c.sha))]


@pytest.mark.both_stores
async def test_they_share_statements(scm: Scm) -> None:
    one, other = await scm.integrate(GITHUB), await scm.integrate(GITHUB)
    foreign = await scm.integrate(GITHUB, tenant=scm.control.globex)
    assert await scm.accepted(one, "push", push(0, "first"))
    sent = [(one if n % 2 else other, push(n, "x", "y")) for n in range(1, 31)]
    sent += [(foreign, push(1, "x")), (one, push(40)), (one, push(41, "on a branch", branch="work"))]
    with counted(scm.control) as seen:
        answers = await asyncio.gather(*(scm.accepted(integration, "push", body) for integration, body in sent))
    upserted = [answer["commitsUpserted"] for answer in answers]
    assert upserted == [2] * 30 + [1, 0, 1]
    assert len(await stored(scm)) == 1 + 60 + 1 + 1
    assert [on_branch for _, message, on_branch, _ in await stored(scm) if message == "on a branch"] == [False]
    assert len([one for one in seen if one.startswith("INSERT INTO commits")]) <= 2 * 6, (
        "of each organization and batch"
    )


async def test_the_order_and_the_company_in_which_they_arrive_change_nothing(
    scm: Scm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known commits, commits of two pushes, reverts, and more than are recorded together."""
    monkeypatch.setattr(pushes, "MAX_PLAIN_COMMITS", 5)
    monkeypatch.setattr(inbox, "MAX_BATCH", 7)
    one = await scm.integrate(GITHUB)
    bodies = [push(n, *(["x", "y"][: n % 3])) for n in range(9)]
    shared = payloads.github_commit("abcdef0", "in two pushes")
    bodies += [payloads.github_push(10 + n, shared) for n in range(3)]
    bodies += [payloads.github_push(20, shared, branch="work"), push(21, "a", "b", "c", "d", "e", "f")]
    bodies += [push(22, "Revert it\n\nThis reverts commit abcdef0."), push(23, "Fixes ACME-99")]
    chance, answers = random.Random(5), []
    for _ in range(3):
        chance.shuffle(bodies)
        answers = await scm.accepted_together(one, [("push", body) for body in bodies])
    rows = await stored(scm)
    assert len(rows) == 9 + 1 + 6 + 1 + 1
    assert all(on_branch for _, _, on_branch, _ in rows)
    assert [message[:9] for _, message, _, is_revert in rows if is_revert] == ["Revert it"]
    again = await scm.accepted_together(one, [("push", body) for body in bodies])
    assert again == answers, "each is applied once"
    assert sum(answer["commitsUpserted"] for answer in answers) == len(rows)
    assert {answer["event"] for answer in answers} == {result("push")["event"]}


MAX_COMMITS = 30  # instead of 2 048
MANY = [payloads.github_commit(f"{number:x}f{number:06x}", "x") for number in range(MAX_COMMITS + 2)]


def gitlab(total: int | None, **more: Any) -> dict[str, Any]:
    return payloads.gitlab_push(1, f"a{total or 0:05x}", "x") | {"total_commits_count": total} | more


def bitbucket(number: int, **more: Any) -> dict[str, Any]:
    body = payloads.bitbucket_push(1, f"b{number:05x}", "x")
    body["push"]["changes"][0] |= more
    return body


def data_center(number: int, **more: Any) -> dict[str, Any]:
    return payloads.data_center_push(1, f"c{number:05x}", "x") | more


def gitea(number: int, total: int | None, **more: Any) -> dict[str, Any]:
    return payloads.gitea_push(1, (f"d{number:05x}", "x")) | {"total_commits": total} | more


def github(*sent: dict[str, Any], branch: str = "main") -> dict[str, Any]:
    return payloads.github_push(1, *sent, branch=branch)


# Of each event: the body, how many commits are new, and how many are not listed.
PUSHES: dict[tuple[IntegrationKind, str], list[tuple[dict[str, Any], int, int | None]]] = {
    (IntegrationKind.GITHUB, "push"): [
        (github(*MANY[: MAX_COMMITS - 1]), MAX_COMMITS - 1, 0),
        (github(*MANY[:MAX_COMMITS], branch="topic"), 1, None),
        (github(*MANY[1 : MAX_COMMITS + 1]), 1, None),
    ],
    (IntegrationKind.GITLAB, "Push Hook"): [
        (gitlab(1), 1, 0),
        (gitlab(0), 1, 0),
        (gitlab(None), 0, 0),
        (gitlab(21), 1, 20),
        (gitlab(30, ref="refs/heads/topic"), 1, 29),
        (gitlab(40, commits=[]), 0, 40),
        (gitlab(41, commits=None), 0, 41),
        (gitlab(42, ref="refs/tags/v1"), 0, 0),
    ],
    (IntegrationKind.BITBUCKET, "repo:push"): [
        (bitbucket(1), 1, 0),
        (bitbucket(2, truncated=None), 1, 0),
        (bitbucket(3, truncated=True), 1, None),
        (bitbucket(4, truncated=True, commits=[]), 0, None),
        (bitbucket(5, truncated=True, new=None), 0, 0),
        (bitbucket(6, truncated=True, new={"type": "branch", "name": "topic"}), 1, None),
    ],
    (IntegrationKind.GITEA, "push"): [
        (gitea(1, 1), 1, 0),
        (gitea(2, None), 1, 0),
        (gitea(3, 6), 1, 5),
        (gitea(4, 7, commits=None), 0, 7),
        (gitea(5, 9, ref="refs/heads/topic"), 1, 8),
        (gitea(6, None, commits=MANY[::-1]), 1, None),
        (gitea(7, MAX_COMMITS + 2, commits=[*MANY[::-1], MANY[0]]), 0, 3),
    ],
    (IntegrationKind.BITBUCKET, "repo:refs_changed"): [
        (data_center(1), 1, 0),
        (data_center(2, commits=None), 0, None),
        (data_center(3, commits=[]), 0, 0),
        (data_center(4, commits=None, changes=[{"ref": {"displayId": "x", "type": "BRANCH"}, "type": "DELETE"}]), 0, 0),
    ],
}


async def test_what_the_platform_does_not_list_is_said(scm: Scm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.inbound.webhooks.forges.github.MAX_COMMITS", MAX_COMMITS)
    for (kind, event), sent in PUSHES.items():
        integration = await scm.integrate(kind)
        for body, upserted, not_listed in sent:
            expected = result(event, commitsUpserted=upserted, commitsNotListed=not_listed)
            for _ in range(2):  # a repeated delivery as well
                assert await scm.accepted(integration, event, body) == expected, (event, not_listed)


async def test_a_delivery_shows_it_and_redelivering_changes_nothing(scm: Scm) -> None:
    integration = await scm.integrate(IntegrationKind.GITLAB)
    for body in (gitlab(21), gitlab(40, commits=[])):
        await scm.accepted(integration, "Push Hook", body)
    path = f"/orgs/acme/integrations/{integration.id}/deliveries"
    status, page, _ = await scm.control.call("GET", path)
    assert status == 200
    assert [each["result"]["commitsNotListed"] for each in page["data"]] == [40, 20]
    for each, not_listed in zip(page["data"], (40, 20), strict=True):
        status, again, _ = await scm.control.call("POST", f"{path}/{each['id']}/redeliver")
        assert (status, again["result"]) == (200, result("Push Hook", commitsNotListed=not_listed))
    assert await scm.rows(sa.select(commits.c.sha)) == [(full_sha("a00015"),)]


async def test_pushes_of_several_branches_add_up(scm: Scm) -> None:
    integration = await scm.integrate(IntegrationKind.BITBUCKET)
    body = bitbucket(1)
    (main, closed) = body["push"]["changes"]
    topic = bitbucket(2, truncated=True, new={"type": "branch", "name": "topic"})["push"]["changes"][0]
    body["push"]["changes"] = [main, topic, closed]
    assert await scm.accepted(integration, "repo:push", body) == result(
        "repo:push", commitsUpserted=2, commitsNotListed=None
    )
