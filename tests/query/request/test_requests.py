"""Who may ask, what is refused before the store is asked, and what the store's failures look like."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from chassis.clickhouse import (
    ClickHouse,
    QueryLimits,
    QueryTimeout,
    QueryTooLarge,
    StoreBusy,
    StoreMisconfigured,
    StoreRejected,
    StoreUnavailable,
)
from chassis.http.serve import bind, listening
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from query.read_store import MAX_RESULT_BYTES
from query.rows import AttributeColumns, SpanColumns
from query.settings import QuerySettings
from tests.query.conftest import (
    NOW,
    ONE_ENGINE,
    PATH,
    SECOND,
    Explore,
    Loader,
    application,
    served,
    span,
)
from tests.query.request.test_bounds import NEEDED
from tests.query.test_query_parameters import operations

Rows = list[tuple[Any, ...]]
Reply = Callable[[str, QueryLimits], Awaitable[Rows]]


class Scripted(ClickHouse):
    """A store whose reads are answered by `reply`."""

    def __init__(self, url: str, reply: Reply) -> None:
        super().__init__(url)
        self._reply = reply

    async def query(self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits) -> Rows:
        assert all(f"{{{name}:" in sql for name in parameters)
        return await self._reply(sql, limits)


class Narrow(ClickHouse):
    """A store that lets at most three whole rows be read together."""

    async def query(self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits) -> Rows:
        rows = await super().query(sql, parameters, limits=limits)
        if len(rows) > 3 and "attribute_types" in sql:
            raise QueryTooLarge("more than three", 396)
        return rows


@pytest.fixture
def explore_url() -> str:
    """A server that is not there; nothing in these tests reaches it."""
    return "http://127.0.0.1:9/none"


FAILURES: dict[Exception, tuple[int, str]] = {
    StoreUnavailable("secret host is away"): (503, "service_unavailable"),
    StoreBusy("64 secret calls already wait"): (503, "service_unavailable"),
    StoreMisconfigured("secret password"): (503, "service_unavailable"),
    QueryTimeout("secret", 159): (503, "service_unavailable"),
    QueryTooLarge("secret", 241): (400, "bad_request"),
    StoreRejected("secret syntax", 62): (500, "internal_error"),
    RuntimeError("secret bug"): (500, "internal_error"),
}


async def test_what_a_failing_store_looks_like(explore_url: str) -> None:
    """On every route; change events are in the other database."""
    failures = list[Exception]()

    async def reply(_sql: str, limits: QueryLimits) -> Rows:
        assert limits.max_seconds
        raise failures[-1]

    async with served(Scripted(explore_url, reply), QuerySettings(), [NOW]) as client:
        for asked in await operations(client):
            path, needed = asked.path.removeprefix(PATH), NEEDED.get(asked.route, {})
            for failure, told in FAILURES.items() if asked.route != "/changes" else ():
                failures.append(failure)
                answer = await (client.post(path, needed) if asked.fields else client.get(path, **needed))
                assert (answer.status, answer.json["error"]["code"]) == told, (asked.route, failure)
                assert "secret" not in answer.text
                after = answer.headers.get("Retry-After")
                assert (after is None) is (told[0] != 503), asked.route
                assert int(after or 1) in range(1, 6)


async def test_a_store_that_is_away_is_a_503_and_not_ready(explore_url: str) -> None:
    async with served(ClickHouse(explore_url), QuerySettings(), [NOW]) as client:
        answer = await client.get("/spans")
        ready = await client.get("/readyz", base="")
    assert answer.status == 503
    assert (ready.status, ready.json["dependencies"][0]["name"]) == (503, "clickhouse")


async def test_a_request_has_one_deadline(explore_url: str) -> None:
    async def reply(_sql: str, limits: QueryLimits) -> Rows:
        assert limits.max_seconds == 0.05
        await asyncio.Event().wait()
        return []

    async with served(Scripted(explore_url, reply), QuerySettings(timeout_s=0.05), [NOW]) as client:
        answer = await client.get("/spans")
    assert answer.status == 503
    assert "0.05 seconds" in answer.json["error"]["message"]


async def test_a_page_too_large_to_read_at_once_is_cut_and_continues(
    loader: Loader, clickhouse_url: str, database: str
) -> None:
    await loader.spans(*(span(n, start=NOW - n * SECOND) for n in range(1, 12)))
    async with served(Narrow(clickhouse_url, database=database), QuerySettings(), [NOW]) as client:
        pages = await client.pages(limit=10)
    assert [row["startTime"] for page in pages for row in page] == sorted(
        (row["startTime"] for page in pages for row in page), reverse=True
    )
    assert sorted(row["spanId"] for page in pages for row in page) == [f"{n:016x}" for n in range(1, 12)]


async def test_attributes_too_large_to_read_at_once_are_read_in_parts(
    loader: Loader, clickhouse_url: str, database: str
) -> None:
    await loader.spans(*(span(n, attributes={"n": n}) for n in range(1, 12)))
    async with served(Narrow(clickhouse_url, database=database), QuerySettings(), [NOW]) as client:
        found = (await client.get("/traces/" + "0" * 31 + "1/waterfall")).json
    assert [row["attributes"] for row in found["rows"]] == [{"n": n} for n in range(1, 12)]


async def test_a_read_that_its_client_abandons_is_cancelled(explore_url: str) -> None:
    """On every route that reads."""
    reached, cancelled = asyncio.Event(), asyncio.Event()

    async def reply(_sql: str, _limits: QueryLimits) -> Rows:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return []

    app, listener = application(Scripted(explore_url, reply), QuerySettings(), [NOW]), bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with (
        listening(app, listener, ChassisSettings(), Telemetry("query")),
        TestClient(TestServer(application(ClickHouse(explore_url), QuerySettings(), [NOW]))) as documented,
        asyncio.timeout(60),
    ):
        for asked in await operations(Explore(documented)):
            if asked.route == "/changes":
                continue
            needed = NEEDED.get(asked.route, {})
            body, query = (needed, None) if asked.fields else (None, needed)
            async with aiohttp.ClientSession(headers={"Authorization": "Bearer mine"}) as client:
                asking = asyncio.ensure_future(client.request(asked.method, url + asked.path, json=body, params=query))
                await reached.wait()
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking
            await cancelled.wait()
            reached.clear()
            cancelled.clear()


@pytest.fixture
def one_answer() -> QuerySettings:
    return QuerySettings(max_answers=1, max_waiting=1, timeout_s=0.2)


async def test_an_answer_that_nobody_takes_keeps_no_place(explore_url: str, one_answer: QuerySettings) -> None:
    """There is one place, and a client that does not read."""
    columns = (*SpanColumns._fields, *AttributeColumns._fields)
    empty = {"trace_id": bytes(16), "span_id": bytes(8), "parent_span_id": bytes(8), "attributes": {"k": "x" * 2**25}}
    numbers = dict.fromkeys(("start_ns", "duration_ns", "kind", "status_code", "batch_id", "row"), 0)
    types = {"attribute_types": "\1k\2s\1"}
    row = tuple({**dict.fromkeys(columns, ""), **numbers, **types, **empty}[name] for name in columns)

    async def reply(_sql: str, limits: QueryLimits) -> Rows:
        assert 0 < limits.max_result_bytes <= MAX_RESULT_BYTES
        return [row]

    headers = {"Authorization": "Bearer mine"}
    async with served(Scripted(explore_url, reply), one_answer, [NOW]) as client, asyncio.timeout(30):
        unread = await client.client.get(f"{PATH}/spans", params={"limit": 1}, headers=headers)
        assert [(await client.get("/spans", limit=1)).status for _ in range(3)] == [200] * 3
        assert len(await unread.read()) > 2**25
        assert (await client.get("/spans", limit=1)).status == 200
        gone = await client.client.get(f"{PATH}/spans", params={"limit": 1}, headers=headers)
        gone.close()
        assert (await client.get("/spans", limit=1)).status == 200


ODD_QUERIES = [
    *("filters=k:%ff", "filters=k:%ed%a0%80", "filters=k:%00", "filters=%zz", "filters=k:v%", "traceId=%ff%fe"),
    *("cursor=%ff", "cursor=%ed%a0%80", "from=%ff", "from=%00", "&&&=&", "hours=%C2%B2", "limit=" + "9" * 4000),
    "from=2026-11-20T15:00:00+02:00&to=2026-11-20T15:30:00%2B02:00",
    "filters=[{%22key%22:%22%5cud800%22,%22op%22:%22eq%22,%22value%22:%22%5cud800%22}]",
    *("filters=" + "%5b" * 2000, "filters=" + "%22" * 3999),
]


@ONE_ENGINE
async def test_no_query_string_is_a_fault_of_ours(explore: Explore) -> None:
    for query in ODD_QUERIES:
        url = URL(str(explore.client.make_url(f"{PATH}/spans")) + "?" + query, encoded=True)
        async with explore.client.session.get(url, headers={"Authorization": "Bearer mine"}) as answer:
            assert answer.status in (200, 400), (query, await answer.text())
