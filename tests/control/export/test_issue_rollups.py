"""Issues by their changes: a row for each that an export sees, in the order of commits."""

import sqlalchemy as sa

from chassis.issues import issues
from control.export.streams.issue_rollups import IssueRollups
from control.export.streams.reader import Scope
from tests.control.conftest import Control
from tests.control.issues.releases.stored import new_issue


async def test_a_changed_issue_comes_again_behind_the_cursor(control: Control) -> None:
    reader = IssueRollups(control.checks.database)
    scope = Scope(control.acme.organization.id, {control.acme.project.id: "web"})
    assert await reader.read(scope, None) is None
    first, second = await new_issue(control, 1), await new_issue(control, 2)
    await new_issue(control, 1, control.globex)
    batch = await reader.read(scope, None)
    assert batch is not None
    rows = batch.table.to_pylist()
    assert {row["issue_id"]: row["change_number"] for row in rows} == {first: 1, second: 2}
    assert await reader.read(scope, batch.until) is None

    async with control.checks.database.write() as connection:
        for count in (2, 3):
            await connection.execute(sa.update(issues).where(issues.c.id == first).values(count=count))
    changed = await reader.read(scope, batch.until)
    assert changed is not None
    (row,) = changed.table.to_pylist()
    assert (row["issue_id"], row["change_number"], row["count"]) == (first, 3, 3)
    assert row["row_id"] == f"{first}:3"
    # Read again, the first batch lacks what has changed since, and has nothing that is behind it.
    again = await reader.read_again(scope, None, batch.until)
    assert [each["issue_id"] for each in again.to_pylist()] == [second]
    assert await reader.read(scope, changed.until) is None
