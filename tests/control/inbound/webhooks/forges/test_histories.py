"""Any order of deliveries leaves issues as the code is: resolved while a change that fixes them is in it."""

import asyncio
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.issues import issues
from control.issues.tables import issue_activity
from tests.control.inbound.webhooks.forges.histories import FORGES, Writer
from tests.control.inbound.webhooks.forges.sending import Scm
from tests.control.issues.releases.stored import new_issue
from tests.selection import scaled

ISSUES = 4


async def fixed(scm: Scm, first: int) -> set[str]:
    of_run = issues.c.number.between(first, first + ISSUES - 1)
    found = await scm.rows(sa.select(issues.c.number).where(of_run, issues.c.status == "resolved"))
    return {f"WEB-{row.number}" for row in found}


@pytest.mark.sized
@pytest.mark.parametrize("forge", [pytest.param("github", marks=pytest.mark.both_stores), *list(FORGES)[1:]])
async def test_any_order_of_deliveries_gives_the_state_of_the_code(scm: Scm, forge: str) -> None:
    """Changes of every kind, each reverted by hash or by number, reverts too; some deliveries come twice."""
    integration = await scm.integrate(FORGES[forge].kind)
    for run in range(scaled(1, 60)):
        first, chance = 1 + run * ISSUES, Random(f"{forge} {run}")
        for number in range(first, first + ISSUES):
            await new_issue(scm.control, number)
        history = Writer(FORGES[forge], [f"WEB-{first + number}" for number in range(ISSUES)], run + 1)
        sent = list(history.deliveries())
        if run % 30 != 1:  # which has each once, in its order
            sent += chance.choices(sent, k=len(sent) // 2)
            chance.shuffle(sent)
        while sent:
            size = chance.choice((1, 1, 2, 5))
            group, sent = sent[:size], sent[size:]
            await asyncio.gather(*(scm.accepted(integration, event, body) for event, body in group))
        assert await fixed(scm, first) == history.fixed(), (run, [vars(one) for one in history.changes])


async def test_a_repeated_delivery_leaves_no_activity(scm: Scm) -> None:
    """A delivery that changes nothing leaves no activity."""
    integration = await scm.integrate(FORGES["github"].kind)
    await new_issue(scm.control, 1)
    history = Writer(FORGES["github"], ["WEB-1"], 7)
    sent = list(history.deliveries())
    for event, body in sent:
        await scm.accepted(integration, event, body)
    activity = sa.select(sa.func.count()).select_from(issue_activity)
    before = await scm.rows(activity)
    for event, body in Random(3).sample(sent, len(sent)):
        await scm.accepted(integration, event, body | {"again": 1} if event == "push" else body)
    assert await scm.rows(activity) == before
    kinds: list[Any] = await scm.rows(sa.select(issue_activity.c.kind).order_by(issue_activity.c.id))
    changes = [row.kind for row in kinds if row.kind in ("resolved", "unresolved")]
    assert all(one != other for one, other in pairwise(changes))
