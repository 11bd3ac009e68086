"""Whether code fixes an issue, and what a decision of a person changes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chassis.issues import IssueStatus
from control.code.fixes.rules import CodeHistory, StatusDecision, decide_status

START = datetime(2026, 11, 20, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def history(*changes: str) -> CodeHistory:
    """`f1`: a change at minute 1; `r2 f1`: one at minute 2 that reverts f1."""
    times, reverted_by = {}, dict[str, set[str]]()
    for name, *reverts in (one.split() for one in changes):
        times[name] = at(int(name[1:]))
        for one in reverts:
            reverted_by.setdefault(one, set()).add(name)
    return CodeHistory(times, reverted_by)


@pytest.mark.parametrize(
    ("changes", "reverted"),
    [
        (["f1"], set()),
        (["f1", "r2 f1"], {"f1"}),
        (["f1", "r2 f1", "p3 r2"], {"r2"}),
        (["f1", "r2 f1", "p3 r2", "r4 p3"], {"f1", "p3"}),
        (["f1", "r2 f1", "p3 r2", "r4 f1"], {"f1", "r2"}),
        (["f1", "r2 f1", "r3 f1", "p4 r2"], {"f1", "r2"}),
        (["f1", "r2 f1 p3", "p3 r2"], set()),
        (["f1 f1"], set()),
        (["f1", "r2 f1", "p3 r2 r4", "r4 p3"], set()),
        ([f"f{n} f{n - 1}" for n in range(1, 2_000)], {f"f{n}" for n in range(0, 1_999, 2)} - {"f0"}),
    ],
)
def test_a_change_is_reverted_by_one_that_is_not(changes: list[str], reverted: set[str]) -> None:
    known = history(*changes)
    assert known.reverted(known.times) == reverted


@pytest.mark.parametrize(
    ("changes", "fixes", "decided", "status"),
    [
        ([], "", None, "unresolved"),
        (["f1"], "f1", None, "resolved"),
        (["f1", "r2 f1"], "f1", None, "unresolved"),
        (["f1", "r2 f1", "f3"], "f1 f3", None, "resolved"),
        # A person has opened it again: what was there then does not fix it, what is there only now does.
        (["f1"], "f1", ("unresolved", 2), "unresolved"),
        (["f1", "f3"], "f1 f3", ("unresolved", 2), "resolved"),
        (["f1", "f3", "r4 f3"], "f1 f3", ("unresolved", 2), "unresolved"),
        (["f1", "r2 f1", "p4 r2"], "f1", ("unresolved", 3), "resolved"),
        # A person has resolved it: it is open again if code fixed it then, and does not now.
        (["f1", "r2 f1"], "f1", ("resolved", 3), "resolved"),
        (["f1", "r4 f1"], "f1", ("resolved", 3), "unresolved"),
        (["f1", "g2", "r4 f1"], "f1 g2", ("resolved", 3), "resolved"),
        (["f4", "r5 f4"], "f4", ("resolved", 3), "resolved"),
        (["f1", "r4 f1", "p5 r4"], "f1", ("resolved", 3), "resolved"),
        # What is ignored is until somebody fixes it.
        (["f1"], "f1", ("ignored", 3), "ignored"),
        (["f4"], "f4", ("ignored", 3), "resolved"),
        (["f4", "r5 f4"], "f4", ("ignored", 3), "unresolved"),
        (["f1", "r5 f1"], "f1", ("ignored", 3), "unresolved"),
    ],
)
def test_decisions_stand_until_the_code_is_another(
    changes: list[str], fixes: str, decided: tuple[str, int] | None, status: str
) -> None:
    decision = None if decided is None else StatusDecision(IssueStatus(decided[0]), at(decided[1]))
    assert decide_status(history(*changes), fixes.split(), decision).status.value == status


class Counted(dict[str, set[str]]):
    """Counts what is looked up."""

    looked_up = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.looked_up += 1
        return super().get(key, default)


def test_many_issues_with_the_same_fixes_are_computed_once() -> None:
    """At the time of a decision that is older than the last change, and after it."""
    known = history("f0", *(f"r{n} f{n - 1} r{n - 1}" for n in range(1, 100)))
    counted_reverts = Counted({name: set(each) for name, each in known.reverted_by.items()})
    counted = CodeHistory(known.times, counted_reverts)
    for moment in (50, 100):
        decision = StatusDecision(IssueStatus.RESOLVED, at(moment))
        verdicts = [decide_status(counted, ["f0", "r1"], decision) for _ in range(100)]
        assert all(one == decide_status(known, ["f0", "r1"], decision) for one in verdicts)
    assert counted_reverts.looked_up < 10 * len(known.times)
