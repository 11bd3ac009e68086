"""Issues by their changes: a row for each that an export sees, in the order of commits.

Release health from stored spans: what arrives late is counted, in a row with a higher revision.
"""

from typing import Any

import sqlalchemy as sa

from chassis.clickhouse import ClickHouse
from chassis.issues import issues
from control.export.streams.reading import ExportSource
from control.export.streams.rollups import IssueRollups, ReleaseHealth
from tests.control.conftest import Control
from tests.control.issues.releases.stored import new_issue


async def test_a_changed_issue_comes_again_behind_the_cursor(control: Control) -> None:
    reader = IssueRollups(control.checks.database)
    source = ExportSource(control.acme.organization.id, {control.acme.project.id: "web"})
    assert await reader.read(source, None) is None
    first, second = await new_issue(control, 1), await new_issue(control, 2)
    await new_issue(control, 1, control.globex)
    batch = await reader.read(source, None)
    assert batch is not None
    rows = batch.table.to_pylist()
    assert {row["issue_id"]: row["change_number"] for row in rows} == {first: 1, second: 2}
    assert await reader.read(source, batch.until) is None

    async with control.checks.database.write() as connection:
        for count in (2, 3):
            await connection.execute(sa.update(issues).where(issues.c.id == first).values(count=count))
    changed = await reader.read(source, batch.until)
    assert changed is not None
    (row,) = changed.table.to_pylist()
    assert (row["issue_id"], row["change_number"], row["count"]) == (first, 3, 3)
    assert row["row_id"] == f"{first}:3"
    # Read again, the first batch lacks what has changed since, and has nothing that is behind it.
    again = await reader.read_again(source, None, batch.until)
    assert [each["issue_id"] for each in again.to_pylist()] == [second]
    assert await reader.read(source, changed.until) is None


SOURCE = ExportSource("org_1", {7: "web"})
SERVER, INTERNAL = 2, 1
STORE = (
    "INSERT INTO spans (project_id, start_time, duration, trace_id, span_id, name, kind, status_code, release,"
    " environment, attributes, batch_id, row, stored_time) SELECT {project:UInt64},"
    " toStartOfHour(now64(9)) - toIntervalHour(2) + toIntervalSecond(number), (number + 1) * 10000000,"
    " toFixedString(toString(number), 16), toFixedString(toString(number), 8), 'GET /', {kind:UInt8},"
    " if(number = 0, 2, 0), '1.0.0', 'production', map('session.id', {session:String}), {batch:UInt64},"
    " toUInt32(number), now64(6) - toIntervalMinute({ago:UInt32}) FROM numbers({count:UInt64})"
)


async def store(
    clickhouse: ClickHouse, batch: int, count: int, ago: int, session: str, *, kind: int = SERVER, project: int = 7
) -> None:
    """Spans of the hour before last, of 10, 20, ... ms, of which the first has failed, stored some minutes ago."""
    values = {"project": project, "kind": kind, "session": session, "batch": batch, "ago": ago, "count": count}
    await clickhouse.command(STORE, values)


async def read(reader: ReleaseHealth, cursor: bytes | None) -> tuple[bytes, dict[str, Any]]:
    batch = await reader.read(SOURCE, cursor)
    assert batch is not None
    assert batch.table.equals(await reader.read_again(SOURCE, cursor, batch.until))
    (row,) = batch.table.to_pylist()
    return batch.until, row


async def test_an_hour_to_which_late_data_is_added_comes_again(clickhouse: ClickHouse) -> None:
    reader = ReleaseHealth(clickhouse)
    assert await reader.read(SOURCE, None) is None
    await store(clickhouse, 1, 4, 60, "a")
    await store(clickhouse, 2, 9, 60, "z", kind=INTERNAL)
    await store(clickhouse, 3, 9, 60, "z", project=8)
    cursor, first = await read(reader, None)
    assert (first["project"], first["environment"], first["release"]) == ("web", "production", "1.0.0")
    assert (first["requests"], first["failed"], first["sessions"], first["new_issues"]) == (4, 1, 1, 0)
    assert [first[f"p{level}_ms"] for level in (50, 95, 99)] == [20.0, 40.0, 40.0]
    assert await reader.read(SOURCE, cursor) is None

    # Times of storage are the test's own, so the next batch begins before them.
    earlier = str(int(cursor) - 30 * 60 * 10**6).encode()
    await store(clickhouse, 4, 1, 20, "b")
    await store(clickhouse, 5, 1, 10, "[scrubbed]")
    _, second = await read(reader, earlier)
    assert (second["requests"], second["failed"], second["sessions"]) == (6, 3, 2)
    assert second["hour"] == first["hour"]
    assert second["revision"] > first["revision"]
    assert second["row_id"] != first["row_id"]
    assert (await reader.read_again(SOURCE, None, cursor)).num_rows == 1
