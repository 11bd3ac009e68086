"""Bundles in the database. Every function runs in the caller's transaction."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import Conflict
from chassis.http.route import Query, line
from chassis.http.validation import Issues
from control.approvals.proofs.tables import Link, LinkKind, proof_bundles, proof_links, proof_usage
from proto.proofs.primitives import ProofTier, ProofVerdict
from proto.proofs.semantics import Finding, Severity

_MAX_STATEMENTS: Final = 60  # per page
MAX_SCANNED: Final = 5_000  # rows that are read for a page, including rows that do not match the filters: some 30 ms
_ALL_KINDS: Final = 2 * len(ProofVerdict) * len(ProofTier)
_LISTED: Final = tuple(column for column in proof_bundles.c if column.name not in ("body", "findings"))

Verified = Annotated[
    bool | None, Meta(description="`true`: only verified bundles; `false`: only bundles that are not signed.")
]
_LINK: Final = Meta(min_length=1, max_length=64)


class BundleQuery(Query, frozen=True):
    """Filters of a list of bundles."""

    issue: Annotated[
        str | None,
        line(120),
        Meta(description="Only bundles about this issue, by its id or short id.", examples=["WEB-12"]),
    ] = None
    run_id: Annotated[str | None, line(200), Meta(description="Only bundles of this run.")] = None
    verdict: Annotated[ProofVerdict | None, Meta(description="Only bundles with this verdict.")] = None
    tier: Annotated[ProofTier | None, Meta(description="Only bundles of this tier.")] = None
    commit: Annotated[str | None, line(80), Meta(description="Only bundles about this commit, by its full hash.")] = (
        None
    )
    verified: Verified = None
    approval_request_id: Annotated[
        str | None, _LINK, Meta(description="Only bundles that name this approval request.")
    ] = None
    trace_id: Annotated[str | None, _LINK, Meta(description="Only bundles that name this trace.")] = None

    def check(self, issues: Issues) -> None:
        """Allow only one link, because the link chooses the index."""
        if self.approval_request_id is not None and self.trace_id is not None:
            issues.add("query.traceId", "Must not be given together with approvalRequestId.", "not_allowed")


class BundleFilter(NamedTuple):
    """The filters of a list. `issue_ids`: the issue of the query and the issues merged into it. `link`: the link of the
    query.
    """

    query: BundleQuery
    issue_ids: Sequence[str] | None = None
    link: Link | None = None


async def find_by_digest(
    connection: AsyncConnection, project_id: int, digest: bytes, media_type: str
) -> sa.Row[Any] | None:
    """The stored bundle that consists of these bytes."""
    columns = proof_bundles.c
    statement = sa.select(*_LISTED).where(columns.project_id == project_id, columns.digest == digest)
    return (await connection.execute(statement.where(columns.media_type == media_type).limit(1))).one_or_none()


async def find(
    connection: AsyncConnection, project_id: int, bundle_id: str, *, is_verified: bool | None = None
) -> sa.Row[Any] | None:
    """The bundle with this id. If there are a verified and an unsigned bundle, `is_verified` chooses. By default, the
    verified bundle is returned.
    """
    columns = proof_bundles.c
    statement = sa.select(*_LISTED).where(columns.project_id == project_id, columns.bundle_id == bundle_id)
    if is_verified is not None:
        statement = statement.where(columns.is_verified == sa.literal(is_verified))
    return (await connection.execute(statement.order_by(columns.is_verified.desc()).limit(1))).one_or_none()


async def read_body(connection: AsyncConnection, proof_id: str) -> bytes:
    """The bytes of a bundle, as received."""
    found = await connection.execute(sa.select(proof_bundles.c.body).where(proof_bundles.c.id == proof_id))
    return bytes(found.scalar_one())


async def read_findings(connection: AsyncConnection, proof_id: str) -> list[Finding]:
    """The findings of the time at which the bundle was submitted."""
    found = await connection.execute(sa.select(proof_bundles.c.findings).where(proof_bundles.c.id == proof_id))
    rows = msgspec.json.decode(bytes(found.scalar_one()), type=list[tuple[Severity, str, str, str]])
    return [Finding(*row) for row in rows]


async def list_links(connection: AsyncConnection, proof_id: str) -> list[Link]:
    """The resources that the bundle names, by id."""
    columns = proof_links.c
    statement = sa.select(columns.kind, columns.target).where(columns.proof_id == proof_id)
    ordered = statement.order_by(columns.kind, columns.target)
    return [Link(LinkKind(row.kind), row.target) for row in await connection.execute(ordered)]


class BundlePage(NamedTuple):
    """A part of a list. `next_before`: the next page has the bundles before this id. None: this is the last page."""

    bundles: Sequence[sa.Row[Any]]
    next_before: str | None


async def list_bundles(
    connection: AsyncConnection, project_id: int, wanted: BundleFilter, before_id: str | None, limit: int
) -> BundlePage:
    """At most `limit` bundles, newest first, starting with the first one older than `before_id`.

    The cost of a page does not grow with the number of bundles in the project. There is an index for a run, a
    commit, an issue, a link, and for each combination of signature, verdict and tier. Without these indexes, a database
    would walk through all bundles by id. Further filters are checked row by row. After MAX_SCANNED rows the page ends,
    even without a bundle.
    """
    scans = _scans(project_id, wanted)
    most = max(limit + 1, MAX_SCANNED // len(scans))
    found = [_found_by(scan, before_id, most, limit + 1) for scan in scans]
    ids = list(await connection.scalars(sa.union_all(*found)))
    horizon = ""
    if len(ids) <= limit and scans[0].conditions:
        ends = sa.union_all(*(_selected(_older(scan, before_id).offset(most - 1).limit(1)) for scan in scans))
        horizon = max(await connection.scalars(ends), default="")
    ids = sorted((one for one in ids if one >= horizon), reverse=True)
    bundles = await _list_by_id(connection, ids[:limit])
    if len(ids) > limit:
        return BundlePage(bundles, ids[limit - 1])
    return BundlePage(bundles, horizon or None)


async def _list_by_id(connection: AsyncConnection, ids: Sequence[str]) -> Sequence[sa.Row[Any]]:
    columns = proof_bundles.c
    statement = sa.select(*_LISTED).where(columns.id.in_(ids)).order_by(columns.id.desc())
    return (await connection.execute(statement)).all() if ids else []


class _Scan(NamedTuple):
    """A part of a list. `ids`: the ids of bundles in the order of an index, newest first. `id`: the column of the ids.
    `conditions`: filters of the bundles. Either all parts of a list have conditions, or none has.
    """

    ids: sa.Select[Any]
    id: sa.Column[str]
    conditions: Sequence[sa.ColumnElement[bool]] = ()


def _found_by(scan: _Scan, before_id: str | None, most: int, limit: int) -> sa.Select[Any]:
    """The first ids that match the conditions, among the first `most` ids."""
    older = _older(scan, before_id)
    if not scan.conditions:
        return _selected(older.limit(limit))
    scanned, columns = older.limit(most).subquery(), proof_bundles.c
    statement = sa.select(scanned.c[0]).join(proof_bundles, columns.id == scanned.c[0]).where(*scan.conditions)
    return _selected(statement.order_by(scanned.c[0].desc()).limit(limit))


def _older(scan: _Scan, before_id: str | None) -> sa.Select[Any]:
    return scan.ids if before_id is None else scan.ids.where(scan.id < before_id)


def _selected(page: sa.Select[Any]) -> sa.Select[Any]:
    """The page as a part of a union. SQLite permits no order and limit directly in such a part."""
    return sa.select(page.subquery().c[0])


def _scans(project_id: int, wanted: BundleFilter) -> list[_Scan]:
    """The scans that find all matching bundles together. The most selective filter chooses the index."""
    columns, kinds = proof_bundles.c, _kinds(wanted)
    if wanted.link is not None:
        return [_of_link(project_id, wanted.link, [*_named(wanted), *_any_of(kinds)])]
    named = _named(wanted)
    if len(named) > 1:
        rest = [*named[1:], *_any_of(kinds)]
        return [_of_index(project_id, [named[0]], rest)]
    if wanted.issue_ids is None:
        alternatives = [named]
    else:
        alternatives = [[columns.issue_id == issue_id] for issue_id in wanted.issue_ids]
    if len(kinds) == _ALL_KINDS:
        return [_of_index(project_id, one) for one in alternatives]
    if len(alternatives) * len(kinds) > _MAX_STATEMENTS:
        return [_of_index(project_id, one, _any_of(kinds)) for one in alternatives]
    return [
        _of_index(
            project_id,
            [*one, columns.is_verified == sa.literal(is_verified), columns.verdict == verdict, columns.tier == tier],
        )
        for one in alternatives
        for is_verified, verdict, tier in kinds
    ]


def _named(wanted: BundleFilter) -> list[sa.ColumnElement[bool]]:
    """The conditions on run, commit and issue. The condition that usually matches the fewest bundles is first."""
    columns = proof_bundles.c
    named: list[sa.ColumnElement[bool]] = []
    if wanted.query.run_id is not None:
        named.append(columns.run_id == wanted.query.run_id)
    if wanted.query.commit is not None:
        named.append(columns.commit == wanted.query.commit)
    if wanted.issue_ids is not None:
        named.append(columns.issue_id.in_(wanted.issue_ids))
    return named


def _of_index(
    project_id: int, indexed: Sequence[sa.ColumnElement[bool]], conditions: Sequence[sa.ColumnElement[bool]] = ()
) -> _Scan:
    columns = proof_bundles.c
    ids = sa.select(columns.id).where(columns.project_id == project_id, *indexed)
    return _Scan(ids.order_by(columns.id.desc()), columns.id, conditions)


def _of_link(project_id: int, link: Link, conditions: Sequence[sa.ColumnElement[bool]]) -> _Scan:
    columns = proof_links.c
    ids = sa.select(columns.proof_id).where(columns.project_id == project_id, columns.kind == link.kind.value)
    ids = ids.where(columns.target == link.target)
    return _Scan(ids.order_by(columns.proof_id.desc()), columns.proof_id, conditions)


def _kinds(wanted: BundleFilter) -> list[tuple[bool, str, str]]:
    """Every combination of signature, verdict and tier that the query allows."""
    verified = (True, False) if wanted.query.verified is None else (wanted.query.verified,)
    verdicts = tuple(ProofVerdict) if wanted.query.verdict is None else (wanted.query.verdict,)
    tiers = tuple(ProofTier) if wanted.query.tier is None else (wanted.query.tier,)
    return [(one, verdict.value, tier.value) for one, verdict, tier in product(verified, verdicts, tiers)]


def _any_of(kinds: Sequence[tuple[bool, str, str]]) -> list[sa.ColumnElement[bool]]:
    """The combinations as conditions on a row. No conditions if every combination is allowed."""
    if len(kinds) == _ALL_KINDS:
        return []
    columns = proof_bundles.c
    verified, verdicts, tiers = ({one[at] for one in kinds} for at in range(3))
    return [columns.is_verified.in_(verified), columns.verdict.in_(verdicts), columns.tier.in_(tiers)]


async def create(
    connection: AsyncConnection, bundle: Mapping[str, Any], links: Sequence[Link], max_bytes: int
) -> tuple[sa.Row[Any], bool]:
    """Store a bundle, given by its columns. Returns the stored bundle, and whether it is new. It is not new if the same
    bytes are already stored.

    Raises Conflict for an id that other bytes have, and at `max_bytes` of the organization. An unsigned bundle does
    not take the id of a verified one. A verified bundle takes the id of an unsigned one, which stays stored, too.
    """
    known = await find(connection, bundle["project_id"], bundle["bundle_id"])
    if known is not None and (known.is_verified or not bundle["is_verified"]):
        same = await find_by_digest(connection, bundle["project_id"], bundle["digest"], bundle["media_type"])
        if same is not None:
            return same, False
        kind = "A verified bundle" if known.is_verified else "A bundle"
        raise Conflict(f"{kind} with this bundleId, but other bytes, is already stored.")
    await _count(connection, bundle, max_bytes)
    await connection.execute(proof_bundles.insert().values(bundle))
    if links:
        owner = {"proof_id": bundle["id"], "org_id": bundle["org_id"], "project_id": bundle["project_id"]}
        rows = [{**owner, "kind": link.kind.value, "target": link.target} for link in links]
        await connection.execute(proof_links.insert(), rows)
    (stored,) = await _list_by_id(connection, [bundle["id"]])
    return stored, True


async def _count(connection: AsyncConnection, bundle: Mapping[str, Any], max_bytes: int) -> None:
    """Count the bytes of the bundle. Raises Conflict if the organization would have more than `max_bytes`, or more than
    half of `max_bytes` in unsigned bundles. Otherwise, unsigned bundles could take the room of signed bundles. 0: no
    limit.
    """
    columns, size = proof_usage.c, bundle["size"]
    unsigned = 0 if bundle["is_verified"] else size
    sums = sa.select(sa.func.sum(columns.bytes), sa.func.sum(columns.unsigned_bytes))
    used = (await connection.execute(sums.where(columns.org_id == bundle["org_id"]))).one()
    if max_bytes and int(used[0] or 0) + size > max_bytes:
        raise Conflict(
            f"With this bundle, the proof bundles of the organization would exceed their limit of {max_bytes} bytes."
        )
    if max_bytes and unsigned and int(used[1] or 0) + unsigned > max_bytes // 2:
        raise Conflict(
            f"With this bundle, the unsigned bundles of the organization would exceed their limit of {max_bytes // 2} "
            "bytes."
        )
    changes = {"bundles": columns.bundles + 1, "bytes": columns.bytes + size}
    changes |= {"unsigned_bytes": columns.unsigned_bytes + unsigned}
    of_project = columns.project_id == bundle["project_id"]
    if (await connection.execute(proof_usage.update().where(of_project).values(changes))).rowcount == 0:
        new = {"project_id": bundle["project_id"], "org_id": bundle["org_id"], "bundles": 1}
        await connection.execute(proof_usage.insert().values({**new, "bytes": size, "unsigned_bytes": unsigned}))
