"""Suspect commits through the API of control."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from chassis.clickhouse import ClickHouse, StoreUnavailable
from control.code.suspects import api
from control.code.suspects.api import StackTrace, read_stack_trace
from control.settings import ControlSettings
from tests.chassis.auth.tenants import Tenant
from tests.control.conftest import Control, serving
from tests.control.issues.releases.stored import commit, new_issue, new_project, report

NOW = datetime.now(UTC).replace(microsecond=0)
FINGERPRINT = bytes(range(16))
OLD = b"o" * 16
TRACE = """Traceback (most recent call last):
  File "/app/shop/api.py", line 9, in quote
    return cart.total()
  File "/app/shop/cart.py", line 17, in total
    return 1 / 0
ZeroDivisionError: division by zero
"""


class Answering(ClickHouse):
    """Has these stack traces, the first for the first occurrence; an exception is raised instead."""

    def __init__(self, *replies: str | Exception | None) -> None:
        super().__init__("http://127.0.0.1:1")
        self.replies = list(replies)
        self.asked: list[dict[str, Any]] = []

    async def query(self, sql: str, parameters: Any, *, limits: Any) -> list[tuple[object, ...]]:  # noqa: ARG002
        if "stacktrace" not in sql:  # what counts issues asks, too
            raise StoreUnavailable("not a question for this")
        self.asked.append(dict(parameters))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return [] if reply is None else [(reply, "1.1.0")]


@pytest.fixture
def stack_traces() -> ClickHouse | None:
    return Answering(TRACE)


@pytest.fixture
async def control(
    migrated_url: str, tenants: tuple[Tenant, Tenant] | None, tmp_path: Path, stack_traces: ClickHouse | None
) -> AsyncIterator[Control]:
    async with serving(
        migrated_url, tmp_path, ControlSettings(), tenants=tenants, parts={"clickhouse": stack_traces}
    ) as control:
        yield control


async def occurred(control: Control, release: str | None = "1.1.0", **more: Any) -> str:
    """An issue that occurred first in this release."""
    times = {"first_seen": NOW - timedelta(hours=2), "last_seen": NOW}
    return await new_issue(control, 1, fingerprint=FINGERPRINT, first_release=release, **(times | more))


async def suspects(control: Control, issue: str) -> Any:
    status, answer, _ = await control.call("GET", f"/orgs/acme/projects/web/issues/{issue}/suspects")
    assert status == 200, answer
    return answer


def hashes(answer: Any) -> list[str]:
    return [one["sha"].rstrip("0") for one in answer["commits"]]


@pytest.mark.both_stores
async def test_new_commits_of_the_first_bad_release_are_suspected(control: Control) -> None:
    old = commit("c", "Old", "shop/cart.py")
    await report(control, "1.0.0", old)
    await report(control, "1.1.0", commit("a", "Mail", "shop/mail.py"), commit("b", "Round", "shop/cart.py"), old)
    await report(control, "0.9.0", commit("d", "Older", "shop/cart.py"))
    await report(control, "1.2.0", commit("e", "Later", "shop/cart.py"))
    answer = await suspects(control, await occurred(control))
    assert {name: value for name, value in answer.items() if name != "commits"} == {
        "firstBadRelease": "1.1.0",
        "previousRelease": "1.0.0",
        "basis": "release",
        "frames": [
            {"file": "/app/shop/cart.py", "function": "total"},
            {"file": "/app/shop/api.py", "function": "quote"},
        ],
        "complete": True,
        "note": None,
    }
    assert hashes(answer) == ["b"]
    ((suspect,)) = answer["commits"]
    assert suspect["reasons"] == [{"frame": answer["frames"][0], "file": "shop/cart.py", "rank": 0}]
    assert (suspect["message"], suspect["score"] > 0) == ("Round", True)


@pytest.mark.both_stores
async def test_without_a_release_the_time_before_counts(control: Control) -> None:
    def at(**ago: float) -> str:
        return (NOW - timedelta(**ago)).isoformat()

    await new_project(control, "api")
    await report(
        control,
        "nightly",
        commit("a", "Near", "shop/cart.py", authoredAt=at(days=1)),
        commit("b", "Afterwards", "shop/cart.py", authoredAt=at(hours=1)),
        commit("c", "Long before", "shop/cart.py", authoredAt=at(days=15)),
        commit("d", "Nobody knows when", "shop/cart.py"),
    )
    other = commit("e", "Of another project", "shop/cart.py", authoredAt=at(days=1))
    await report(control, "other", other, projects=["api"], repository="shop/api")
    answer = await suspects(control, await occurred(control, None))
    assert (answer["basis"], answer["firstBadRelease"], hashes(answer)) == ("time", None, ["a"])


async def test_why_there_are_no_suspects_is_said(control: Control, stack_traces: Answering) -> None:
    stack_traces.replies = [TRACE, TRACE, None, None]
    issue = await occurred(control)
    assert (await suspects(control, issue))["note"] == "No commits are known. Report releases with their commits."
    await report(control, "1.1.0", commit("a", "Mail", "shop/mail.py"))
    assert (await suspects(control, issue))["note"] == "No known commit changed a file of the stack trace."
    answer = await suspects(control, issue)
    assert (answer["note"], answer["frames"]) == ("No occurrence that is still stored has a stack trace.", [])
    first, last = stack_traces.asked[-2:]
    assert first["from"] < first["to"] < last["from"] < last["to"]


@pytest.mark.parametrize("stack_traces", [None])
async def test_without_a_store_it_says_so(control: Control) -> None:
    answer = await suspects(control, await occurred(control))
    assert answer["note"] == "This process cannot read stack traces, because it has no ClickHouse server."


@pytest.mark.parametrize("stack_traces", [ClickHouse("http://127.0.0.1:1", timeout_s=1)])
async def test_an_unavailable_store_is_503(control: Control) -> None:
    path = f"/orgs/acme/projects/web/issues/{await occurred(control)}/suspects"
    status, answer, headers = await control.call("GET", path)
    assert (status, answer["error"]["code"]) == (503, "service_unavailable")
    assert int(headers["Retry-After"]) >= 1


async def test_what_was_left_out_is_said(
    control: Control, monkeypatch: pytest.MonkeyPatch, stack_traces: Answering
) -> None:
    stack_traces.replies = [TRACE] * 3
    monkeypatch.setattr(api, "MAX_COMMITS", 2)
    issue = await occurred(control)
    await report(control, "1.1.0", *(commit(name, name, "shop/cart.py") for name in "abc"))
    answer = await suspects(control, issue)
    assert (answer["complete"], sorted(hashes(answer))) == (False, ["a", "b"])
    monkeypatch.setattr(api, "MAX_CHARACTERS", 20)
    answer = await suspects(control, issue)
    assert (answer["complete"], hashes(answer)) == (False, ["a"])


async def test_the_stack_trace_is_that_of_the_first_occurrence(clickhouse: ClickHouse) -> None:
    """Else that of the latest: the first may be erased, or older than the retention."""
    first = NOW - timedelta(hours=5)
    issue = 7, (FINGERPRINT, OLD), first, NOW
    assert await read_stack_trace(clickhouse, *issue) is None
    await store(
        clickhouse, (NOW, "latest"), (NOW - timedelta(minutes=1), "before"), (NOW + timedelta(seconds=1), "after")
    )
    assert await read_stack_trace(clickhouse, *issue) == StackTrace("latest", "")
    await store(
        clickhouse, (first, ""), (first + timedelta(seconds=1), "first"), (first + timedelta(hours=2), "middle")
    )
    await store(clickhouse, (first, "foreign"), project=8)
    await store(clickhouse, (first, "other"), fingerprint=bytes(16))
    assert await read_stack_trace(clickhouse, *issue) == StackTrace("first", "")
    await store(clickhouse, (first, "by the rules before an upgrade"), fingerprint=OLD)
    assert await read_stack_trace(clickhouse, *issue) == StackTrace("by the rules before an upgrade", "")


async def store(
    clickhouse: ClickHouse, *rows: tuple[datetime, str], project: int = 7, fingerprint: bytes = FINGERPRINT
) -> None:
    """Occurrences with these times and stack traces."""
    for at, text in rows:
        await clickhouse.command(
            "INSERT INTO error_occurrences (project_id, time, fingerprint, stacktrace) SELECT {project:UInt64},"
            " fromUnixTimestamp64Milli({at:Int64}, 'UTC'), unhex({fingerprint:String}), {text:String}",
            {"project": project, "at": int(at.timestamp() * 1_000), "fingerprint": fingerprint.hex(), "text": text},
        )
