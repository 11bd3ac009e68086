"""Bundles in the database. Every function runs in the caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import Conflict
from control.proofs.model import Link, LinkKind, Origin, StoredBundle
from control.proofs.tables import proof_bundles, proof_links, proof_usage
from proto.proofs.primitives import ProofTier, ProofVerdict
from proto.proofs.semantics import Finding, Severity

_MAX_STATEMENTS: Final = 60  # of a page
_ALL_KINDS: Final = 2 * len(ProofVerdict) * len(ProofTier)
_LISTED: Final = tuple(column for column in proof_bundles.c if column.name not in ("body", "findings"))

_KEPT: Final = (  # attributes of a bundle that are columns
    "id",
    "bundle_id",
    "issuer_key_id",
    "key_id",
    "issued_at",
    "issuer",
    "tier",
    "verdict",
    "billable",
    "claims",
    "issue_id",
    "issue_short_id",
    "title",
    "run_id",
    "proposal_id",
    "commit",
    "errors",
    "warnings",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFilter:
    """Which bundles a list has. `issue_ids`: of one issue and those merged into it."""

    issue_ids: Sequence[str] | None = None
    run_id: str | None = None
    verdict: ProofVerdict | None = None
    tier: ProofTier | None = None
    commit: str | None = None
    is_verified: bool | None = None
    link: Link | None = None


async def find_by_digest(
    connection: AsyncConnection, project_id: int, digest: bytes, media_type: str
) -> StoredBundle | None:
    """The bundle that was received as these bytes."""
    columns = proof_bundles.c
    found = sa.select(*_LISTED).where(columns.project_id == project_id, columns.digest == digest)
    found = found.where(columns.media_type == media_type).limit(1)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _bundle(row)


async def find(
    connection: AsyncConnection, project_id: int, bundle_id: str, *, is_verified: bool | None = None
) -> StoredBundle | None:
    """The bundle with this id: of a verified and an unsigned one the verified, unless `is_verified` chooses."""
    columns = proof_bundles.c
    found = sa.select(*_LISTED).where(columns.project_id == project_id, columns.bundle_id == bundle_id)
    if is_verified is not None:
        found = found.where(columns.is_verified == sa.literal(is_verified))
    rows = (await connection.execute(found)).mappings().all()
    bundles = sorted((_bundle(row) for row in rows), key=lambda one: not one.is_verified)
    return bundles[0] if bundles else None


async def read_body(connection: AsyncConnection, bundle: StoredBundle) -> bytes:
    """The bytes as received."""
    body = await connection.scalar(sa.select(proof_bundles.c.body).where(proof_bundles.c.id == bundle.id))
    if body is None:
        raise LookupError(bundle.id)
    return bytes(body)


async def read_findings(connection: AsyncConnection, bundle: StoredBundle) -> list[Finding]:
    """What was found when the bundle was handed in."""
    raw = await connection.scalar(sa.select(proof_bundles.c.findings).where(proof_bundles.c.id == bundle.id))
    return [] if raw is None else _decode_findings(bytes(raw))


async def list_links(connection: AsyncConnection, bundle: StoredBundle) -> list[Link]:
    """What the bundle speaks of, by id."""
    columns = proof_links.c
    found = sa.select(columns.kind, columns.target).where(columns.proof_id == bundle.id)
    ordered = found.order_by(columns.kind, columns.target)
    return [Link(LinkKind(row.kind), row.target) for row in await connection.execute(ordered)]


async def list_bundles(
    connection: AsyncConnection, project_id: int, wanted: BundleFilter, before_id: str | None, limit: int
) -> list[StoredBundle]:
    """At most `limit` bundles, newest first, starting with the first one older than `before_id`.

    However rare a signature, verdict or tier is, a page reads about as many index entries as it has rows: each of
    their combinations is read for itself. A database would walk through all bundles by id instead. An issue, a run, a
    commit and a link together are looked up in the rows that one of them has.
    """
    page = _linked_page(wanted.link, before_id) if wanted.link is not None else _plain_page(before_id)
    alternatives = [
        page.where(proof_bundles.c.project_id == project_id, *conditions).limit(limit)
        for conditions in _alternatives(wanted)
    ]
    rows: list[Any] = []
    for alternative in alternatives:
        rows += (await connection.execute(alternative)).mappings()
    return sorted(map(_bundle, rows), key=lambda one: one.id, reverse=True)[:limit]


def _plain_page(before_id: str | None) -> sa.Select[Any]:
    columns = proof_bundles.c
    page = sa.select(*_LISTED).order_by(columns.id.desc())
    return page if before_id is None else page.where(columns.id < before_id)


def _linked_page(link: Link, before_id: str | None) -> sa.Select[Any]:
    """Ordered by the index of links, which name few of all bundles."""
    columns = proof_links.c
    page = (
        sa.select(*_LISTED)
        .join(proof_links, columns.proof_id == proof_bundles.c.id)
        .where(columns.project_id == proof_bundles.c.project_id)
        .where(columns.kind == link.kind.value, columns.target == link.target)
        .order_by(columns.proof_id.desc())
    )
    return page if before_id is None else page.where(columns.proof_id < before_id)


def _alternatives(wanted: BundleFilter) -> list[list[sa.ColumnElement[bool]]]:
    """The conditions of each statement; together they find what is wanted. Each has an index that ends with the id."""
    columns, kinds = proof_bundles.c, _kinds(wanted)
    if wanted.link is not None:
        of_run_and_commit = _all_of((columns.run_id, wanted.run_id), (columns.commit, wanted.commit))
        of_issue = [] if wanted.issue_ids is None else [columns.issue_id.in_(wanted.issue_ids)]
        return [[*of_run_and_commit, *of_issue, *_any_of(kinds)]]
    first: list[list[sa.ColumnElement[bool]]] = [[]]
    if wanted.run_id is not None:
        first = [_all_of((columns.run_id, wanted.run_id), (columns.commit, wanted.commit))]
    elif wanted.commit is not None:
        first = [[columns.commit == wanted.commit]]
    if wanted.issue_ids is not None:
        first = [[columns.issue_id == issue_id, *first[0]] for issue_id in wanted.issue_ids]
    if len(kinds) == _ALL_KINDS:
        return first
    if len(first) * len(kinds) > _MAX_STATEMENTS:
        return [[*one, *_any_of(kinds)] for one in first]
    return [
        [*one, columns.is_verified == sa.literal(is_verified), columns.verdict == verdict, columns.tier == tier]
        for one in first
        for is_verified, verdict, tier in kinds
    ]


def _all_of(*wanted: tuple[sa.Column[Any], Any]) -> list[sa.ColumnElement[bool]]:
    return [column == value for column, value in wanted if value is not None]


def _kinds(wanted: BundleFilter) -> list[tuple[bool, str, str]]:
    """Every combination of signature, verdict and tier that is wanted."""
    verified = (True, False) if wanted.is_verified is None else (wanted.is_verified,)
    verdicts = tuple(ProofVerdict) if wanted.verdict is None else (wanted.verdict,)
    tiers = tuple(ProofTier) if wanted.tier is None else (wanted.tier,)
    return [(one, verdict.value, tier.value) for one, verdict, tier in product(verified, verdicts, tiers)]


def _any_of(kinds: Sequence[tuple[bool, str, str]]) -> list[sa.ColumnElement[bool]]:
    """The same as conditions on a row; none if every combination is wanted."""
    if len(kinds) == _ALL_KINDS:
        return []
    columns = proof_bundles.c
    verified, verdicts, tiers = ({one[at] for one in kinds} for at in range(3))
    return [columns.is_verified.in_(verified), columns.verdict.in_(verdicts), columns.tier.in_(tiers)]


async def create(
    connection: AsyncConnection,
    bundle: StoredBundle,
    body: bytes,
    findings: Sequence[Finding],
    links: Sequence[Link],
    max_bytes: int,
) -> StoredBundle | None:
    """Store a bundle. The one that is there already, if it is of the same bytes; None: this one was stored.

    Raises Conflict for an id that other bytes have, and at `max_bytes` of the organization. An unsigned bundle does
    not take the id of a verified one; a verified bundle takes that of an unsigned one, which stays beside it.
    """
    known = await find(connection, bundle.origin.project_id, bundle.bundle_id)
    if known is not None and (known.is_verified or not bundle.is_verified):
        origin = bundle.origin
        same = await find_by_digest(connection, origin.project_id, origin.digest, origin.media_type)
        if same is not None:
            return same
        kind = "A verified bundle" if known.is_verified else "A bundle"
        raise Conflict(f"{kind} with this bundleId and other bytes is stored.")
    await _count(connection, bundle, max_bytes)
    await connection.execute(proof_bundles.insert().values(_row(bundle, body, findings)))
    if links:
        owner = {"proof_id": bundle.id, "org_id": bundle.origin.org_id, "project_id": bundle.origin.project_id}
        rows = [{**owner, "kind": link.kind.value, "target": link.target} for link in links]
        await connection.execute(proof_links.insert(), rows)
    return None


async def _count(connection: AsyncConnection, bundle: StoredBundle, max_bytes: int) -> None:
    """Raises Conflict when the organization would have more than `max_bytes`, or more than half of it in bundles that
    are not signed: whoever may hand in could keep out those that are. 0: no limit.
    """
    columns, size = proof_usage.c, bundle.origin.size
    unsigned = 0 if bundle.is_verified else size
    sums = sa.select(sa.func.sum(columns.bytes), sa.func.sum(columns.unsigned_bytes))
    used = (await connection.execute(sums.where(columns.org_id == bundle.origin.org_id))).one()
    if max_bytes and int(used[0] or 0) + size > max_bytes:
        raise Conflict(
            f"The bundle would exceed the {max_bytes} bytes that the organization may have in proof bundles."
        )
    if max_bytes and unsigned and int(used[1] or 0) + unsigned > max_bytes // 2:
        raise Conflict(f"The bundle would exceed the {max_bytes // 2} bytes that unsigned bundles may have.")
    changes = {"bundles": columns.bundles + 1, "bytes": columns.bytes + size}
    changes |= {"unsigned_bytes": columns.unsigned_bytes + unsigned}
    of_project = columns.project_id == bundle.origin.project_id
    if (await connection.execute(proof_usage.update().where(of_project).values(changes))).rowcount == 0:
        new = {"project_id": bundle.origin.project_id, "org_id": bundle.origin.org_id, "bundles": 1}
        await connection.execute(proof_usage.insert().values({**new, "bytes": size, "unsigned_bytes": unsigned}))


def _bundle(row: Any) -> StoredBundle:
    origin = Origin(
        row["org_id"],
        row["project_id"],
        row["submitted_by"],
        row["received_at"],
        row["media_type"],
        bytes(row["digest"]),
        row["size"],
    )
    kept = {name: row[name] for name in _KEPT}
    return StoredBundle(origin=origin, **kept)


def _row(bundle: StoredBundle, body: bytes, findings: Sequence[Finding]) -> dict[str, Any]:
    origin = bundle.origin
    return {
        **{name: getattr(bundle, name) for name in _KEPT},
        "is_verified": bundle.is_verified,
        "org_id": origin.org_id,
        "project_id": origin.project_id,
        "submitted_by": origin.submitted_by,
        "received_at": origin.received_at,
        "media_type": origin.media_type,
        "digest": origin.digest,
        "size": origin.size,
        "findings": msgspec.json.encode(findings),
        "body": body,
    }


def _decode_findings(raw: bytes) -> list[Finding]:
    rows = msgspec.json.decode(raw, type=list[tuple[Severity, str, str, str]])
    return [Finding(*row) for row in rows]
