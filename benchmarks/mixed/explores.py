"""Heavy explores: twenty at once, each connection asking again as soon as it has its answer."""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from benchmarks.dashboard.asking import Caller
from benchmarks.explore.served import Request

AT_ONCE: Final = 20


class Asked(NamedTuple):
    """One explore: which, its status (0: the connection broke) and the seconds until its last byte."""

    name: str
    status: int
    seconds: float


def _heavy() -> Sequence[tuple[str, Request]]:
    """Over the last hour; not one may be answered from the cache of another, as its window moves with the clock."""
    now = time.time_ns()
    hour = {"from": str(now - 3_600 * 10**9), "to": str(now)}
    filters = json.dumps([{"key": "http.route", "op": "contains", "value": "nowhere"}])
    spike = {"from": str(now - 15 * 10**9), "to": str(now)}
    baseline = {"from": hour["from"], "to": spike["from"]}
    p99 = {**hour, "fn": "p99", "field": "durationMs"}
    bodies: dict[str, tuple[str, object]] = {
        "p99 by an attribute": ("/spans/aggregate", {**p99, "groupBy": "http.route"}),
        "p99 by an identifier": ("/spans/aggregate", {**p99, "groupBy": "traceId"}),
        "compare": ("/spans/compare", {"spike": spike, "baseline": baseline}),
    }
    return (
        *((name, Request(path, json.dumps(body).encode())) for name, (path, body) in bodies.items()),
        ("a filter that finds nothing", Request(f"/spans?{urlencode({**hour, 'filters': filters})}")),
        ("attributes", Request(f"/attributes?{urlencode(hour)}")),
    )


async def ask(url: str, token: str, seconds: float) -> list[Asked]:
    """Ask for so long; `url` is the address of the project's explore API."""
    end, asked, caller = time.monotonic() + seconds, list[Asked](), Caller(url, token)
    await asyncio.gather(*(_again(caller, number, end, asked) for number in range(AT_ONCE)))
    await caller.close()
    return asked


async def _again(caller: Caller, number: int, end: float, asked: list[Asked]) -> None:
    while time.monotonic() < end:
        name, request = _heavy()[number % len(_heavy())]
        number += 1
        answered = await caller.ask(request)
        asked.append(Asked(name, *answered))
        if answered.status in (429, 503):
            await asyncio.sleep(1)  # as its Retry-After says, at least
