"""One principal among others: its rate limit on every endpoint, and its share of the answers in memory."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.serve import bind, listening
from chassis.settings import ChassisSettings
from chassis.telemetry import Telemetry
from query.answers import Answers
from query.settings import QuerySettings
from tests.query.conftest import FOREIGN_PATH, NOW, PATH, application, served

TRACE = "0" * 31 + "1"
LISTED = ["/spans", "/logs", "/attributes", f"/traces/{TRACE}/logs", f"/traces/{TRACE}/waterfall"]
LISTED += [f"/traces/{TRACE}/spans/{'0' * 15}1"]
LISTED += ["/errors", "/errors/1", "/errors/1/occurrences", "/errors/1/occurrences/1"]
ANALYSED = ["/spans/aggregate", "/spans/compare"]
NAMES = ("x-ratelimit-limit", "x-ratelimit-remaining")


NOWHERE = "http://127.0.0.1:9/none"  # a server that is not there; nothing reaches it

Rows = list[tuple[Any, ...]]


class Held(ClickHouse):
    """A store whose reads end, without a row, when they are let."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.reads = asyncio.Semaphore(0)  # released once by each read that begins
        self.may_end = asyncio.Event()

    async def query(self, _sql: str, _parameters: Mapping[str, object], *, limits: QueryLimits) -> Rows:
        assert limits.max_seconds
        self.reads.release()
        await self.may_end.wait()
        return []


@pytest.mark.parametrize("path", LISTED + ANALYSED)
async def test_every_endpoint_tells_how_the_limit_of_its_principal_stands(path: str, explore_store: ClickHouse) -> None:
    """Answers and refusals alike; those that read a whole window are counted apart."""
    chassis = ChassisSettings(api_rate=1, api_burst=3, analysis_rate=1, analysis_burst=2)
    burst = 2 if path in ANALYSED else 3
    async with served(explore_store, QuerySettings(), [NOW], chassis) as client:

        async def ask(token: str = "mine", base: str = PATH) -> tuple[int, list[str | None]]:
            if path in ANALYSED:
                answer = await client.post(path, {}, token=token, base=base)
            else:
                answer = await client.get(path, token=token, base=base)
            return answer.status, [answer.headers.get(name) for name in NAMES]

        status, told = await ask()
        assert status in (200, 400, 404)
        assert told == [str(burst), str(burst - 1)]
        assert await ask(base=FOREIGN_PATH) == (404, [str(burst), str(burst - 2)])
        assert (await ask("nobody")) == (401, [None, None])
        for left in range(burst - 3, -1, -1):
            assert (await ask())[1] == [str(burst), str(left)]
        assert await ask() == (429, [str(burst), "0"])
        assert (await ask("blind")) == (403, [str(burst), str(burst - 1)])


async def test_one_principal_cannot_take_all_answers() -> None:
    """Two of three places are its own; another's request passes what it has waiting."""
    settings = QuerySettings(max_answers=3, max_answers_per_principal=2, max_waiting=4)
    store = Held(NOWHERE)
    async with served(store, settings, [NOW]) as client, asyncio.timeout(30):
        mine = [asyncio.ensure_future(client.get("/spans")) for _ in range(5)]
        refused, waiting = await asyncio.wait(mine, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result().status for task in refused] == [503]
        assert [task.result().json["error"]["message"] for task in refused] == [
            "Too many requests of this principal are waiting."
        ]
        for _ in range(2):
            await store.reads.acquire()
        assert store.reads.locked(), "the others of this principal wait"
        other = asyncio.ensure_future(client.get("/spans", token="foreign", base=FOREIGN_PATH))
        await store.reads.acquire()
        store.may_end.set()
        assert {task.result().status for task in (await asyncio.wait([other, *waiting]))[0]} == {200}


async def test_a_client_that_goes_away_while_it_waits_leaves_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    began, left = asyncio.Semaphore(0), asyncio.Semaphore(0)

    class Watched(Answers):
        async def _wait(self, principal: str) -> None:
            began.release()
            await super()._wait(principal)

        def _leave(self, waiter: Any) -> None:
            super()._leave(waiter)
            left.release()

    monkeypatch.setattr("query.app.Answers", Watched)
    settings, chassis, store = QuerySettings(max_answers=1, max_waiting=1), ChassisSettings(), Held(NOWHERE)
    app, listener = application(store, settings, [NOW]), bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}/spans"
    headers = {"Authorization": "Bearer mine"}
    async with (
        listening(app, listener, chassis, Telemetry("query")),
        aiohttp.ClientSession(headers=headers) as client,
        asyncio.timeout(30),
    ):
        first = asyncio.ensure_future(client.get(url))
        await store.reads.acquire()
        leaving = asyncio.ensure_future(client.get(url))
        await began.acquire()
        leaving.cancel()
        await left.acquire()
        second = asyncio.ensure_future(client.get(url))
        await began.acquire()
        store.may_end.set()
        assert (await first).status == (await second).status == 200
