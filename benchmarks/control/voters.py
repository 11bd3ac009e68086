"""60 people approve the same request at once; one transition each, on SQLite and PostgreSQL."""

import asyncio
import statistics
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.control.service import Served, served
from benchmarks.report import Table
from benchmarks.stores import database, wanted_databases

VOTERS: Final = 60
NEEDED: Final = 5
ROUNDS: Final = 10
POLICY: Final = {
    "name": "Deployments",
    "actionPattern": "deploy.**",
    "effect": "ASK",
    "riskClass": "HIGH",
    "minApprovers": NEEDED,
}


def measure(directory: Path, arguments: Namespace) -> None:
    """Print a row for each database."""
    table = Table({f"{VOTERS} voters at once": "", "ms until all are answered": ".0f", "longest": ".0f"})
    for name in wanted_databases(arguments.database):
        with database(name, directory / name) as url, served(directory / f"{name}-control", url, VOTERS) as control:
            seconds = asyncio.run(_measure(control))
        table.row(name, statistics.median(seconds) * 1e3, max(seconds) * 1e3)


async def _measure(control: Served) -> list[float]:
    url = f"http://127.0.0.1:{control.port}/orgs/acme"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=VOTERS)) as session:
        status, said = await _post(session, f"{url}/approval-policies", control.tokens[0], POLICY)
        if status != 201:
            raise SystemExit(said)
        voters = control.tokens[1:]
        for voter in voters:  # known, and each with a connection
            await _post(session, f"{url}/approval-policies/dry-run", voter, {"action": "a.b", "targetType": "x"})
        return [await _round(session, url, control.tokens[0], voters, str(number)) for number in range(ROUNDS)]


async def _round(session: aiohttp.ClientSession, url: str, asker: str, voters: Sequence[str], target: str) -> float:
    """Seconds until all have voted. Raises SystemExit for another number of transitions than one."""
    body = {"action": "deploy.production", "targetType": "service", "targetId": target}
    _, asked = await _post(session, f"{url}/approval-requests", asker, body)
    request_id = asked["request"]["id"]
    began = time.perf_counter()
    path = f"{url}/approval-requests/{request_id}/approve"
    answers = await asyncio.gather(*(_post(session, path, voter, {}) for voter in voters))
    seconds = time.perf_counter() - began
    statuses = Counter(status for status, _ in answers)
    headers = {"Authorization": f"Bearer {asker}"}
    async with session.get(f"{url}/audit", params={"objectId": request_id, "limit": "100"}, headers=headers) as audit:
        actions = Counter(event["action"] for event in (await audit.json())["data"])
    if statuses != {200: NEEDED, 409: VOTERS - NEEDED} or actions["approval_request.approve"] != 1:
        raise SystemExit(f"answers {dict(statuses)}, in the audit {dict(actions)}")
    return seconds


async def _post(session: aiohttp.ClientSession, url: str, token: str, body: object) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    async with session.post(url, json=body, headers=headers) as answer:
        return answer.status, await answer.json()
