"""Who may ask, what is refused before the store is asked, and what the store's failures look like."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import aiohttp
import pytest
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
from query.request.filters import MAX_TEXT
from query.rows import AttributeColumns, SpanColumns
from query.settings import QuerySettings
from tests.query.conftest import (
    NOW,
    ONE_ENGINE,
    OTHER_PROJECT,
    PATH,
    SECOND,
    Explore,
    Loader,
    application,
    issues,
    record,
    served,
    span,
)
from tests.selection import scaled

ENDPOINTS = [
    "/spans",
    "/logs",
    "/traces/" + "0" * 31 + "1/waterfall",
    "/traces/" + "0" * 31 + "1/logs",
    "/traces/" + "0" * 31 + "1/spans/" + "0" * 15 + "1",
]
LISTS = ["/spans", "/logs", "/traces/" + "0" * 31 + "1/logs"]


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
async def stored(loader: Loader) -> Loader:
    await loader.spans(span(1))
    await loader.logs(record(trace=1, body="hello"))
    return loader


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_every_endpoint_is_guarded_before_it_looks_at_the_request(
    path: str, stored: Loader, explore: Explore
) -> None:
    query = {"limit": "0", "filters": "["}
    answers = [
        await explore.get(path, token="nobody", **query),
        await explore.get(path, base="/orgs/evil/projects/shop/explore", **query),
        await explore.get(path, base="/orgs/acme/projects/none/explore", **query),
        await explore.get(path, token="blind", **query),
        await explore.get(path),
    ]
    assert [answer.status for answer in answers] == [401, 404, 404, 403, 200]
    async with explore.client.post(PATH + path, headers={"Authorization": "Bearer mine"}) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"limit": "1"}, None),
        ({"limit": "200"}, None),
        ({"limit": "0"}, ("query.limit", "too_small")),
        ({"limit": "201"}, ("query.limit", "too_large")),
        ({"limit": "-1"}, ("query.limit", "too_small")),
        ({"limit": "5.0"}, ("query.limit", "type")),
        ({"limit": ""}, ("query.limit", "type")),
        ({"limit": "٣"}, ("query.limit", "type")),
        ({"hours": "1"}, None),
        ({"hours": "720"}, None),
        ({"hours": "0"}, ("query.hours", "too_small")),
        ({"hours": "721"}, ("query.hours", "too_large")),
        ({"hours": "x"}, ("query.hours", "type")),
        ({"hours": "721", "from_": "now-1h"}, ("query.hours", "too_large")),
        ({"from_": "now-720h"}, None),
        ({"from_": "now-43201m"}, ("query.from", "range")),
        ({"from_": "now"}, ("query.from", "range")),
        ({"from_": ""}, ("query.from", "format")),
        ({"from_": "soon"}, ("query.from", "format")),
        ({"to": "soon"}, ("query.to", "format")),
        ({"from_": "now-1h", "to": "now-1h"}, ("query.from", "range")),
        ({"traceId": "x"}, None),
        ({"traceId": "x" * 64}, None),
        ({"traceId": ""}, ("query.traceId", "too_short")),
        ({"traceId": "x" * 65}, ("query.traceId", "too_long")),
        ({"cursor": ""}, ("query.cursor", "too_short")),
        ({"cursor": "A" * 500}, ("query.cursor", "invalid")),
        ({"cursor": "A" * 501}, ("query.cursor", "too_long")),
        ({"filters": ""}, None),
        ({"filters": "k:v".ljust(MAX_TEXT)}, None),
        ({"filters": "k:v".ljust(MAX_TEXT + 1)}, ("query.filters", "too_long")),
        ({"filters": "k"}, ("query.filters", "syntax")),
        ({"filters": "[{}]"}, ("query.filters[0].key", "missing")),
        ({"unknown": "1"}, ("query.unknown", "unknown_field")),
    ],
)
async def test_bounds_of_lists(
    path: str, query: Mapping[str, str], expected: tuple[str, str] | None, bounded: Explore
) -> None:
    answer = await bounded.get(path, **query)
    if expected is None:
        assert answer.status == 200, answer.text
    else:
        assert issues(answer)[0] == expected
        assert answer.json["error"]["code"] == "bad_request"


@pytest.fixture
async def bounded(explore_url: str) -> AsyncIterator[Explore]:
    """A service whose store is empty but for one trace: bounds are about requests."""

    async def reply(sql: str, _limits: QueryLimits) -> Rows:
        return [(2, NOW - SECOND, NOW)] if "trace_index" in sql else []

    async with served(Scripted(explore_url, reply), QuerySettings(), [NOW]) as client:
        yield client


@pytest.fixture
def explore_url() -> str:
    """A server that is not there; nothing in these tests reaches it."""
    return "http://127.0.0.1:9/none"


async def test_a_parameter_counts_once(explore: Explore) -> None:
    url = f"{PATH}/spans?limit=1&limit=2&from=now-1h&from=now-2h"
    async with explore.client.get(url, headers={"Authorization": "Bearer mine"}) as answer:
        details = (await answer.json())["error"]["details"]
    assert sorted(issue["path"] for issue in details) == ["query.from", "query.limit"]


async def test_a_limit_defaults_to_fifty(loader: Loader, explore: Explore) -> None:
    await loader.spans(*(span(n) for n in range(1, 62)))
    assert [len(page) for page in await explore.pages()] == [50, 11]


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (StoreUnavailable("secret host is away"), 503, "service_unavailable"),
        (StoreBusy("64 calls already wait"), 503, "service_unavailable"),
        (StoreMisconfigured("secret password"), 503, "service_unavailable"),
        (QueryTimeout("secret", 159), 503, "service_unavailable"),
        (QueryTooLarge("secret", 241), 400, "bad_request"),
        (StoreRejected("secret syntax", 62), 500, "internal_error"),
        (RuntimeError("secret bug"), 500, "internal_error"),
    ],
)
async def test_what_a_failing_store_looks_like(
    path: str, failure: Exception, status: int, code: str, explore_url: str
) -> None:
    async def reply(_sql: str, _limits: QueryLimits) -> Rows:
        raise failure

    async with served(Scripted(explore_url, reply), QuerySettings(), [NOW]) as client:
        answer = await client.get(path)
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert "secret" not in answer.text
    assert (1 <= int(answer.headers["Retry-After"]) <= 5) if status == 503 else "Retry-After" not in answer.headers


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


COMPARED = {"spike": {"from": "-1h", "to": "now"}, "baseline": {"from": "-2h", "to": "-1h"}}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/spans", None),
        ("/attributes", None),
        ("/errors", None),
        (f"/traces/{'1' * 32}/waterfall", None),
        ("/spans/aggregate", {"fn": "count"}),
        ("/spans/compare", COMPARED),
    ],
)
async def test_a_read_that_its_client_abandons_is_cancelled(explore_url: str, path: str, body: object) -> None:
    reached, cancelled = asyncio.Event(), asyncio.Event()

    async def reply(_sql: str, _limits: QueryLimits) -> Rows:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return []

    settings, telemetry = ChassisSettings(), Telemetry("query")
    app = application(Scripted(explore_url, reply), QuerySettings(), [NOW])
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}{path}"
    async with listening(app, listener, settings, telemetry), aiohttp.ClientSession() as client, asyncio.timeout(10):
        method, headers = ("GET" if body is None else "POST"), {"Authorization": "Bearer mine"}
        asking = asyncio.ensure_future(client.request(method, url, json=body, headers=headers))
        await reached.wait()
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        await client.close()
        await cancelled.wait()


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


HOSTILE = [
    "'",
    "''",
    "\\",
    "\\'",
    '"',
    "`",
    "%",
    "_",
    "%_%",
    "\0",
    "a\0b",
    "\\0",
    "\\N",
    "\t",
    "\n",
    "\r",
    "😀",
    "\U0010ffff",
    "é",
    "e\u0301",
    "\u202e",
    "{p0:UInt64}",
    "{x:Identifier}",
    "{{}}",
    ";",
    "; DROP TABLE spans",
    "'; DROP TABLE spans; --",
    "' OR 1=1 --",
    "') OR (1=1",
    "1 UNION ALL SELECT * FROM spans",
    "*/ OR 1 /*",
    "--",
    "#",
    "NULL",
    "file('/etc/passwd')",
    "$1",
    "%s",
    "%(p0)s",
    "[]",
    "[1]",
    "(1)",
    "\x7f\x80\x9f",
    "\ufeff",
    "\ufffd",
]


@pytest.mark.sized
@ONE_ENGINE
async def test_hostile_texts_are_data(loader: Loader, explore: Explore) -> None:
    """As keys and as values: each finds its own span, never another project's, and every table is still there."""
    own = [span(n + 1, name=f"v{n}", attributes={"k": text, f"key {text}": "v"}) for n, text in enumerate(HOSTILE)]
    await loader.spans(*own)
    await loader.spans(*own, project=OTHER_PROJECT)
    total = len(HOSTILE)
    for n, text in [*enumerate(HOSTILE)][:: scaled(3, 1)]:
        found = {op: await names(explore, "k", op, text) for op in ("eq", "starts_with", "ends_with", "contains")}
        assert found["eq"] == [f"v{n}"], repr(text)
        assert all(f"v{n}" in names for names in found.values()), repr(text)
        assert found["contains"] == sorted(f"v{m}" for m, other in enumerate(HOSTILE) if text in other), repr(text)
        assert len(await names(explore, "k", "neq", text)) == total - 1
        assert await names(explore, f"key {text}", "eq", "v") == [f"v{n}"], repr(text)
        assert len(await names(explore, f"key {text}", "not_exists")) == total - 1
        assert await names(explore, text, "exists") == []
        assert await names(explore, "name", "eq", text) == []
        assert await names(explore, "k", "in", [text, "x"]) == [f"v{n}"], repr(text)
    assert len(await explore.names(from_="-2m")) == total


async def names(explore: Explore, key: str, op: str, value: Any = None) -> list[str]:
    filter_ = {"key": key, "op": op, **({} if value is None else {"value": value})}
    return await explore.names(filters=json.dumps([filter_]), from_="-2m")


@ONE_ENGINE
@pytest.mark.parametrize(
    "query",
    [
        "filters=k:%ff",
        "filters=k:%ed%a0%80",
        "filters=k:%00",
        "filters=%zz",
        "filters=k:v%",
        "traceId=%ff%fe",
        "cursor=%ff",
        "cursor=%ed%a0%80",
        "from=%ff",
        "from=%00",
        "&&&=&",
        "from=2026-11-20T15:00:00+02:00&to=2026-11-20T15:30:00%2B02:00",
        "filters=[{%22key%22:%22%5cud800%22,%22op%22:%22eq%22,%22value%22:%22%5cud800%22}]",
        "filters=" + "%5b" * 2000,
        "filters=" + "%22" * 3999,
        "limit=" + "9" * 4000,
        "hours=%C2%B2",
    ],
)
async def test_no_query_string_is_a_fault_of_ours(query: str, explore: Explore) -> None:
    url = URL(str(explore.client.make_url(f"{PATH}/spans")) + "?" + query, encoded=True)
    async with explore.client.session.get(url, headers={"Authorization": "Bearer mine"}) as answer:
        assert answer.status in (200, 400), await answer.text()
