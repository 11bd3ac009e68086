"""Pushes that change no issue are applied together: the effects are those of each by itself, with fewer statements."""

import asyncio
import random
from typing import Any

import pytest
import sqlalchemy as sa

from control.code import pushes
from control.inbound.integrations.model import IntegrationKind
from control.inbound.webhooks import inbox
from control.issues.releases.tables import code_reverts, commits
from tests.control.inbound.webhooks.forges import payloads
from tests.control.inbound.webhooks.forges.deliveries import Scm, result
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
