"""A report holds the write transaction, so what it costs is bounded."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.auth.tables import new_id
from chassis.issues import issues
from control.code.fixes import updates
from tests.control.conftest import Control
from tests.control.issues.releases.stored import commit, new_issue, new_project, report
from tests.control.plans import Plans

MAX_STATEMENTS = 110  # with those that check the credentials and note the report, and of tasks that run meanwhile


pytestmark = pytest.mark.control_settings(max_body_bytes=2**20)


@contextmanager
def counted(control: Control) -> Iterator[list[str]]:
    """The statements that run meanwhile."""
    seen: list[str] = []

    def look(_connection: Any, _cursor: Any, statement: str, *_: object) -> None:
        seen.append(statement)

    assert control.checks.database._engine is not None
    engine = control.checks.database._engine.sync_engine
    sa.event.listen(engine, "before_cursor_execute", look)
    yield seen
    sa.event.remove(engine, "before_cursor_execute", look)


async def new_issues(control: Control, count: int) -> None:
    first = await new_issue(control, 1)
    async with control.checks.database.write() as connection:
        row = (await connection.execute(sa.select(issues).where(issues.c.id == first))).mappings().one()
        rows = [
            {**row, "id": new_id("iss"), "number": n, "fingerprint": hashlib.sha256(str(n).encode()).digest()[:16]}
            for n in range(2, count + 1)
        ]
        await connection.execute(issues.insert(), rows)


async def test_reverts_are_looked_up_together(control: Control) -> None:
    await new_issue(control, 1)
    fix = commit("0000001", "Fixes WEB-1")
    await report(control, "1.0.0", fix)
    lines = ["\n".join(f"This reverts commit {n * 50 + k:07x}." for k in range(50)) for n in range(155)]
    with counted(control) as seen:
        answer = await report(
            control, "1.1.0", *(commit(f"b{n:08x}", lines[n]) for n in range(154, -1, -1)), commit("c", "x")
        )
    assert len(seen) < MAX_STATEMENTS
    assert answer["issuesReopened"] == [], "beyond so many hashes of a report"
    reverts = "".join("This reverts commit 0000001.\n" for _ in range(50))
    with counted(control) as seen:
        answer = await report(
            control, "1.2.0", *(commit(f"d{n:08x}", reverts) for n in range(50)), commit("e", lines[3])
        )
    assert (len(seen) < MAX_STATEMENTS, answer["issuesReopened"]) == (True, ["WEB-1"])


@pytest.mark.both_stores
async def test_a_report_with_very_many_references_takes_few_statements(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the newest commits count."""
    await new_issues(control, 300)
    messages = ["Fixes " + ", ".join(f"WEB-{n * 50 + k + 1}" for k in range(50)) for n in range(6)]
    monkeypatch.setattr(updates, "MAX_REPORT_REFERENCES", 270)
    reported = [commit(f"{n:08x}a", messages[n % 6]) for n in range(100)]
    with counted(control) as seen:
        answer = await report(control, "1.0.0", *reported)
    assert len(seen) < MAX_STATEMENTS
    assert len(answer["issuesResolved"]) == 270
    assert (await report(control, "1.0.0", *reported))["issuesResolved"] == []
    reverts = [commit(f"{n:08x}b", f"This reverts commit {n:08x}a.") for n in range(100)]
    with counted(control) as seen:
        answer = await report(control, "1.1.0", *reverts)
    assert (len(seen) < MAX_STATEMENTS, len(answer["issuesReopened"])) == (True, 270)


async def test_very_long_messages_are_searched_in_part(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the newest commits; and references that are repeated count each time."""
    await new_issues(control, 3)
    monkeypatch.setattr(updates, "MAX_REPORT_TEXT", 2_000)
    long = "Fixes WEB-1" + ", WEB-1" * 60 + ", WEB-2"
    reported = [commit("a", long), commit("b", "x" * 1_000), commit("c", "y" * 1_000), commit("d", "Fixes WEB-3")]
    assert (await report(control, "1.0.0", *reported))["issuesResolved"] == ["WEB-1"]


@pytest.mark.both_stores
async def test_names_of_very_many_projects_take_few_statements(control: Control) -> None:
    await new_project(control, "api")
    await new_issue(control, 1)
    names = ["Fixes " + ", ".join(f"p{n * 50 + k}-1" for k in range(50)) for n in range(30)]
    with counted(control) as seen:
        answer = await report(
            control, "1.0.0", commit("a", "Fixes WEB-1"), *(commit(f"{n:08x}a", one) for n, one in enumerate(names))
        )
    assert (len(seen) < MAX_STATEMENTS, answer["issuesResolved"]) == (True, ["WEB-1"])


async def test_a_merge_takes_few_statements(control: Control) -> None:
    await new_issues(control, 50)
    body = "Fixes " + ", ".join(f"WEB-{n + 1}" for n in range(50))
    merged = {"repository": "shop/web", "number": "1", "title": "All", "state": "merged", "body": body}
    with counted(control) as seen:
        _, answer, _ = await control.call("PUT", "/orgs/acme/proposals", merged)
    assert (len(seen) < MAX_STATEMENTS, len(answer["issuesResolved"])) == (True, 50)


async def test_known_commits_are_found_by_their_hashes(control: Control) -> None:
    """Not among all of the organization."""
    with Plans(control.checks.database, "commits") as plans:
        await report(control, "1.0.0", commit("a", "One"), commit("b", "Two"))
    assert any("(org_id=? AND sha=?)" in one for one in plans.seen), plans.seen
