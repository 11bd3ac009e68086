"""Heavy explores: twenty at once, each connection asking again as soon as it has its answer."""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

import aiohttp

AT_ONCE: Final = 20
_TIMEOUT_S: Final = 120.0


class Asked(NamedTuple):
    """One explore: which, its status (0: the connection broke) and the seconds until its last byte."""

    name: str
    status: int
    seconds: float


class _Heavy(NamedTuple):
    """`path` below the project's explore; with a body a POST."""

    name: str
    path: str
    body: dict[str, object] | None = None


def _heavy() -> Sequence[_Heavy]:
    """Over the last hour; not one may be answered from the cache of another, as its window moves with the clock."""
    now = time.time_ns()
    hour = {"from": str(now - 3_600 * 10**9), "to": str(now)}
    filters = json.dumps([{"key": "http.route", "op": "contains", "value": "nowhere"}])
    spike = {"from": str(now - 15 * 10**9), "to": str(now)}
    baseline = {"from": hour["from"], "to": spike["from"]}
    p99 = {**hour, "fn": "p99", "field": "durationMs"}
    return (
        _Heavy("p99 by an attribute", "/spans/aggregate", {**p99, "groupBy": "http.route"}),
        _Heavy("p99 by an identifier", "/spans/aggregate", {**p99, "groupBy": "traceId"}),
        _Heavy("compare", "/spans/compare", {"spike": spike, "baseline": baseline}),
        _Heavy("a filter that finds nothing", f"/spans?{urlencode({**hour, 'filters': filters})}"),
        _Heavy("attributes", f"/attributes?{urlencode(hour)}"),
    )


async def ask(url: str, token: str, seconds: float) -> list[Asked]:
    """Ask for so long; `url` is that of the project's explore."""
    end, asked = time.monotonic() + seconds, list[Asked]()
    headers = {"Authorization": f"Bearer {token}"}
    limit = aiohttp.TCPConnector(limit=AT_ONCE)
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    async with aiohttp.ClientSession(headers=headers, connector=limit, timeout=timeout) as session:
        await asyncio.gather(*(_again(session, url, number, end, asked) for number in range(AT_ONCE)))
    return asked


async def _again(session: aiohttp.ClientSession, url: str, number: int, end: float, asked: list[Asked]) -> None:
    while time.monotonic() < end:
        heavy = _heavy()[number % len(_heavy())]
        number += 1
        begin = time.monotonic()
        try:
            status = await _one(session, url + heavy.path, heavy.body)
        except (aiohttp.ClientError, TimeoutError):
            status = 0
        asked.append(Asked(heavy.name, status, time.monotonic() - begin))
        if status in (429, 503):
            await asyncio.sleep(1)  # as its Retry-After says, at least


async def _one(session: aiohttp.ClientSession, url: str, body: dict[str, object] | None) -> int:
    async with session.request("GET" if body is None else "POST", url, json=body) as answer:
        await answer.read()
        return answer.status
