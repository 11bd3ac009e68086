"""Which issue each fingerprint of a page leads to, also after an upgrade of the rules that make fingerprints. Pure.

An upgrade gives an error a new fingerprint. The one that it had before is computed from the texts of an occurrence
(`occurrence_texts`), and so the new one leads to the issue of the old one:

    plan              assigns the fingerprints of a page to issues, the earliest errors first
      assign_current  of the current version: known, the issue of an old one, split from such an issue, or new
      assign_earlier  of an earlier version, of a gateway that is not upgraded: known, the issue of its current one, or
                      new
      _process        several old ones that have become one: their issues are merged, the oldest stays

An old fingerprint is pending until an occurrence shows what it has become. It is processed once: fingerprints that it
becomes later are those of issues split from its issue. An upgrade ends: UPGRADE_DAYS after an old fingerprint became
known it is left to itself, and a new one is that of a new issue.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from control.issues.counting.occurrences import IssueKey, Seen
from control.issues.tables import IssueRecord
from proto.grouping.fingerprint import FINGERPRINT_VERSION

UPGRADE_DAYS: Final = 30  # in the storage time of occurrences
_DAY_US: Final = 86_400_000_000


class FingerprintLink(NamedTuple):
    """The issue to which a fingerprint leads, the fingerprint version under which that was last decided, and since
    when it is known: the storage time, in microseconds, and of those from before an upgrade when that was.
    """

    issue: IssueRecord
    fingerprint_version: int
    since_us: int


def oldest_upgraded(stored_us: int) -> int:
    """Fingerprints of earlier versions that are not known since later than this are left to themselves. `stored_us`:
    the storage time of what is counted. Both in microseconds.
    """
    return stored_us - UPGRADE_DAYS * _DAY_US


@dataclass(slots=True)
class Regrouping:
    """What becomes of the fingerprints of a page.

    `known`: fingerprints that an issue counts, with its id. `new`: fingerprints that get an issue each, and others that
    lead to the same. `split_from`: those of them that were one with others before, with the id of the issue that keeps
    the others. `merges`: issues by the id of the one into which they are merged. `renamed`: issues with their first
    fingerprint of the current version. `links`: fingerprints to store, with the id of the issue. `processed`:
    fingerprints that are no longer pending.
    """

    known: dict[IssueKey, str] = field(default_factory=dict)
    new: dict[IssueKey, list[IssueKey]] = field(default_factory=dict)
    split_from: dict[IssueKey, str] = field(default_factory=dict)
    merges: dict[str, list[str]] = field(default_factory=dict)
    renamed: dict[str, bytes] = field(default_factory=dict)
    links: dict[IssueKey, str] = field(default_factory=dict)
    processed: set[IssueKey] = field(default_factory=set)


def plan(
    found: Iterable[tuple[IssueKey, Seen]],
    others: Mapping[IssueKey, Sequence[IssueKey]],
    links: Mapping[IssueKey, FingerprintLink],
    stored_us: int,
) -> Regrouping:
    """Assign the fingerprints of a page to issues, in this order. `others`: those that their occurrences have in other
    fingerprint versions, as far as they were read; `links`: of all of these that are known; `stored_us`: the storage
    time of the page, in microseconds.
    """
    planner = _Planner(others, links, oldest_upgraded(stored_us))
    for key, seen in found:
        if seen.fingerprint_version < FINGERPRINT_VERSION:
            planner.assign_earlier(key)
        else:
            planner.assign_current(key)
    return planner.finish()


class _Planner:
    def __init__(
        self, others: Mapping[IssueKey, Sequence[IssueKey]], links: Mapping[IssueKey, FingerprintLink], oldest_us: int
    ) -> None:
        self._others = others
        self._plan = Regrouping()
        self._issues = {link.issue.id: link.issue for link in links.values()}
        self._issue_of = {key: link.issue.id for key, link in links.items()}
        self._upgraded = {key for key, link in links.items() if link.since_us > oldest_us}
        self._pending = {key for key in self._upgraded if links[key].fingerprint_version < FINGERPRINT_VERSION}
        self._created: dict[IssueKey, IssueKey] = {}  # the fingerprint for which the issue is created
        self._into: dict[str, str] = {}

    def assign_current(self, key: IssueKey) -> None:
        """Assign a fingerprint of the current version."""
        if key in self._created:
            return
        others = self._others.get(key, ())
        pending = [one for one in (key, *others) if one in self._pending]
        older = [one for one in others if one in self._upgraded]
        if key in self._issue_of or pending:
            self._process(key, pending)
        else:
            self._create(key)
            if older:
                self._plan.split_from[key] = self._issue_of[older[0]]

    def assign_earlier(self, key: IssueKey) -> None:
        """Assign a fingerprint of an earlier version; with a new one, what it is in the current version."""
        if key in self._created or key in self._issue_of:
            return
        others = self._others.get(key, ())
        known = next((one for one in others if one in self._issue_of or one in self._created), None)
        if known is None:
            self._create(key, *others[:1])
        elif known in self._created:
            self._join(key, self._created[known])
        else:
            self._lead(key, self._issue_of[known])

    def finish(self) -> Regrouping:
        """The plan, with the ids of the issues that are left."""
        plan = self._plan
        plan.known = {key: self._left(issue_id) for key, issue_id in self._issue_of.items()}
        plan.links = {key: self._left(issue_id) for key, issue_id in plan.links.items()}
        plan.split_from = {key: self._left(issue_id) for key, issue_id in plan.split_from.items()}
        return plan

    def _create(self, key: IssueKey, *more: IssueKey) -> None:
        self._plan.new[key] = []
        self._created[key] = key
        for one in more:
            self._join(one, key)

    def _join(self, key: IssueKey, created: IssueKey) -> None:
        self._plan.new[created].append(key)
        self._created[key] = created

    def _lead(self, key: IssueKey, issue_id: str) -> None:
        self._plan.links[key] = self._issue_of[key] = issue_id
        self._upgraded.add(key)

    def _process(self, key: IssueKey, pending: Sequence[IssueKey]) -> None:
        """The oldest of the issues takes the fingerprint; the others are merged into it."""
        ids = {self._left(self._issue_of[one]) for one in (key, *pending) if one in self._issue_of}
        target, *merged = sorted(ids, key=lambda one: self._issues[one].number)
        if merged:
            before = [one for each in merged for one in self._plan.merges.pop(each, [])]
            self._plan.merges.setdefault(target, []).extend((*before, *merged))
            self._into |= dict.fromkeys(merged, target)
        if key not in self._issue_of:
            self._lead(key, target)
        if self._issues[target].fingerprint in {fingerprint for _, fingerprint in pending}:
            self._plan.renamed.setdefault(target, key[1])
        self._pending.difference_update(pending)
        self._plan.processed.update(pending)

    def _left(self, issue_id: str) -> str:
        while issue_id in self._into:
            issue_id = self._into[issue_id]
        return issue_id
