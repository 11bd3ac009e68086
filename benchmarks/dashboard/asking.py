"""The requests of a dashboard, one for each panel, sent over sockets: many at once, and one after the other."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import aiohttp

from benchmarks.explore.data import END_NS, HOUR_NS
from benchmarks.explore.served import Request

_TIMEOUT_S: Final = 120.0
_AGGREGATES: Final[tuple[dict[str, object], ...]] = (
    {"fn": "count", "groupBy": "serviceName"},
    {"fn": "p95", "field": "durationMs", "groupBy": "http.route"},
    {"fn": "count", "groupBy": "http.route", "filters": [{"key": "statusCode", "op": "eq", "value": "ERROR"}]},
    {"fn": "p99", "field": "durationMs", "groupBy": "name"},
)
SINGLE: Final = _AGGREGATES[1]


class Answered(NamedTuple):
    """One answer: its status (0: the connection broke), and the seconds until its last byte."""

    status: int
    seconds: float


class Caller:
    """One token, with as many connections as it wants; `url` is the address of the project's explore API."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
        )

    async def ask(self, request: Request) -> Answered:
        """One request and its whole answer."""
        begin, method = time.perf_counter(), "GET" if request.body is None else "POST"
        try:
            async with self._session.request(method, self._url + request.path, data=request.body) as answer:
                await answer.read()
                return Answered(answer.status, time.perf_counter() - begin)
        except (aiohttp.ClientError, TimeoutError):
            return Answered(0, time.perf_counter() - begin)

    async def at_once(self, requests: Sequence[Request]) -> list[Answered]:
        """All of them together."""
        return await asyncio.gather(*map(self.ask, requests))

    async def one_by_one(self, request: Callable[[int], Request], numbers: range) -> list[Answered]:
        """Each as soon as the one before it is answered."""
        return [await self.ask(request(number)) for number in numbers]

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


def panel(number: int) -> Request:
    """One of the panels; its window is 24 hours, and its own."""
    window: dict[str, object] = {"from": str(END_NS - 24 * HOUR_NS + number), "to": str(END_NS + number)}
    kind = number % (len(_AGGREGATES) + 1)
    if kind == len(_AGGREGATES):
        return Request(f"/errors?from={window['from']}&to={window['to']}")
    return aggregate(window | _AGGREGATES[kind])


def single(number: int) -> Request:
    """The requests of another caller meanwhile: one panel, 24 hours, each time another window."""
    return aggregate({"from": str(END_NS - 24 * HOUR_NS - number), "to": str(END_NS - number), **SINGLE})


def aggregate(body: dict[str, object]) -> Request:
    """An aggregate of spans."""
    return Request("/spans/aggregate", json.dumps(body).encode())
