"""What a page makes of issues: new ones, regressions, what is announced, and what a storm of errors may cost."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from chassis.auth.tables import projects
from chassis.db.database import Database
from chassis.issues import IssueStatus, issues
from control.issues import store
from control.issues.counting import counter
from control.issues.counting.occurrences import Details, details
from control.issues.counting.project_state import ANNOUNCEMENTS, NEW_ISSUES, IssueUrls
from control.issues.counting.task import SUM_INTERVAL, IssueHousekeeping
from control.issues.lifecycle import Resolution
from control.issues.releases.store import find_latest_version
from control.notify.channels import store as channels
from control.notify.channels.config import Kind, WebhookConfig
from control.notify.channels.tables import ChannelEvent, deliveries, delivery_messages
from control.secrets.secret_box import KeyFile, SecretBox
from tests.control.issues.conftest import MINUTE, START, Ledger
from tests.control.receiver import SECRET

EVERYTHING = tuple(ChannelEvent)


async def subscribe(
    ledger: Ledger, path: Path, events: Sequence[ChannelEvent] = EVERYTHING, *, project: bool = True
) -> str:
    """Id of a channel that subscribes to these events."""
    keys = KeyFile(path / "sealing.keys")
    if not (path / "sealing.keys").exists():
        keys.generate()
    box = SecretBox(keys)
    async with ledger.database.write() as connection:
        channel = await channels.create(
            connection,
            box,
            org_id=ledger.tenant.organization.id,
            project_id=ledger.project_id if project else None,
            name="x",
            kind=Kind.WEBHOOK,
            config=WebhookConfig(url="https://hooks.example.org/x", secret=SECRET),
            enabled=True,
            created_by=ledger.tenant.owner_id,
        )
        await channels.set_subscriptions(connection, channel, events)
    return channel.id


async def told(database: Database, channel_id: str) -> list[str]:
    """Types of the messages that a channel gets, in order."""
    found = sa.select(deliveries.c.type).where(deliveries.c.channel_id == channel_id).order_by(deliveries.c.id)
    async with database.read() as connection:
        return list((await connection.execute(found)).scalars())


async def test_an_error_becomes_an_issue_that_says_what_and_where(ledger: Ledger) -> None:
    shown = Details("ValueError", "ValueError: no such sku", "shop/cart.py:add")
    await ledger.occur(7, "1.4.1", times=3, details=shown)
    issue = await ledger.issue(7)
    assert (issue.number, issue.count, issue.status) == (1, 3, IssueStatus.UNRESOLVED)
    assert (issue.type, issue.title, issue.culprit) == shown
    assert (issue.first_seen, issue.first_release, issue.last_seen, issue.last_release) == (START, "1.4.1") * 2


def test_a_title_is_type_and_first_line() -> None:
    for given, shown in (
        (("ValueError", "no such sku\nat all", ""), ("ValueError", "ValueError: no such sku", None)),
        (("", "just text", ""), (None, "just text", None)),
        (("OSError", "", ""), ("OSError", "OSError", None)),
        (("", "", ""), (None, "(unknown error)", None)),
        (("A\x00B", "x\x00y", ""), ("AB", "AB: xy", None)),
        (("A\nB", "\x1b[31mx\u202e", ""), ("A B", "A B: [31mx", None)),
        (("T" * 900, "m" * 900, ""), ("T" * 200, ("T" * 900)[:300], None)),
    ):
        assert details(*given) == shown


def test_a_culprit_is_the_innermost_frame_of_the_application() -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/app/shop/web.py", line 3, in post\n    cart.add(sku)\n'
        '  File "/app/shop/cart.py", line 9, in add\n    int(sku)\n'
        '  File "/usr/lib/python3.11/site-packages/x.py", line 1, in int\n    raise\nValueError: x'
    )
    culprit = details("ValueError", "x", trace).culprit
    assert culprit is not None
    assert culprit.endswith("shop/cart.py:add")


async def test_a_new_issue_and_a_regression_reach_their_channel_once_each(ledger: Ledger, tmp_path: Path) -> None:
    both = await subscribe(ledger, tmp_path)
    of_org = await subscribe(ledger, tmp_path, [ChannelEvent.REGRESSION], project=False)
    await ledger.occur()
    await ledger.occur()
    assert await told(ledger.database, both) == ["issue.new"]
    await ledger.set_resolved()
    await ledger.occur(at=ledger.now)  # not later than the resolution
    ledger.pass_by(MINUTE)
    await ledger.occur()
    await ledger.occur()
    assert await told(ledger.database, both) == ["issue.new", "issue.regression"]
    assert await told(ledger.database, of_org) == ["issue.regression"]
    issue = await ledger.issue()
    assert (issue.status, issue.regressed_at, issue.count) == (IssueStatus.UNRESOLVED, ledger.now, 5)


async def test_a_regression_is_a_decision_of_the_time_when_it_occurred(ledger: Ledger) -> None:
    """Code that was there before does not resolve the issue, however late it is reported."""
    decided = sa.select(issues.c.decided_status, issues.c.decided_at)
    await ledger.occur()
    async with ledger.database.read() as connection:
        assert (await connection.execute(decided)).one() == (None, None)
    await ledger.set_resolved()
    async with ledger.database.read() as connection:
        assert (await connection.execute(decided)).one() == ("resolved", ledger.now)
    ledger.pass_by(60 * MINUTE)
    await ledger.occur(at=ledger.now - MINUTE)
    await ledger.occur(at=ledger.now)
    async with ledger.database.read() as connection:
        assert (await connection.execute(decided)).one() == ("unresolved", ledger.now - MINUTE)


async def test_messages_name_issue_project_and_where_to_read_more(ledger: Ledger, tmp_path: Path) -> None:
    await subscribe(ledger, tmp_path)
    await ledger.occur(details=Details("ValueError", "ValueError: no such sku", "shop/cart.py:add"), release="1.4.1")
    issue = await ledger.issue()
    async with ledger.database.read() as connection:
        text = str(await connection.scalar(sa.select(delivery_messages.c.message)))
    path = f"https://api.example/orgs/acme/projects/web/issues/{issue.id}"
    for expected in ("New issue WEB-1: ValueError: no such sku", "shop/cart.py:add", "1.4.1", path):
        assert expected in text


async def test_history_is_counted_and_nobody_is_told(ledger: Ledger, tmp_path: Path) -> None:
    channel = await subscribe(ledger, tmp_path)
    counted = await ledger.occur(quiet=True)
    assert (counted.created, await told(ledger.database, channel)) == (1, [])


async def test_a_storm_of_new_errors_is_bounded_counted_and_says_so(ledger: Ledger, tmp_path: Path) -> None:
    channel = await subscribe(ledger, tmp_path)
    storm = ledger.page(*range(10_000))
    pages = [await ledger.count(storm[start : start + 2_500]) for start in range(0, 10_000, 2_500)]
    assert sum(page.occurrences for page in pages) == 10_000
    created = sum(page.created for page in pages)
    assert created == len(await ledger.all()) == NEW_ISSUES.burst
    assert sum(page.untracked for page in pages) == 10_000 - created
    messages = await told(ledger.database, channel)
    assert messages == ["issue.new"] * ANNOUNCEMENTS.burst
    housekeeping = IssueHousekeeping(ledger.database, None, IssueUrls(), now=lambda: ledger.now)
    await housekeeping.run_once()
    await housekeeping.run_once()  # one sum, however often it looks
    assert await told(ledger.database, channel) == [*messages, "issue.unannounced"]
    async with ledger.database.read() as connection:
        text = str(
            await connection.scalar(sa.select(delivery_messages.c.message).order_by(delivery_messages.c.id.desc()))
        )
        untracked = await store.find_untracked(connection, ledger.project_id)
    assert f"{created - ANNOUNCEMENTS.burst} more issues in web were new or regressed" in text
    assert untracked is not None
    assert untracked.occurrences == 10_000 - created
    ledger.pass_by(SUM_INTERVAL)  # new permits
    later = await ledger.occur(20_000)
    assert (later.created, later.untracked) == (1, 0)
    assert (await told(ledger.database, channel))[-1] == "issue.new"


async def test_known_issues_count_on_in_a_storm(ledger: Ledger) -> None:
    await ledger.occur(1)
    await ledger.count(ledger.page(*range(2, 5_000)))
    await ledger.occur(1)
    assert (await ledger.issue(1)).count == 2


async def test_a_project_has_so_many_issues_and_no_more(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "MAX_ISSUES", 3)
    counted = await ledger.count(ledger.page(*range(5)))
    assert (counted.created, counted.untracked) == (3, 2)


async def test_what_is_of_a_deleted_project_is_skipped(ledger: Ledger) -> None:
    async with ledger.database.write() as connection:
        gone = projects.update().where(projects.c.id == ledger.project_id)
        await connection.execute(gone.values(deleted_at=datetime.now(UTC)))
    counted = await ledger.occur()
    assert (counted.occurrences, counted.created, await ledger.all()) == (0, 0, [])


async def test_a_release_that_nobody_can_report_counts_as_none(ledger: Ledger) -> None:
    for number, release in enumerate(("v" * 201, "a\x00b", "a\nb", "\u202e1", " 1.2.3\n")):
        await ledger.occur(number, release)
    assert [issue.first_release for issue in await ledger.all()] == [None, None, None, None, "1.2.3"]


async def test_a_storm_of_new_errors_withholds_no_regression(ledger: Ledger, tmp_path: Path) -> None:
    channel = await subscribe(ledger, tmp_path, [ChannelEvent.REGRESSION])
    await ledger.occur(1)
    await ledger.set_resolved()
    ledger.pass_by(timedelta(seconds=1))
    await ledger.count(ledger.page(*range(2, 100)))
    await ledger.occur(1)
    assert await told(ledger.database, channel) == ["issue.regression"]
    await IssueHousekeeping(ledger.database, None, IssueUrls(), now=lambda: ledger.now).run_once()
    assert await told(ledger.database, channel) == ["issue.regression", "issue.unannounced"]


async def test_a_page_announces_so_many_and_no_more(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "MAX_ANNOUNCED", 3)
    channel = await subscribe(ledger, tmp_path)
    counted = await ledger.count(ledger.page(*range(5)))
    assert (len(await told(ledger.database, channel)), counted.withheld) == (3, 2)


async def test_a_release_that_is_still_to_come_is_not_contradicted_by_older_ones(ledger: Ledger) -> None:
    await ledger.occur(1, "abc0001")
    ledger.pass_by(MINUTE)
    await ledger.set_resolved(resolution=Resolution(in_release="def0002"))
    ledger.pass_by(MINUTE)
    await ledger.occur(1, "abc0001")
    assert (await ledger.issue()).status is IssueStatus.RESOLVED
    await ledger.occur(1, "999ffff")  # first seen after the resolution: nobody can tell
    assert (await ledger.issue()).status is IssueStatus.UNRESOLVED
    await ledger.set_resolved(resolution=Resolution(in_release="def0002"))
    ledger.pass_by(MINUTE)
    await ledger.occur(1, "def0002")
    assert (await ledger.issue()).status is IssueStatus.UNRESOLVED


SEMANTIC = ["1.5.0", "1.6.0", "1.7.0"]


@pytest.mark.parametrize(
    ("before", "after", "is_reopened"),
    [
        (SEMANTIC, "2026.2.0", True),
        (SEMANTIC, "abc1234", True),
        (["1.7.0", "abc1234"], "2026.2.0", True),
        (["abc1234"], "1.0.0", True),
        ([*SEMANTIC, "2026.2.0"], "2026.2.0", False),  # it was there at the resolution
        ([*SEMANTIC, "2026.2.0"], "2026.3.0", True),
    ],
)
async def test_the_first_release_of_another_scheme_is_a_next_release(
    ledger: Ledger, before: list[str], after: str, is_reopened: bool
) -> None:
    """Also where its version is so far ahead that it is a stray until there are more."""
    for release in before:
        await ledger.occur(release=release)
        ledger.pass_by(MINUTE)
    async with ledger.database.read() as connection:
        latest = await find_latest_version(connection, ledger.project_id)
    assert latest == [release for release in before if release != "2026.2.0"][-1]
    await ledger.set_resolved(resolution=Resolution(after_release=latest))
    ledger.pass_by(MINUTE)
    await ledger.occur(release=after)
    expected = IssueStatus.UNRESOLVED if is_reopened else IssueStatus.RESOLVED
    assert (await ledger.issue()).status is expected


async def test_what_occurs_where_it_was_merged_counts_there(ledger: Ledger) -> None:
    for number in (1, 2, 3):
        await ledger.occur(number)
    await ledger.merge(1, 2)
    await ledger.merge(3, 1)
    await ledger.count([row for n in (1, 2, 3) for row in ledger.page(n, at=ledger.now + timedelta(seconds=n))])
    issue = await ledger.issue(3)
    assert (issue.count, issue.last_seen) == (6, ledger.now + timedelta(seconds=3))
    assert {(await ledger.issue(number)).merged_into for number in (1, 2)} == {issue.id}
