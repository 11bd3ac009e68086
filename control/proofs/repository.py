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


async def find_by_digest(connection: AsyncConnection, project_id: int, digest: bytes) -> StoredBundle | None:
    """The bundle that was received as these bytes."""
    columns = proof_bundles.c
    found = sa.select(*_LISTED).where(columns.project_id == project_id, columns.digest == digest).limit(1)
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

    However rare what is wanted is, a page reads about as many index entries as it has rows: each alternative has an
    index that ends with the id, and is read for itself. A database would walk through all bundles by id instead.
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
    """The conditions of each statement; together they find what is wanted. Where an issue, a run, a commit or a link
    narrows the search, the rest is looked up in the rows.
    """
    columns = proof_bundles.c
    narrow = [
        column == value
        for column, value in ((columns.run_id, wanted.run_id), (columns.commit, wanted.commit))
        if value is not None
    ]
    kinds = _kinds(wanted)
    if wanted.issue_ids is not None:
        return [[columns.issue_id == issue_id, *narrow, *_any_of(kinds)] for issue_id in wanted.issue_ids]
    if narrow or wanted.link is not None or len(kinds) == _ALL_KINDS:
        return [[*narrow, *_any_of(kinds)]]
    return [
        [columns.is_verified == sa.literal(is_verified), columns.verdict == verdict, columns.tier == tier]
        for is_verified, verdict, tier in kinds
    ]


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
        if known.origin.digest == bundle.origin.digest:
            return known
        kind = "A verified bundle" if known.is_verified else "A bundle"
        raise Conflict(f"{kind} with this bundleId and other content is stored.")
    await _count(connection, bundle.origin, max_bytes)
    await connection.execute(proof_bundles.insert().values(_row(bundle, body, findings)))
    if links:
        owner = {"proof_id": bundle.id, "org_id": bundle.origin.org_id, "project_id": bundle.origin.project_id}
        rows = [{**owner, "kind": link.kind.value, "target": link.target} for link in links]
        await connection.execute(proof_links.insert(), rows)
    return None


async def _count(connection: AsyncConnection, origin: Origin, max_bytes: int) -> None:
    """Raises Conflict when the organization would have more than `max_bytes`; 0: no limit."""
    columns = proof_usage.c
    of_org = sa.select(sa.func.sum(columns.bytes)).where(columns.org_id == origin.org_id)
    if max_bytes and int(await connection.scalar(of_org) or 0) + origin.size > max_bytes:
        raise Conflict(f"The proof bundles of the organization have {max_bytes} bytes, the maximum.")
    counted = await connection.execute(
        proof_usage.update()
        .where(columns.project_id == origin.project_id)
        .values(bundles=columns.bundles + 1, bytes=columns.bytes + origin.size)
    )
    if counted.rowcount == 0:
        new = {"project_id": origin.project_id, "org_id": origin.org_id, "bundles": 1, "bytes": origin.size}
        await connection.execute(proof_usage.insert().values(new))


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
