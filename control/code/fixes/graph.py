"""Finds which changes revert which other changes, in the database. Every function runs in the caller's transaction.

A change is a commit or a merged proposal. A revert names its target by the beginning of a hash or by the number of a
proposal, and the revert may be reported before its target. Targets are therefore looked up each time:

    a hash      means the commit, and the proposal whose merge is this commit; if a merge is reverted as a whole, also
                the commits of the push that it ended
    a number    means the proposal; the commits whose messages name it; the commit that merged it, and the commits of
                the push that this commit ended, which were merged or rebased

The search is bounded. A revert that is deeper than MAX_DEPTH counts as not reverted, and changes beyond MAX_CHANGES,
MAX_TARGETS, MAX_PAIRS and MAX_REVERTING do not count.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.code.fixes.rules import CodeHistory
from control.code.messages import SHORTEST_HASH, Revert
from control.issues.releases.tables import ProposalState, code_reverts, commits, proposals
from control.issues.store import in_chunks, read_in_chunks

MAX_CHANGES: Final = 5_000  # changes that one search visits
MAX_TARGETS: Final = 1_000  # targets of reverts that one search looks up
MAX_PAIRS: Final = 20_000  # pairs of a revert and a change, per step
MAX_REVERTING: Final = 100  # changes that revert the same change, the newest
MAX_DEPTH: Final = 50  # depth of reverts of reverts
_UNION: Final = 50  # look-ups per statement
_FOUND: Final = 100  # rows per look-up
_SHORT: Final = 12  # digits of the hashes that Bitbucket Cloud reports


@dataclass(frozen=True, slots=True)
class CodeChange:
    """A commit or a merged proposal. `sha`: the hash of the commit, or of the proposal's merge. `head`: the head of the
    push that brought the commit to the default branch. `number`: the number of the proposal. `at`: when the change
    became part of the code, None if it has not.
    """

    id: str
    repository: str
    at: datetime | None
    sha: str | None
    number: str | None
    head: str | None = None
    is_proposal: bool = False

    @property
    def activity_data(self) -> dict[str, str]:
        """The data of an activity entry about the change."""
        name = {"proposal": self.number or ""} if self.is_proposal else {"sha": self.sha or ""}
        return {"repository": self.repository} | name


class _Edge(NamedTuple):
    source_id: str
    repository: str
    revert: Revert


SELECT_COMMITS: Final = sa.select(
    commits.c.id,
    commits.c.repository,
    commits.c.default_branch_at,
    commits.c.released_at,
    commits.c.sha,
    commits.c.proposal_number,
    commits.c.default_branch_head,
)
_IS_MERGED: Final = proposals.c.state == ProposalState.MERGED.value
MERGED_INTO_DEFAULT_BRANCH: Final = _IS_MERGED & proposals.c.targets_default_branch
SELECT_PROPOSALS: Final = sa.select(
    proposals.c.id, proposals.c.repository, proposals.c.merged_at, proposals.c.merge_sha, proposals.c.number
).where(MERGED_INTO_DEFAULT_BRANCH)


def to_commit(row: Any) -> CodeChange:
    """The commit in a row of SELECT_COMMITS."""
    times = [one for one in (row.default_branch_at, row.released_at) if one is not None]
    return CodeChange(
        row.id, row.repository, min(times, default=None), row.sha, row.proposal_number, row.default_branch_head
    )


def to_proposal(row: Any) -> CodeChange:
    """The proposal in a row of SELECT_PROPOSALS."""
    return CodeChange(row.id, row.repository, row.merged_at, row.merge_sha, row.number, is_proposal=True)


@dataclass(frozen=True, slots=True)
class CodeGraph:
    """The changes of an organization."""

    connection: AsyncConnection
    org_id: str
    changes: dict[str, CodeChange] = field(default_factory=dict)

    async def load(self, ids: Collection[str]) -> list[CodeChange]:
        """Changes by id."""
        of_commits, of_proposals = split_by_kind(one for one in ids if one not in self.changes)
        found = await read_in_chunks(self.connection, SELECT_COMMITS, commits.c.id, of_commits)
        merged = await read_in_chunks(self.connection, SELECT_PROPOSALS, proposals.c.id, of_proposals)
        self._add([*map(to_commit, found), *map(to_proposal, merged)])
        return [self.changes[one] for one in ids if one in self.changes]

    async def history(self, fixes: Iterable[CodeChange]) -> CodeHistory:
        """The history of the changes, including all changes that revert them, directly or indirectly."""
        reverted_by: dict[str, set[str]] = {}
        found = {one.id: one for one in fixes}
        self.changes.update(found)
        frontier = list(found.values())
        for _ in range(MAX_DEPTH):
            edges = await self._reverting(frontier) if frontier else []
            await self.load({edge.source_id for edge, _ in edges})
            frontier = []
            for target, sources in self._newest(edges).items():
                reverted_by[target] = {source.id for source in sources}
                new = [source for source in sources if source.id not in found][: max(0, MAX_CHANGES - len(found))]
                found |= {source.id: source for source in new}
                frontier += new
        return CodeHistory({one.id: one.at for one in found.values() if one.at is not None}, reverted_by)

    def _newest(self, edges: Iterable[tuple[_Edge, CodeChange]]) -> dict[str, list[CodeChange]]:
        """The newest changes that revert each of the changes, at most MAX_REVERTING each, by id of the reverted
        change.
        """
        by_target: dict[str, dict[str, tuple[datetime, CodeChange]]] = {}
        for edge, change in edges:
            source = self.changes.get(edge.source_id)
            if source is not None and source.at is not None:
                by_target.setdefault(change.id, {})[source.id] = source.at, source
        newest: dict[str, list[CodeChange]] = {}
        for target, by_source in by_target.items():
            dated = sorted(by_source.values(), key=lambda one: (one[0], one[1].id), reverse=True)
            newest[target] = [source for _, source in dated[:MAX_REVERTING]]
        return newest

    async def affected_by(self, reported: Sequence[CodeChange]) -> list[str]:
        """The ids of the changes and of all changes whose state may depend on them: the changes that they revert, and
        the changes that these revert in turn.
        """
        self._add(reported)
        found = {one.id: one for one in reported}
        frontier = list(reported)
        room = MAX_TARGETS
        for _ in range(MAX_DEPTH):
            if not frontier:
                break
            edges = (await self._reverts_of([one.id for one in frontier]))[:room]
            room -= len(edges)
            reached = await self._targets(edges) + await self._commits_of([one for one in frontier if one.is_proposal])
            frontier = [one for one in {each.id: each for each in reached}.values() if one.id not in found]
            frontier = frontier[: max(0, MAX_CHANGES - len(found))]
            found |= {one.id: one for one in frontier}
        return list(found)

    async def _reverting(self, reverted: Sequence[CodeChange]) -> list[tuple[_Edge, CodeChange]]:
        """The reverts of the changes, each with one of the changes that it reverts."""
        numbers = await self._numbers_of([one for one in reverted if not one.is_proposal])
        by_key: dict[str, list[CodeChange]] = {}
        for one in reverted:
            keys = {hashed[:SHORTEST_HASH] for hashed in (one.sha, one.head) if hashed is not None}
            keys |= {f"#{number}" for number in (one.number, *numbers.get(one.id, ())) if number is not None}
            for key in keys:
                by_key.setdefault(key, []).append(one)
        columns = code_reverts.c
        found: list[tuple[_Edge, CodeChange]] = []
        for some in in_chunks(sorted(by_key)):
            where = (columns.org_id == self.org_id) & columns.target_key.in_(some)
            rows = sa.select(code_reverts).where(where).order_by(columns.source_id, columns.target).limit(MAX_CHANGES)
            edges = [(row.target_key, _edge(row)) for row in await self.connection.execute(rows)]
            pairs = ((edge, one) for key, edge in edges for one in by_key[key] if one.id != edge.source_id)
            some_pairs = islice(pairs, MAX_PAIRS - min(len(found), MAX_PAIRS))
            found += [pair for pair in some_pairs if _is_target(*pair, numbers.get(pair[1].id, ()))]
        return found

    async def _numbers_of(self, changes: Sequence[CodeChange]) -> dict[str, set[str]]:
        """The numbers of the proposals that merged the commits, by id of the commit. A proposal is found by the commit
        that ended the commits' push.
        """
        numbers: dict[str, set[str]] = {}
        hashes = sorted({hashed for one in changes for hashed in (one.sha, one.head) if hashed is not None})
        wanted = sorted({*hashes, *(hashed[:_SHORT] for hashed in hashes)})
        of_org = SELECT_PROPOSALS.where(proposals.c.org_id == self.org_id).limit(MAX_CHANGES)
        by_start: dict[str, list[CodeChange]] = {}
        for row in await read_in_chunks(self.connection, of_org, proposals.c.merge_sha, wanted):
            by_start.setdefault(row.merge_sha[:SHORTEST_HASH], []).append(to_proposal(row))
        for one in changes:
            for hashed in (one.sha, one.head):
                for proposal in by_start.get((hashed or "")[:SHORTEST_HASH], ()):
                    if _merged_by(proposal, one):
                        numbers.setdefault(one.id, set()).add(proposal.number or "")
        return numbers

    async def _reverts_of(self, source_ids: Sequence[str]) -> list[_Edge]:
        select = sa.select(code_reverts).order_by(code_reverts.c.target)
        return [
            _edge(row) for row in await read_in_chunks(self.connection, select, code_reverts.c.source_id, source_ids)
        ]

    async def _targets(self, edges: Sequence[_Edge]) -> list[CodeChange]:
        """The changes that the reverts name."""
        hashes = [(edge.repository, edge.revert.target) for edge in edges if not edge.revert.is_number]
        of_merges = [(edge.repository, edge.revert.target) for edge in edges if edge.revert.reverts_merge]
        numbers = [(edge.repository, edge.revert.target[1:]) for edge in edges if edge.revert.is_number]
        found = await self._by_hash(SELECT_COMMITS, commits, "sha", hashes)
        found += await self._by_hash(SELECT_COMMITS, commits, "default_branch_head", of_merges)
        merged = await self._by_number(SELECT_PROPOSALS, proposals, "number", numbers)
        found += [*merged, *await self._by_hash(SELECT_PROPOSALS, proposals, "merge_sha", hashes)]
        found += await self._by_number(SELECT_COMMITS, commits, "proposal_number", numbers)
        return found + await self._commits_of(merged)

    async def _commits_of(self, merged: Sequence[CodeChange]) -> list[CodeChange]:
        """The commits that the proposals merged."""
        hashes = [(one.repository, one.sha) for one in merged if one.sha is not None]
        found = await self._by_hash(SELECT_COMMITS, commits, "sha", hashes)
        return found + await self._by_hash(SELECT_COMMITS, commits, "default_branch_head", hashes)

    async def _by_hash(
        self, select: sa.Select[Any], table: sa.Table, column: str, wanted: Iterable[tuple[str, str]]
    ) -> list[CodeChange]:
        """The rows of a repository whose hash begins with one of these hashes, or is the beginning of one of them."""
        conditions = []
        for repository, hashed in dict.fromkeys(wanted):
            of_repository = (table.c.org_id == self.org_id) & (table.c.repository == repository)
            conditions.append(of_repository & (table.c[column] >= hashed) & (table.c[column] < hashed + "g"))
            if table is proposals and len(hashed) > _SHORT:
                conditions.append(of_repository & (table.c[column] == hashed[:_SHORT]))
        return await self._find(select, table, conditions)

    async def _by_number(
        self, select: sa.Select[Any], table: sa.Table, column: str, wanted: Iterable[tuple[str, str]]
    ) -> list[CodeChange]:
        of_org = table.c.org_id == self.org_id
        conditions = [
            of_org & (table.c.repository == repository) & (table.c[column] == number)
            for repository, number in dict.fromkeys(wanted)
        ]
        return await self._find(select, table, conditions)

    async def _find(
        self, select: sa.Select[Any], table: sa.Table, conditions: Sequence[sa.ColumnElement[bool]]
    ) -> list[CodeChange]:
        """The rows that fulfil one of the conditions, at most _FOUND for each condition, found by an index."""
        to_change = to_proposal if table is proposals else to_commit
        found: list[CodeChange] = []
        for some in in_chunks(conditions, _UNION):
            each = [select.where(one).limit(_FOUND).subquery() for one in some]
            rows = await self.connection.execute(sa.union_all(*(sa.select(one) for one in each)))
            found += [to_change(row) for row in rows]
        self._add(found)
        return found

    def _add(self, changes: Iterable[CodeChange]) -> None:
        self.changes.update((one.id, one) for one in changes)


def split_by_kind(ids: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split ids into ids of commits and ids of proposals."""
    by_kind: tuple[list[str], list[str]] = ([], [])
    for one in ids:
        by_kind[one.startswith("prp_")].append(one)
    return by_kind


def _edge(row: Any) -> _Edge:
    return _Edge(row.source_id, row.repository, Revert(row.target, row.reverts_merge))


def _is_target(edge: _Edge, change: CodeChange, numbers: Collection[str]) -> bool:
    """Whether the revert names the change. `numbers`: the numbers of the proposals that merged the change."""
    if edge.repository != change.repository:
        return False
    if edge.revert.is_number:
        return edge.revert.target[1:] in (change.number, *numbers)
    return is_same_hash(change.sha, edge.revert.target) or (
        edge.revert.reverts_merge and is_same_hash(change.head, edge.revert.target)
    )


def _merged_by(proposal: CodeChange, commit: CodeChange) -> bool:
    """Whether the proposal brought the commit: as its merge, or as one of the merged commits. A commit that names
    another proposal was not merged by this one.
    """
    if proposal.repository != commit.repository:
        return False
    came_with = is_same_hash(commit.head, proposal.sha) and commit.number in (None, proposal.number)
    return came_with or is_same_hash(commit.sha, proposal.sha)


def is_same_hash(one: str | None, other: str | None) -> bool:
    """Whether one of the hashes is the beginning of the other."""
    return one is not None and other is not None and (one.startswith(other) or other.startswith(one))
