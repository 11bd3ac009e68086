"""One principal among others: its rate limit on every endpoint, and its user's share of the answers in memory."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.http.serve import bind, listening
from chassis.limits.fairness import FairSemaphore, Requester
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from query.settings import QuerySettings
from tests.query.conftest import (
    FOREIGN_PATH,
    HOUR,
    NOW,
    PATH,
    PROJECT,
    SECOND,
    Loader,
    application,
    issues,
    record,
    served,
    span,
)
from tests.query.test_query_parameters import operations

ANALYSED = (
    "/spans/aggregate",
    "/spans/figures",
    "/spans/heatmap",
    "/spans/compare",
    "/logs/aggregate",
    "/services/map",
)
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


async def test_every_endpoint_tells_how_the_limit_of_its_principal_stands(explore_store: ClickHouse) -> None:
    """Answers and refusals alike; those that read a whole window are counted apart. Each route has its principals."""
    chassis = ChassisSettings(api_rate=1, api_burst=3, analysis_rate=1, analysis_burst=2)
    async with served(explore_store, QuerySettings(), [NOW], chassis) as client:
        for number, asked in enumerate(await operations(client)):
            path, burst = asked.path.removeprefix(PATH), 2 if asked.route in ANALYSED else 3
            found = []
            for who, base in (("mine", PATH), ("mine", FOREIGN_PATH), ("nobody", PATH), *[("mine", PATH)] * burst):
                token = f"{who}-{number}"
                one = client.post(path, {"nonsense": 1}, token=token, base=base) if asked.fields else None
                answer = await (one or client.get(path, token=token, base=base, nonsense=1))
                found.append((answer.status, *(answer.headers.get(name) for name in NAMES)))
            assert found[0] == (400, str(burst), str(burst - 1)), asked.route
            assert found[1:3] == [(404, str(burst), str(burst - 2)), (401, None, None)], asked.route
            left = [str(left) for left in range(burst - 3, -1, -1)]
            assert [each[1:] for each in found[3:-2]] == [(str(burst), each) for each in left], asked.route
            assert found[-1] == (429, str(burst), "0"), asked.route


async def test_one_user_cannot_take_all_answers_nor_the_whole_queue() -> None:
    """Two of four places are his, and two of the four that wait, whichever of his agents asks; another's request passes
    them.
    """
    settings, store = QuerySettings(handles=4, max_answers=4, max_waiting=4), Held(NOWHERE)
    async with served(store, settings, [NOW]) as client, asyncio.timeout(30):
        mine = [asyncio.ensure_future(client.get("/spans", token=f"agent-{n}", hours=n)) for n in range(1, 6)]
        refused, waiting = await asyncio.wait(mine, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result().status for task in refused] == [503]
        assert [task.result().json["error"]["message"] for task in refused] == [
            "The queue is full: 2 requests of this user are waiting. Retry later."
        ]
        for _ in range(2):
            await store.reads.acquire()
        assert store.reads.locked(), "the others of this user wait"
        other = asyncio.ensure_future(client.get("/spans", token="foreign", base=FOREIGN_PATH))
        await store.reads.acquire()
        store.may_end.set()
        assert {task.result().status for task in (await asyncio.wait([other, *waiting]))[0]} == {200}


async def test_a_client_that_goes_away_while_it_waits_leaves_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    began, left = asyncio.Semaphore(0), asyncio.Semaphore(0)

    class Watched(FairSemaphore):
        async def acquire(self, requester: Requester, amount: int = 1) -> int:
            began.release()
            try:
                return await super().acquire(requester, amount)
            except asyncio.CancelledError:
                left.release()
                raise

    monkeypatch.setattr("query.scheduler.FairSemaphore", Watched)
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
        await began.acquire()
        await store.reads.acquire()
        leaving = asyncio.ensure_future(client.get(f"{url}?hours=2"))
        await began.acquire()
        leaving.cancel()
        await left.acquire()
        second = asyncio.ensure_future(client.get(f"{url}?hours=3"))
        await began.acquire()
        store.may_end.set()
        assert (await first).status == (await second).status == 200


async def test_a_read_of_more_rows_than_permitted_is_too_expensive(
    loader: Loader, clickhouse: ClickHouse, clickhouse_url: str, database: str
) -> None:
    """A hundred rows of each kind in both windows."""
    for at in (NOW - HOUR // 2, NOW - HOUR // 2 * 3):
        await loader.spans(*(span(n, start=at, attributes={"k": n % 3}) for n in range(1, 101)))
        await loader.logs(*(record(at=at, body=f"no {n}") for n in range(100)))
    await clickhouse.command(
        "INSERT INTO error_occurrences (project_id, source, time, fingerprint)"
        f" SELECT {PROJECT}, 'log', fromUnixTimestamp64Nano(toInt64({NOW - SECOND}) - toInt64(number), 'UTC'),"
        " toFixedString(toString(number % 50), 16) FROM numbers(100)"
    )
    spike, baseline = ({"from": NOW - n * HOUR, "to": NOW - (n - 1) * HOUR} for n in (1, 2))
    bodies: dict[str, dict[str, object] | None] = {
        **dict.fromkeys(("/spans", "/logs", "/attributes", "/logs/attributes", "/errors", "/services/map")),
        "/spans/aggregate": {"fn": "count", "groupBy": "k"},
        "/spans/figures": {"figures": [{"fn": "count"}], "groupBy": ["k"]},
        "/spans/heatmap": {},
        "/spans/compare": {"spike": spike, "baseline": baseline},
        "/logs/aggregate": {"groupBy": "body"},
    }
    for most, expected in ((100_000, 200), (20, 400), (0, 200)):
        for path, body in bodies.items():
            store = ClickHouse(clickhouse_url, database=database)
            async with served(store, QuerySettings(max_read_rows=most), [NOW]) as client:
                answer = await (client.get(path) if body is None else client.post(path, body))
            assert answer.status == expected, (path, answer.text)
            assert expected == 200 or issues(answer) == [("query", "too_expensive")], path
