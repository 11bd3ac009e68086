"""Decides whether code fixes an issue, from what is known of the code. The order in which it became known makes no
difference.

A change is a commit or a merged proposal. A change counts as reverted while at least one change that reverts it is not
reverted itself. Reverts by number can form a circle. Changes in a circle are not reverted and revert nothing, unless a
change outside of the circle reverts one of them. An issue is fixed while one of the changes that name it as fixed is
not reverted.

A change of the status by people, by occurrences of the error or by tickets is a decision. A decision stands until the
code changes later than the decision, by the clock of the platform. All functions are pure.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, NamedTuple

from chassis.issues import IssueStatus


class StatusDecision(NamedTuple):
    """The status that an issue was given, and when."""

    status: IssueStatus
    at: datetime


@dataclass(frozen=True)
class CodeHistory:
    """The time at which each change became part of the code, and the changes that are said to revert it."""

    times: Mapping[str, datetime]
    reverted_by: Mapping[str, Collection[str]] = field(default_factory=dict)
    _found: dict[tuple[frozenset[str], datetime], set[str]] = field(default_factory=dict, init=False, repr=False)

    def reverted(self, changes: Collection[str], until: datetime | None = None) -> set[str]:
        """The reverted changes among `changes`, at the time `until`, by default now. Answers are remembered, because
        many issues ask the same.
        """
        if until is None or self._latest is None or until >= self._latest:
            return self._reverted_now & set(changes)
        key = frozenset(changes), until
        if key not in self._found:
            self._found[key] = self._find_reverted(changes, until) & key[0]
        return self._found[key]

    @cached_property
    def _latest(self) -> datetime | None:
        return max(self.times.values(), default=None)

    @cached_property
    def _reverted_now(self) -> set[str]:
        """The reverted changes among all changes. Whether a change is reverted depends only on the changes that revert
        it.
        """
        return self._find_reverted(self.times, None)

    def _find_reverted(self, changes: Collection[str], until: datetime | None) -> set[str]:
        """The reverted changes among these changes and the changes that revert them."""
        known = self._with_reverting(changes, until)
        reverts: dict[str, list[str]] = {}
        undecided: Counter[str] = Counter()
        for change in known:
            for other in self.reverted_by.get(change, ()):
                if other in known and other != change:
                    reverts.setdefault(other, []).append(change)
                    undecided[change] += 1
        reverted: set[str] = set()
        ready = [change for change in known if not undecided[change]]
        while ready:
            change = ready.pop()
            for other in reverts.get(change, ()):
                undecided[other] -= 1
                if change not in reverted and other not in reverted:
                    reverted.add(other)
                    ready.append(other)
                elif not undecided[other] and other not in reverted:
                    ready.append(other)
        return reverted

    def _with_reverting(self, changes: Iterable[str], until: datetime | None) -> set[str]:
        known: set[str] = set()
        found = list(changes)
        while found:
            change = found.pop()
            is_known = change in self.times and (until is None or self.times[change] <= until)
            if is_known and change not in known:
                known.add(change)
                found += self.reverted_by.get(change, ())
        return known


_UNDECIDED: Final = StatusDecision(IssueStatus.UNRESOLVED, datetime.min.replace(tzinfo=UTC))


class StatusVerdict(NamedTuple):
    """The status that an issue should have. `causes`: the changes that fix the issue now, or if there are none, the
    changes that fixed it before.
    """

    status: IssueStatus
    causes: Collection[str]


def decide_status(history: CodeHistory, fixes: Collection[str], decision: StatusDecision | None) -> StatusVerdict:
    """Decide the status of an issue that these changes name as fixed."""
    status, at = decision or _UNDECIDED
    lasting = set(fixes) - history.reverted(fixes)
    then = {one for one in fixes if history.times[one] <= at}
    lasting_then = then - history.reverted(then, at)
    gained = lasting - lasting_then
    if gained:
        return StatusVerdict(IssueStatus.RESOLVED, gained)
    is_lost = bool(lasting_then) and not lasting
    if is_lost or (status is IssueStatus.IGNORED and len(then) < len(set(fixes))):
        return StatusVerdict(IssueStatus.UNRESOLVED, fixes)
    return StatusVerdict(status, lasting or fixes)
