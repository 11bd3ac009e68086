"""A directory whose errors were grouped by earlier rules is upgraded: issues keep their state, nobody is told anything,
and nothing counts twice. The database is filled as earlier rules did, and the follower counts an occurrence of each
error by the current rules.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import sqlalchemy as sa

from chassis.auth.tables import metadata, organizations, projects
from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.clickhouse.storage_order import Position, StoredRow, StoredRowList
from chassis.db.database import Database
from chassis.issues import issues
from control.issues.counting.follower import NAME, IssueFollower, IssueMetrics
from control.issues.counting.progress import follower_blocks, follower_progress
from control.issues.counting.project_state import IssueUrls
from control.issues.counting.task import IssueHousekeeping
from control.issues.tables import issue_activity
from control.notify.channels.tables import ChannelEvent, deliveries
from proto.grouping.fingerprint import FINGERPRINT_VERSION, fingerprint
from proto.grouping.version_1 import fingerprint_version_1
from tests.selection import scaled

PROJECT = 1
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
STORED_US = int(LATER.timestamp()) * 1_000_000

pytestmark = [pytest.mark.both_stores, pytest.mark.sized]

Text = tuple[str, str, str]


def text_of(number: int) -> Text:
    """The texts of an error, which either rules tell from all others."""
    frames = f'  File "/app/shop/cart_{number}.py", line 9, in add_{chr(97 + number % 26)}\n    int(sku)\n'
    chatter = "chatter\n" * 2_000 if number % 97 == 0 else ""
    return f"Error{number}", f"no such sku {number}", f"{chatter}Traceback (most recent call last):\n{frames}"


class StoredErrors:
    """The table of error occurrences, as the follower reads it."""

    def __init__(self) -> None:
        self.rows = StoredRowList()
        self.texts: dict[tuple[int, int], tuple[int, bytes, int, Text]] = {}

    def add(self, text: Text, at: datetime, release: str, *, version: int = FINGERPRINT_VERSION) -> None:
        made = fingerprint if version == FINGERPRINT_VERSION else fingerprint_version_1
        position = Position(STORED_US + len(self.rows) // 100, 7, len(self.rows))
        print_ = made(*text)
        values = (PROJECT, print_, int(at.timestamp() * 1_000) * 1_000_000, release, version)
        self.rows.append(StoredRow(position, 20_000, values))
        self.texts[position.batch_id, position.row] = PROJECT, print_, version, text

    async def settled_time(self) -> int:
        return STORED_US * 2

    async def first_time(self, after_us: int, until_us: int) -> int | None:
        found = (row.position.stored_us for row in self.rows if after_us < row.position.stored_us <= until_us)
        return next(found, None)

    async def read(self, after: Position, until_us: int, limit: int) -> StoredRowList:
        begin = bisect_right(self.rows, after, key=lambda row: row.position)
        return StoredRowList(row for row in self.rows[begin : begin + limit] if row.position.stored_us <= until_us)

    def no_rows(self) -> StoredRowList:
        return StoredRowList()

    def idle_since(self, _table: str) -> float | None:
        return None

    async def query(
        self, _sql: str, parameters: Mapping[str, Any], *, limits: QueryLimits
    ) -> Sequence[tuple[object, ...]]:
        assert limits.max_seconds
        found = [self.texts[place] for place in zip(parameters["batches"], parameters["rows"], strict=True)]
        return [(project_id, print_, version, "", *text) for project_id, print_, version, text in sorted(found)]


def insert(connection: sa.Connection, table: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Rows with the columns that the first has."""
    types = {column.name: column.type for column in metadata.tables[table].columns}
    columns = [sa.column(name, types[name]) for name in rows[0]]
    connection.execute(sa.table(table, *columns).insert(), rows)


STATES: tuple[Callable[[], dict[str, object]], ...] = (
    dict,
    lambda: {"status": "resolved", "resolved_at": NOW},
    lambda: {"status": "resolved", "resolved_at": NOW, "resolved_in_release": "2.0.0"},
    lambda: {"status": "resolved", "resolved_at": NOW, "resolved_after_release": "1.0.0"},
    lambda: {"status": "ignored"},
    lambda: {"status": "ignored", "ignored_until": LATER + timedelta(days=9)},
    lambda: {"status": "ignored", "ignored_until_count": 100},
    lambda: {"assignee_id": "prn_1"},
    lambda: {"status": "resolved", "resolved_at": NOW, "decided_status": "resolved", "decided_at": NOW},
    lambda: {"regressed_at": NOW, "decided_status": "unresolved", "decided_at": NOW},
)


def issue_rows(count: int) -> Iterator[dict[str, object]]:
    """Issues in every state; each eleventh is merged into the one before."""
    for number in range(1, count + 1):
        names = [column.name for column in issues.columns]
        row = dict.fromkeys(names) | {"status": "unresolved", "search_text": "error", "count": number % 50 + 1}
        row |= dict.fromkeys(("first_seen", "last_seen", "created_at", "updated_at"), NOW - timedelta(days=9))
        row |= {"id": f"iss_{number:026}", "org_id": "org_1", "project_id": PROJECT, "number": number}
        row |= {"fingerprint": fingerprint_version_1(*text_of(number)), "title": f"Error{number}", "type": "Error"}
        row |= {"first_release": "1.0.0", "last_release": "1.0.0", "change_number": number}
        row |= STATES[number % len(STATES)]()
        if is_merged(number):
            row |= {"merged_into": f"iss_{number - 1:026}"}
        yield row


def is_merged(number: int) -> bool:
    return number % 11 == 0


def fill(connection: sa.Connection, count: int) -> None:
    """An organization whose channel wants to be told everything, and whose issues were announced long ago."""
    at = {"created_at": NOW, "updated_at": NOW}
    connection.execute(
        organizations.insert().values(id="org_1", slug="acme", name="Acme", monthly_items=0, created_at=NOW)
    )
    project = {"id": PROJECT, "org_id": "org_1", "slug": "shop", "name": "Shop", "created_at": NOW}
    connection.execute(projects.insert().values(project | {"sensitive_words": [], "exempt_keys": []}))
    insert(connection, "principals", [{"id": "prn_1", "kind": "user", "name": "Ada", "created_at": NOW}])
    channel = {"id": "chn_1", "org_id": "org_1", "project_id": None, "kind": "webhook", "name": "x", "enabled": True}
    insert(connection, "notification_channels", [channel | {"config": b"sealed", **at}])
    events = [{"channel_id": "chn_1", "org_id": "org_1", "event": event.value} for event in ChannelEvent]
    insert(connection, "channel_subscriptions", events)
    rows = list(issue_rows(count))
    for start in range(0, count, 1_000):
        of_batch = rows[start : start + 1_000]
        insert(connection, "issues", of_batch)
        known = {"project_id": PROJECT, "rules_version": 1, "since_us": int(NOW.timestamp()) * 1_000_000}
        prints = [known | {"fingerprint": row["fingerprint"], "issue_id": row["id"]} for row in of_batch]
        insert(connection, "issue_fingerprints", prints)
    state: dict[str, object] = dict.fromkeys(("new_permits", "notify_permits", "regression_permits"), 20.0)
    state |= {"project_id": PROJECT, "org_id": "org_1", "last_number": count, "issues": count}
    insert(connection, "issue_projects", [state | {"permits_us": 0, "untracked_occurrences": 0, "unannounced": 0}])
    progress = dict.fromkeys(("stored_us", "batch_id", "row", "rows", "quiet_until_us", "version"), 1)
    times = dict.fromkeys(("lease_until", "created_at", "updated_at"), NOW)
    insert(connection, "follower_progress", [progress | times | {"follower": NAME, "lease_owner": "before"}])
    block = {"follower": NAME, "batch_id": 3, "day": 1, "stored_us": 1, "row": 4}
    insert(connection, "follower_blocks", [block])


async def stored(database: Database, table: sa.Table, *without: str) -> list[dict[str, Any]]:
    columns = [column for column in table.columns if column.name not in without]
    async with database.read() as connection:
        rows = await connection.execute(sa.select(*columns).order_by(*table.primary_key.columns))
        return [dict(row) for row in rows.mappings()]


async def test_issues_keep_their_state_and_nobody_is_told_of_an_upgrade(database: Database) -> None:
    count = scaled(121, 10_000)
    async with database.write() as connection:
        await connection.run_sync(fill, count)
    before = {row["id"]: row for row in await stored(database, issues)}
    errors = StoredErrors()
    for number in range(1, count + 1):
        errors.add(text_of(number), NOW - timedelta(minutes=1), "1.0.0")
        errors.add(text_of(number), NOW - timedelta(minutes=2), "1.0.0", version=number % 2 + 1)
    follower = IssueFollower(
        database, cast("ClickHouse", errors), IssueUrls(), IssueMetrics(None), rows=errors, now=lambda: LATER
    )
    await follower.poll()
    housekeeping = IssueHousekeeping(database, None, IssueUrls(), now=lambda: LATER)
    await housekeeping.run_once()
    assert await stored(database, deliveries) == await stored(database, issue_activity) == []
    after = await stored(database, issues)
    assert after == [expected(row, before, number) for number, row in enumerate(after, 1)]
    assert [row["rows"] for row in await stored(database, follower_progress)] == [1 + len(errors.rows)]
    blocks = await stored(database, follower_blocks)
    assert {(row["follower"], row["batch_id"]) for row in blocks} == {(NAME, 7 - 2**63), (NAME, 3)}
    errors.add(("Unseen", "", ""), LATER, "")
    await follower.poll()
    assert [row["type"] for row in await stored(database, deliveries)] == ["issue.new"]


def expected(after: Mapping[str, Any], before: Mapping[str, Mapping[str, Any]], number: int) -> dict[str, Any]:
    """The row of an issue after two more occurrences of its errors."""
    row = dict(before[after["id"]])
    if is_merged(number):
        return row
    errors = 2 if is_merged(number + 1) and f"iss_{number + 1:026}" in before else 1
    row |= {"count": row["count"] + 2 * errors, "last_seen": NOW - timedelta(minutes=1), "updated_at": LATER}
    return row | {"fingerprint": fingerprint(*text_of(number)), "change_number": None}
