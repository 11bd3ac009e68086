"""A project with as many bundles as are wanted, written into the database.

Of its bundles a fifth each are of one run, about one commit, about one issue, and speak of one approval request and one
trace; these have all PASSED in tier A, and are verified. The last fifth is of all verdicts, and half of it unsigned.
Three of the oldest are VOID. Besides, ten each are of a run, about a commit and speak of a trace.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from benchmarks.proofs.making import ISSUER
from benchmarks.stores import opened
from chassis.auth.tables import new_id, principals, projects
from chassis.db.database import Database
from chassis.issues import issues
from control.approvals.proofs.tables import proof_bundles, proof_issuer_keys, proof_links
from control.identity.organizations import organization_store
from proto.proofs.dsse import ENVELOPE_TYPE

LARGE: Final = "large"  # the run
LARGE_COMMIT: Final = "c" * 40
LARGE_TRACE: Final = "f" * 32
LARGE_APPROVAL: Final = "apr_" + "0" * 26
MERGED: Final = 50
_BATCH: Final = 5_000
_BODY: Final = bytes(1_000)


class Project(NamedTuple):
    """A project that is filled. `issue`: that of a fifth of its bundles; MERGED others were merged into it. `run`,
    `commit`, `trace`: those of ten bundles. `middle`: the id of the bundle in the middle of the project.
    """

    id: int
    slug: str
    issue: str
    small_issue: str
    run: str
    commit: str
    trace: str
    middle: str


class _Owner(NamedTuple):
    org_id: str
    principal_id: str
    key_id: str


async def fill(url: str, few: int, many: int) -> tuple[Project, Project]:
    """Projects `few` and `web` of acme, which has one key."""
    async with opened(url) as database:
        async with database.write() as connection:
            web = (await connection.execute(sa.select(projects))).mappings().one()
            other = await organization_store.create_project(connection, web["org_id"], "few", "Few")
            principal_id = str(await connection.scalar(sa.select(principals.c.id).limit(1)))
            key_id = str(await connection.scalar(sa.select(proof_issuer_keys.c.id)))
        owner = _Owner(web["org_id"], principal_id, key_id)
        small = await _fill(database, owner, other.id, "few", few)
        large = await _fill(database, owner, web["id"], "web", many)
        if url.startswith("postgresql"):  # as its autovacuum does in time
            async with database.write() as connection:
                await connection.execute(sa.text("ANALYZE"))
    return small, large


async def _fill(database: Database, owner: _Owner, project_id: int, slug: str, count: int) -> Project:
    known = [new_id("iss") for _ in range(2 + MERGED)]
    ids = [new_id("prf") for _ in range(count)]
    async with database.write() as connection:
        await _create_issues(connection, owner, project_id, known)
    for start in range(0, count, _BATCH):
        numbers = range(start, min(start + _BATCH, count))
        rows = [_row(number, count, owner, project_id, known) | {"id": ids[number]} for number in numbers]
        links = [link for number in numbers for link in _links(number, count, ids[number], owner, project_id)]
        async with database.write() as connection:
            await connection.execute(proof_bundles.insert(), rows)
            await connection.execute(proof_links.insert(), links)
    names = f"r-{_small(count)}", f"{_small(count):040x}", f"{_small(count):032x}"
    return Project(project_id, slug, known[0], known[1], *names, ids[count // 2])


def _small(count: int) -> int:
    """The remainder of ten bundles of the last fifth."""
    return count // 10 // 5 * 5 - 1


async def _create_issues(connection: AsyncConnection, owner: _Owner, project_id: int, known: list[str]) -> None:
    now = datetime.now(UTC)
    rows = [
        {
            "id": one,
            "org_id": owner.org_id,
            "project_id": project_id,
            "number": number + 1,
            "fingerprint": number.to_bytes(16, "big"),
            "title": "KeyError: price",
            "search_text": "keyerror: price",
            "status": "unresolved",
            "count": 1,
            "first_seen": now,
            "last_seen": now,
            "merged_into": known[0] if number > 1 else None,
            "created_at": now,
            "updated_at": now,
        }
        for number, one in enumerate(known)
    ]
    await connection.execute(issues.insert(), rows)


def _row(number: int, count: int, owner: _Owner, project_id: int, known: list[str]) -> dict[str, Any]:
    """Only the last fifth has other verdicts and tiers, and bundles that are not signed."""
    group, is_verified = number % 5, number % 10 != 9
    verdict, tier = "PASSED", "A"
    if number < 3:
        verdict = tier = "VOID"
    elif group == 4:
        verdict, tier = "PASSED" if number % 4 else "FAILED", "ABC"[number // 20 % 3]
    return {
        "org_id": owner.org_id,
        "project_id": project_id,
        "bundle_id": f"b-{number}",
        "is_verified": is_verified,
        "issuer_key_id": owner.key_id if is_verified else None,
        "key_id": "k" if is_verified else None,
        "submitted_by": owner.principal_id,
        "received_at": datetime.now(UTC),
        "media_type": ENVELOPE_TYPE if is_verified else "application/json",
        "digest": number.to_bytes(32, "big"),
        "size": len(_BODY),
        "issued_at": "2026-11-20T15:17:03Z",
        "issuer": ISSUER,
        "tier": tier,
        "verdict": verdict,
        "billable": False,
        "claims": 200,
        "issue_id": known[0] if group == 2 else _small_issue(number, known),
        "issue_short_id": "WEB-1",
        "title": "KeyError: price",
        "run_id": LARGE if group == 0 else f"r-{number % (count // 10)}",
        "proposal_id": "shop/web#1",
        "commit": LARGE_COMMIT if group == 1 else f"{number % (count // 10):040x}",
        "errors": 0,
        "warnings": 0,
        "findings": b"[]",
        "body": _BODY,
    }


def _small_issue(number: int, known: list[str]) -> str | None:
    """The small issue and those that were merged have verified bundles of the last fifth."""
    at = number // 20 % 1_000
    return known[at + 1] if number % 20 == 14 and at <= MERGED else None


def _links(number: int, count: int, proof_id: str, owner: _Owner, project_id: int) -> Iterator[dict[str, Any]]:
    named = [("trace", f"{number % (count // 10):032x}")]
    if number % 5 == 3:
        named += [("trace", LARGE_TRACE), ("approval_request", LARGE_APPROVAL)]
    for kind, target in named:
        whose = {"org_id": owner.org_id, "project_id": project_id}
        yield {"proof_id": proof_id, "kind": kind, "target": target, **whose}
