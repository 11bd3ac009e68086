"""What an upgrade of the rules of grouping makes of issues: an error has one fingerprint by the rules before, and
another one by the current rules. Errors are numbered; the test says which number an occurrence had before.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.issues import IssueStatus, issue_fingerprints, issues, read_states
from control.issues import lifecycle
from control.issues.counting import counter, regrouping
from control.issues.counting.counter import Counted
from control.issues.counting.project_state import IssueUrls
from control.issues.counting.regrouping import UPGRADE_DAYS
from control.issues.counting.task import IssueHousekeeping
from control.issues.lifecycle import Ignoring, Resolution
from control.issues.tables import ActivityKind, issue_activity, issue_projects
from proto.grouping.fingerprint import FINGERPRINT_VERSION
from tests.control.issues.conftest import MINUTE, Ledger, fingerprint, occurrence
from tests.control.issues.counting.test_counter import subscribe, told

NEW = 100  # an error's number by the current rules, if it had no other one

pytestmark = pytest.mark.both_stores


async def occur(
    ledger: Ledger,
    number: int,
    before: Iterable[int] = (),
    *,
    release: str = "",
    version: int = FINGERPRINT_VERSION,
    at: timedelta = timedelta(0),
) -> Counted:
    """A page with an occurrence, whose texts have these numbers in the other fingerprint version."""
    page = [occurrence(ledger.project_id, fingerprint(number), ledger.now + at, release, version)]
    return await ledger.count(page, others={key(ledger, number): [key(ledger, one) for one in before]})


async def occurred_before(ledger: Ledger, *numbers: int, release: str = "") -> None:
    """Errors that a release with the rules before has counted."""
    for number in numbers:
        await occur(ledger, number, release=release, version=1)


def key(ledger: Ledger, number: int) -> tuple[int, bytes]:
    return ledger.project_id, fingerprint(number)


async def counts(ledger: Ledger) -> list[tuple[int, int]]:
    """Numbers and counts of issues, without those that were merged."""
    return [(one.number, one.count) for one in await ledger.all() if one.merged_into is None]


async def linked(ledger: Ledger) -> dict[int, int]:
    """The number of the issue of each error."""
    async with ledger.database.read() as connection:
        numbers = (await connection.scalars(sa.select(issue_fingerprints.c.fingerprint))).all()
        keys = [(ledger.project_id, bytes(one)) for one in numbers]
        found = await regrouping.find_links(connection, keys)
    return {int.from_bytes(print_): link.issue.number for (_, print_), link in found.items()}


async def activity(ledger: Ledger, number: int) -> list[tuple[str, Mapping[str, Any]]]:
    found = (
        sa.select(issue_activity.c.kind, issue_activity.c.data)
        .join(issues, issues.c.id == issue_activity.c.issue_id)
        .where(issues.c.number == number, issues.c.project_id == ledger.project_id)
        .order_by(issue_activity.c.kind)
    )
    async with ledger.database.read() as connection:
        return [(row.kind, row.data) for row in await connection.execute(found)]


async def decide(ledger: Ledger, number: int, **state: Any) -> None:
    """Set the state of the issue of an error."""
    async with ledger.database.write() as connection:
        issue = (await regrouping.find_links(connection, [key(ledger, number)]))[key(ledger, number)].issue
        if "resolution" in state:
            issue = await lifecycle.set_resolved(connection, issue, state["resolution"], now=ledger.now, by=None)
        if "ignoring" in state:
            issue = await lifecycle.set_ignored(connection, issue, state["ignoring"], now=ledger.now, by=None)
        if state.get("is_assigned"):
            await lifecycle.set_assignee(connection, issue, ledger.tenant.owner_id, now=ledger.now, by=None)


async def test_the_issue_of_the_old_fingerprint_counts_the_new_one(ledger: Ledger, tmp_path: Path) -> None:
    channel = await subscribe(ledger, tmp_path)
    await occurred_before(ledger, 1, 2)
    announced = await told(ledger.database, channel)
    await occur(ledger, NEW, [1])
    await occur(ledger, NEW)
    await occur(ledger, 1, version=1)  # from a gateway that is not upgraded
    assert (await counts(ledger), await linked(ledger)) == ([(1, 4), (2, 1)], {1: 1, 2: 2, NEW: 1})
    assert (await ledger.issue(NEW)).number == 1, "its errors have this fingerprint now"
    assert await told(ledger.database, channel) == announced
    assert [kind for kind, _ in await activity(ledger, 1)] == ["created"]
    async with ledger.database.read() as connection:
        states = await read_states(connection, ledger.project_id, [fingerprint(1), fingerprint(NEW)], ledger.now)
    assert {one.short_id for one in states.values()} == {"WEB-1"}
    assert len(states) == 2


async def test_rules_may_give_the_same_fingerprint_as_before(ledger: Ledger) -> None:
    await occurred_before(ledger, 1, 2)
    await occur(ledger, 1)
    async with ledger.database.read() as connection:
        found = await regrouping.find_links(connection, [key(ledger, 1), key(ledger, 2)])
    assert [found[key(ledger, number)].fingerprint_version for number in (1, 2)] == [FINGERPRINT_VERSION, 1]
    await occur(ledger, 1, [2])  # another of its texts was another error
    assert (await counts(ledger), await linked(ledger)) == ([(1, 4)], {1: 1, 2: 1})


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
async def test_errors_that_have_become_one_are_merged_into_the_oldest(ledger: Ledger, order: tuple[int, ...]) -> None:
    """Each is noticed only when it occurs, also if the new fingerprint is known by then."""
    await occurred_before(ledger, 1, 2, 3)
    await decide(ledger, 1, resolution=Resolution("2.0.0"))
    await decide(ledger, 3, ignoring=Ignoring(), is_assigned=True)
    for before in order:
        await occur(ledger, NEW, [before], release="1.0.0")
    assert (await counts(ledger), await linked(ledger)) == ([(1, 6)], dict.fromkeys((1, 2, 3, NEW), 1))
    issue = await ledger.issue(NEW)
    assert (issue.number, issue.status, issue.assignee_id) == (1, IssueStatus.UNRESOLVED, ledger.tenant.owner_id)
    assert issue.regressed_at is None
    merged = [data for kind, data in await activity(ledger, 1) if kind == "merged"]
    assert {data["rulesVersion"] for data in merged} == {FINGERPRINT_VERSION}
    into = [data["into"] for _, data in await activity(ledger, 2) if "into" in data]
    assert into[-1] == issue.id


async def test_errors_that_have_become_one_on_one_page_are_merged_before_they_count(ledger: Ledger) -> None:
    """What was ignored beside it is not resolved, so nothing regresses."""
    await occurred_before(ledger, 1, 2, 3)
    await decide(ledger, 1, resolution=Resolution())
    ledger.pass_by(MINUTE)
    counted = await occur(ledger, NEW, [3, 2, 1])
    assert (counted.merged, counted.regressed, counted.created) == (2, 0, 0)
    assert await counts(ledger) == [(1, 4)]


async def test_an_error_that_has_become_several_is_split(ledger: Ledger, tmp_path: Path) -> None:
    """The first one gets the issue; the others have its state."""
    channel = await subscribe(ledger, tmp_path)
    await occurred_before(ledger, 1, release="1.0.0")
    announced = await told(ledger.database, channel)
    await decide(ledger, 1, resolution=Resolution("2.0.0"), is_assigned=True)
    for number in (NEW, NEW + 1, NEW + 2, NEW + 1):
        await occur(ledger, number, [1], release="1.0.0")
    await occur(ledger, 1, version=1, release="1.0.0")
    assert await counts(ledger) == [(1, 3), (2, 2), (3, 1)]
    source, *split = await ledger.all()
    for one in split:
        state = ("status", "resolved_at", "resolved_in_release", "decided_status", "decided_at", "assignee_id")
        assert [getattr(one, name) for name in state] == [getattr(source, name) for name in state]
        entries = await activity(ledger, one.number)
        assert entries == [("split_from", {"from": source.id, "rulesVersion": FINGERPRINT_VERSION})]
    assert split[0].status is IssueStatus.RESOLVED
    assert await told(ledger.database, channel) == announced
    await IssueHousekeeping(ledger.database, None, IssueUrls(), now=lambda: ledger.now).run_once()
    assert await told(ledger.database, channel) == announced, "no sum of what was not announced"
    ledger.pass_by(MINUTE)
    await occur(ledger, NEW + 1, release="2.0.0")
    assert await told(ledger.database, channel) == [*announced, "issue.regression"]


async def test_split_issues_are_open_if_the_error_has_regressed(ledger: Ledger, tmp_path: Path) -> None:
    """On one page: there is one message, as there was before."""
    await occurred_before(ledger, 1)
    await decide(ledger, 1, resolution=Resolution())
    channel = await subscribe(ledger, tmp_path)
    ledger.pass_by(MINUTE)
    page = ledger.page(NEW, NEW + 1)
    await ledger.count(page, others={key(ledger, number): [key(ledger, 1)] for number in (NEW, NEW + 1)})
    assert [one.status for one in await ledger.all()] == [IssueStatus.UNRESOLVED] * 2
    assert await told(ledger.database, channel) == ["issue.regression"]


async def test_a_split_issue_is_ignored_for_as_many_occurrences_as_are_left(ledger: Ledger) -> None:
    await occurred_before(ledger, 1, 1)
    await decide(ledger, 1, ignoring=Ignoring(None, 3))
    await occur(ledger, NEW, [1])
    for _ in range(2):
        await occur(ledger, NEW + 1, [1])
        assert (await ledger.issue(NEW + 1)).status is (IssueStatus.IGNORED if _ == 0 else IssueStatus.UNRESOLVED)


async def test_an_error_without_room_for_a_split_counts_where_it_did(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    await occurred_before(ledger, 1)
    await occur(ledger, NEW, [1])
    with monkeypatch.context() as full:
        full.setattr(counter, "MAX_ISSUES", 1)
        await occur(ledger, NEW + 1, [1])
    assert await counts(ledger) == [(1, 3)]
    await occur(ledger, NEW + 1, [1])
    assert await counts(ledger) == [(1, 3), (2, 1)]
    async with ledger.database.read() as connection:
        state = (await connection.execute(sa.select(issue_projects))).one()
    assert (state.issues, state.untracked_occurrences) == (2, 0)


async def test_an_error_that_was_merged_counts_where_it_was_merged(ledger: Ledger) -> None:
    await occurred_before(ledger, 1, 2)
    async with ledger.database.write() as connection:
        found = await regrouping.find_links(connection, [key(ledger, 1), key(ledger, 2)])
        target, source = (found[key(ledger, number)].issue for number in (2, 1))
        await lifecycle.merge(connection, target, [source], now=ledger.now, by=None)
    await occur(ledger, NEW + 1, [1])
    assert (await ledger.issue(2)).fingerprint == fingerprint(2), "the fingerprint of its own error is not known yet"
    await occur(ledger, NEW + 2, [2])
    await occur(ledger, NEW + 3, [1])  # the merged error has become several
    assert (await counts(ledger), (await ledger.issue(NEW + 2)).number) == ([(2, 4), (3, 1)], 2)


async def test_an_older_issue_takes_the_fingerprint_of_a_merged_one(ledger: Ledger) -> None:
    """Both rows of the warehouse name the issue for either fingerprint."""
    await occurred_before(ledger, 1)
    await occur(ledger, NEW)  # nothing was known of it
    await occur(ledger, NEW, [1])
    assert await counts(ledger) == [(1, 3)]
    assert [(one.number, one.fingerprint) for one in await ledger.all()] == [(1, fingerprint(NEW)), (2, fingerprint(1))]


@pytest.mark.parametrize("order", [(1, FINGERPRINT_VERSION), (FINGERPRINT_VERSION, 1)])
async def test_gateways_of_both_releases_count_a_new_error_in_one_issue(
    ledger: Ledger, tmp_path: Path, order: tuple[int, int]
) -> None:
    channel = await subscribe(ledger, tmp_path)
    names = {1: 1, FINGERPRINT_VERSION: NEW}
    for version in order:
        await occur(ledger, names[version], [names[version ^ 1 ^ FINGERPRINT_VERSION]], version=version)
    both = [occurrence(ledger.project_id, fingerprint(names[one]), ledger.now, "", one) for one in order]
    await ledger.count(both)
    assert (await counts(ledger), await told(ledger.database, channel)) == ([(1, 4)], ["issue.new"])
    await occur(ledger, NEW + 1, [1])
    assert await counts(ledger) == [(1, 4), (2, 1)], "the old fingerprint is decided"


@pytest.mark.parametrize("order", [(1, FINGERPRINT_VERSION), (FINGERPRINT_VERSION, 1)])
async def test_gateways_of_both_releases_send_a_new_error_at_once(ledger: Ledger, order: tuple[int, int]) -> None:
    names = {1: 1, FINGERPRINT_VERSION: NEW}
    page = [
        occurrence(ledger.project_id, fingerprint(names[version]), ledger.now + number * MINUTE, "", version)
        for number, version in enumerate(order)
    ]
    others = {key(ledger, 1): [key(ledger, NEW)], key(ledger, NEW): [key(ledger, 1)]}
    counted = await ledger.count(page, others=others)
    assert (counted.created, await counts(ledger), await linked(ledger)) == (1, [(1, 2)], {1: 1, NEW: 1})


DAYS_LATER = pytest.mark.parametrize(("days", "is_over"), [(UPGRADE_DAYS - 1, False), (UPGRADE_DAYS, True)])


@DAYS_LATER
async def test_what_an_upgrade_splits_is_new_after_the_end_of_the_upgrade(
    ledger: Ledger, tmp_path: Path, days: int, is_over: bool
) -> None:
    """An issue of several errors was ignored: a bug that is written a year later is not a part of it."""
    channel = await subscribe(ledger, tmp_path)
    await occurred_before(ledger, 1)
    announced = await told(ledger.database, channel)
    await occur(ledger, NEW, [1])
    await decide(ledger, 1, ignoring=Ignoring())
    ledger.pass_by(timedelta(days=days))
    counted = await occur(ledger, NEW + 1, [1])
    await occur(ledger, 1, version=1)  # a gateway of the release before still counts where it did
    assert (counted.created, counted.split) == ((1, 0) if is_over else (0, 1))
    assert await counts(ledger) == [(1, 3), (2, 1)]
    expected = (IssueStatus.UNRESOLVED, "created") if is_over else (IssueStatus.IGNORED, "split_from")
    (kind, _), *_ = await activity(ledger, 2)
    assert ((await ledger.issue(NEW + 1)).status, kind) == expected
    assert await told(ledger.database, channel) == announced + ["issue.new"] * is_over


@DAYS_LATER
async def test_an_error_that_did_not_occur_for_so_long_waits_no_longer(
    ledger: Ledger, days: int, is_over: bool
) -> None:
    """Not even where issues are kept for ever: pages would stay small, and the texts of every row would be read."""
    await occurred_before(ledger, 1)
    ledger.pass_by(timedelta(days=days))
    async with ledger.database.read() as connection:
        pending = await regrouping.find_pending(connection, [ledger.project_id], ledger.stored_us)
    assert pending == (set() if is_over else {ledger.project_id})
    await occur(ledger, NEW, [1])
    assert await counts(ledger) == ([(1, 1), (2, 1)] if is_over else [(1, 2)])


async def test_what_is_one_is_one_after_the_end_of_the_upgrade(ledger: Ledger) -> None:
    """Gateways of the release before may still run."""
    await occurred_before(ledger, 1)
    ledger.pass_by(timedelta(days=UPGRADE_DAYS))
    await occur(ledger, 1)  # by the current rules it is the same
    await occur(ledger, NEW)
    await occur(ledger, 2, [NEW], version=1)
    assert (await counts(ledger), await linked(ledger)) == ([(1, 2), (2, 2)], {1: 1, NEW: 2, 2: 2})


async def test_what_is_deleted_leads_nowhere(ledger: Ledger) -> None:
    await occurred_before(ledger, 1)
    await occur(ledger, NEW, [1])
    ledger.pass_by(timedelta(days=91))
    housekeeping = IssueHousekeeping(ledger.database, None, IssueUrls(), retention_days=90, now=lambda: ledger.now)
    await housekeeping.run_once()
    assert (await ledger.all(), await linked(ledger)) == ([], {})
    assert (await occur(ledger, NEW, [1])).created == 1


async def test_the_last_activity_is_known_to_the_schema(ledger: Ledger) -> None:
    await occurred_before(ledger, 1)
    async with ledger.database.write() as connection:
        for kind in ActivityKind:
            await lifecycle.add_activity(connection, (await ledger.issue(1)).id, kind, now=ledger.now, by=None, data={})
