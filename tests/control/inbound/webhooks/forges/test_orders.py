"""Deliveries in any order, several times, together: the end is that of each once, in its order."""

import asyncio
from random import Random
from typing import Any, Final

import pytest
import sqlalchemy as sa

from chassis.changes import change_events
from chassis.issues import issues
from control.inbound.integrations.tables import Integration, IntegrationKind
from control.issues.releases.tables import commits, proposals
from control.issues.tables import issue_links
from tests.control.inbound.webhooks.forges import payloads
from tests.control.inbound.webhooks.forges.payloads import full_sha, github_commit
from tests.control.inbound.webhooks.forges.sending import Scm
from tests.control.issues.releases.stored import new_issue
from tests.selection import scaled

ISSUES: Final = 6
LISTS: Final = ("proposalsMerged", "proposalsSuperseded")


def story(repository: str, first: int, seed: int) -> list[tuple[str, Any]]:
    """What happens, in its order, to six issues from `first` on. Hashes are of this story alone."""
    numbers = [f"WEB-{first + number}" for number in range(ISSUES)]

    def sha(start: str) -> str:
        return f"{start}{seed:06x}"

    def push(minutes: int, *named: tuple[str, str], branch: str = "main") -> tuple[str, Any]:
        listed = [github_commit(sha(start), message, minutes) for start, message in named]
        return "push", payloads.github_push(minutes, *listed, branch=branch, repository=repository)

    def pull(minutes: int, action: str, number: int, text: str, **more: Any) -> tuple[str, Any]:
        state = "closed" if action == "closed" else "open"
        body = payloads.github_pull_request(minutes, action, number, text, state=state, repository=repository, **more)
        return "pull_request", body

    def ticket(minutes: int, action: str, state: str, title: str) -> tuple[str, Any]:
        return "issues", payloads.github_issue(minutes, action, 40, state, title, repository)

    fix, merge = full_sha(sha("f1")), full_sha(sha("3e"))
    return [
        push(1, ("e1", f"Fixes {numbers[0]}"), branch="topic"),
        push(2, ("f1", f"Fixes {numbers[0]}")),
        pull(3, "opened", 1, f"Fixes {numbers[1]}", opened=3),
        pull(4, "opened", 2, f"Fixes {numbers[1]}", opened=4),
        pull(5, "edited", 2, f"Closes {numbers[1]}", opened=4, title="Another way"),
        push(6, ("9e", f"This reverts commit {fix}.")),
        pull(6, "synchronize", 2, f"Closes {numbers[1]}", opened=4, title="Another way"),
        pull(7, "closed", 1, f"Fixes {numbers[1]}", opened=3, merged=True, merge_sha=sha("3e")),
        push(8, ("3e", "Merge"), ("f4", f"Fixes {numbers[3]}")),
        push(10, ("f2", f"Fixes {numbers[0]}, {numbers[2]}")),
        push(11, ("9f", f"This reverts commit {merge}.")),
        ticket(12, "edited", "open", "Sum"),
        ticket(13, "closed", "closed", "Sums"),
        ticket(14, "reopened", "open", "Sums"),
        ticket(15, "closed", "closed", "Sums again"),
        pull(16, "opened", 3, f"Fixes {numbers[4]}", opened=16),
        pull(17, "closed", 3, f"Fixes {numbers[4]}", opened=16),
        ("release", payloads.github_release(18, "1.0.0", repository=repository)),
        ("deployment_status", payloads.github_deployment(19, 1, repository=repository)),
        ("deployment_status", payloads.github_deployment(20, 2, repository=repository)),
    ]


async def state(scm: Scm, repository: str, first: int) -> dict[str, Any]:
    """What became of the story, whatever it is called."""
    columns = (proposals.c.number, proposals.c.title, proposals.c.state, proposals.c.changed_at)
    of_story = issues.c.number.between(first, first + ISSUES - 1)
    links = sa.select(issue_links.c.title, issue_links.c.state, issue_links.c.changed_at)
    listed = sa.select(sa.func.substr(commits.c.sha, 1, 2), commits.c.default_branch_at)
    events = sa.select(change_events.c.kind, change_events.c.at, change_events.c.environment)
    return {
        "issues": [tuple(row) for row in await scm.rows(
            sa.select(issues.c.number - first, issues.c.status).where(of_story).order_by(issues.c.number))],
        "proposals": [tuple(row) for row in await scm.rows(
            sa.select(*columns).where(proposals.c.repository == repository).order_by(proposals.c.number))],
        "commits": [tuple(row) for row in await scm.rows(
            listed.where(commits.c.repository == repository).order_by(commits.c.sha))],
        "links": [tuple(row) for row in await scm.rows(
            links.where(issue_links.c.external_id == f"{repository}#40"))],
        "changes": [tuple(row) for row in await scm.rows(
            events.where(change_events.c.title.startswith(f"{repository} ")).order_by(change_events.c.at))],
    }  # fmt: skip


async def tell(
    scm: Scm, integration: Integration, sent: list[tuple[str, Any]], random: Random | None
) -> dict[str, Any]:
    """Send everything, one after the other, or in groups at once; returns what the answers sum up to."""
    first: dict[int, Any] = {}
    while sent:
        size = 1 if random is None else random.choice((1, 1, 2, 5))
        group, sent = sent[:size], sent[size:]
        answers = await asyncio.gather(*(scm.accepted(integration, event, body) for event, body in group))
        for (_, body), answer in zip(group, answers, strict=True):
            assert first.setdefault(id(body), answer) == answer
    found = list(first.values())
    return {
        "commits": sum(one["commitsUpserted"] for one in found),
        "changes": sum(one["changeEventsCreated"] for one in found),
    } | {name: sorted(each.partition("#")[2] for one in found for each in one[name]) for name in LISTS}


@pytest.mark.both_stores
@pytest.mark.sized
async def test_the_order_of_deliveries_makes_no_difference(scm: Scm) -> None:
    integration = await scm.integrate(IntegrationKind.GITHUB)
    expected: tuple[Any, Any] | None = None
    for run in range(scaled(3, 60)):
        repository, first, random = f"shop/r{run}", 1 + run * ISSUES, Random(run)
        ids = [await new_issue(scm.control, first + number) for number in range(ISSUES)]
        links = f"/orgs/acme/projects/web/issues/{ids[5]}/links"
        address = f"https://github.com/{repository}/issues/40"
        assert (await scm.control.call("POST", links, {"url": address}))[0] == 201
        sent = story(repository, first, run)
        if run:
            sent += random.choices(sent, k=len(sent) // 2)
            random.shuffle(sent)
        summed = await tell(scm, integration, sent, random if run else None)
        reached = await state(scm, repository, first), summed
        if expected is None:
            expected = reached
        assert reached == expected, run
    assert expected is not None
    assert dict(expected[0]["issues"]) == {
        0: "resolved",
        1: "unresolved",
        2: "resolved",
        3: "resolved",
        4: "unresolved",
        5: "resolved",
    }
    assert [one[2] for one in expected[0]["proposals"]] == ["merged", "superseded", "closed"]
    assert expected[1] == {"commits": 7, "changes": 3, "proposalsMerged": ["1"], "proposalsSuperseded": ["2"]}
