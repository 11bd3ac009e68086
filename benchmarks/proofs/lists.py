"""Pages of a project with many bundles, beside those of a project with a few."""

import asyncio
import random
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from benchmarks.control.service import Served, served
from benchmarks.proofs.making import PATH
from chassis.auth.id_generation import new_id
from chassis.auth.tables import principals, projects
from chassis.db.database import Database
from control.identity import organization_repository
from control.proofs.tables import proof_bundles, proof_links
from tests.e2e.product import call

FEW: Final = 200
BATCH: Final = 5_000
ROUNDS: Final = 15
_TRACES: Final = 5_000  # each is named by some bundles
FILTERS: Final = (
    "",
    "runId=r-77",
    "commit=77",
    "verdict=PASSED",
    "verdict=VOID",
    "tier=A",
    "tier=NONE",
    "verdict=FAILED&tier=NONE",
    "verified=false",
    "verified=true",
    f"traceId={77:032x}",
    "verdict=FAILED&runId=r-77",
    "tier=NONE&commit=77",
    f"tier=NONE&traceId={77:032x}",
    "verified=true&verdict=FAILED",
)


def measure(directory: Path, url: str, stored: int) -> None:
    """Prints a row for each filter."""
    with served(directory, url) as control:
        asyncio.run(_fill(url, stored))
        print(
            f"| filter | page of {stored} bundles, ms | beside one of {FEW} | hundredth page, ms |\n|---|---|---|---|"
        )
        for query in FILTERS:
            large, middle = _page(control, "web", query), _middle(control, query, stored)
            few = _page(control, "few", query)
            print(f"| {query or 'none'} | {large:.1f} | {large / few:.1f} | {middle} |", flush=True)


def _get(control: Served, project: str, query: str) -> Any:
    path = PATH.replace("/web/", f"/{project}/")
    headers = {"Authorization": f"Bearer {control.tokens[0]}"}
    found = call("GET", f"http://127.0.0.1:{control.port}{path}?{query}", None, headers)
    if found.status != 200:
        raise SystemExit(str(found))
    return found.json()


def _page(control: Served, project: str, query: str) -> float:
    """The median time of a page, in ms."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        _get(control, project, query)
        times.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(times)


def _middle(control: Served, query: str, stored: int) -> str:
    """The time of the hundredth page of a hundred, if there is one."""
    cursor = ""
    for _ in range(min(100, stored // 200)):
        page = _get(control, "web", f"{query}&limit=100&cursor={cursor}".lstrip("&"))
        if not page["hasMore"]:
            return ""
        cursor = page["nextCursor"]
    return f"{_page(control, 'web', f'{query}&cursor={cursor}'.lstrip('&')):.1f}"


async def _fill(url: str, stored: int) -> None:
    database = Database(url, max_wait_s=60)
    await database.start()
    async with database.write() as connection:
        web = (await connection.execute(sa.select(projects))).mappings().one()
        few = await organization_repository.create_project(connection, web["org_id"], "few", "Few")
        owner = str(await connection.scalar(sa.select(principals.c.id).limit(1)))
    for project_id, count in ((few.id, FEW), (web["id"], stored)):
        for start in range(0, count, BATCH):
            numbers = range(start, min(start + BATCH, count))
            rows = [_row(number, web["org_id"], project_id, owner) for number in numbers]
            async with database.write() as connection:
                await connection.execute(proof_bundles.insert(), [row for row, _ in rows])
                await connection.execute(proof_links.insert(), [link for _, link in rows])
    if url.startswith("postgresql"):
        async with database.write() as connection:
            await connection.execute(sa.text("ANALYZE"))
    await database.close()


def _row(number: int, org_id: str, project_id: int, owner: str) -> tuple[dict[str, Any], dict[str, Any]]:
    chance = random.Random(number)
    row = {
        "id": new_id("prf"),
        "org_id": org_id,
        "project_id": project_id,
        "bundle_id": f"b-{number}",
        "is_verified": False,
        "issuer_key_id": None,
        "key_id": None,
        "submitted_by": owner,
        "received_at": datetime.now(UTC),
        "media_type": "application/json",
        "digest": number.to_bytes(32, "big"),
        "size": 2,
        "issued_at": "2026-11-20T15:17:03Z",
        "issuer": "https://ci.example.com",
        "tier": chance.choice(("A", "B", "C")),
        "verdict": chance.choice(("PASSED", "PASSED", "PASSED", "FAILED")),
        "billable": False,
        "claims": 200,
        "issue_id": None,
        "issue_short_id": "WEB-1",
        "title": "KeyError: price",
        "run_id": f"r-{number % 100_000}",
        "proposal_id": "shop/web#1",
        "commit": str(number % 100_000),
        "errors": 0,
        "warnings": 0,
        "findings": b"[]",
        "body": bytes(2_000),
    }
    target = f"{number % _TRACES:032x}"
    link = {"proof_id": row["id"], "kind": "trace", "target": target, "org_id": org_id, "project_id": project_id}
    return row, link
