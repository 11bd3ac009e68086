"""Quotas as senders meet them: on a real socket, over either relational store."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chassis.auth.guards import AuthGuards
from chassis.clickhouse import StoreUnavailable
from control.identity.organizations import organization_store
from gateway.admission import refusal_cache
from tests.gateway.admission.quota.conftest import NOW_S, Connect, month, recorded
from tests.gateway.conftest import Answer, Gateway, Project, RecordingStore, StartGateway, eventually
from tests.gateway.otlp import JSON, log, logs, read_traces, span, traces, traces_json
from tests.redis_server import RedisServer

NAMES = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")
NANOS = 10**9
REST_S = month().ends - NOW_S

Limit = Callable[[int], Awaitable[str]]


def spans(count: int, start_s: int = NOW_S) -> bytes:
    return traces(*(span(number, start_ns=start_s * NANOS) for number in range(1, count + 1)))


@pytest.fixture(autouse=True)
def looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request is, here: who was refused is not remembered."""
    monkeypatch.setattr(refusal_cache, "MAX_AGE_NS", 0)


@pytest.fixture
def limit(checks: AuthGuards, projects: list[Project]) -> Limit:
    """Give the organization a quota, which the guard then knows; its id."""

    async def limited(monthly_items: int) -> str:
        async with checks.database.write() as connection:
            organization = await organization_store.find_organization(connection, "acme")
            assert organization is not None
            await organization_store.set_quota(connection, organization.id, monthly_items)
        checks.project_keys.invalidate_all()
        return organization.id

    return limited


def clock() -> int:
    return NOW_S * NANOS


@pytest.fixture
async def gateway(start_gateway: StartGateway) -> Gateway:
    return await start_gateway(RecordingStore(), clock=clock)


def assert_refused(answer: Answer, monthly_items: int, remaining: int, why: str) -> None:
    assert (answer.status, answer.headers["Retry-After"]) == (429, str(REST_S))
    assert [answer.headers[name] for name in NAMES] == [str(monthly_items), str(remaining), str(month().ends)]
    if answer.content_type == JSON:
        assert answer.json["error"]["code"] == "quota_exceeded"
        assert answer.json["message"] == f"The organization's quota is {monthly_items} items per month (UTC). {why}"


async def test_a_request_that_does_not_fit_any_more_is_refused_as_a_whole(gateway: Gateway, limit: Limit) -> None:
    await limit(10)
    assert await gateway.statuses(spans(7)) == [200]
    assert_refused(await gateway.post("/v1/traces", spans(4)), 10, 3, "")
    four = traces_json(*(span(n, start_ns=NOW_S * NANOS) for n in range(1, 5)))
    as_json = await gateway.post("/v1/traces", four, {"Content-Type": JSON}, project=1)
    assert_refused(as_json, 10, 3, "3 items remain, but the request has 4 items.")
    assert await gateway.statuses(spans(3)) == [200], "what fits is taken"
    assert gateway.metric("items_total", outcome="refused", reason="quota_exceeded") == 8
    assert gateway.metric("items_total", outcome="accepted") == 10
    assert gateway.metric("requests_total", outcome="refused", reason="quota_exceeded") == 2


async def test_no_byte_of_a_body_is_read_once_it_is_used_up(gateway: Gateway, limit: Limit) -> None:
    await limit(1)
    assert (await gateway.post("/v1/logs", logs(log(time_ns=NOW_S * NANOS)))).status == 200
    for path in ("/v1/traces", "/v1/logs"):
        assert_refused(
            await gateway.post(path, b"{}", {"Content-Type": JSON}),
            1,
            0,
            "It is used up. The next month has a new quota.",
        )
    key = gateway.projects[1].key
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-Legacy-Auth: Legacy legacy_key={key}\r\nContent-Length: 5\r\n\r\n"
    async with gateway.written_to(head) as (reader, _):  # the body never comes, and the answer does
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b"Connection: close" in answer
    assert gateway.metric("items_total", outcome="refused") == 0, "nobody knows how many they were"


async def test_what_is_rejected_and_what_could_not_be_taken_counts_nothing(
    start_gateway: StartGateway, limit: Limit
) -> None:
    store = RecordingStore(away=StoreUnavailable("away"))
    gateway = await start_gateway(store, clock=clock, durability="store", ack_deadline_s=0.1)
    await limit(2)
    for _ in range(3):
        assert await gateway.statuses(spans(2)) == [503]
    store.away = None
    await eventually(lambda: gateway.metric("store_up") == 1)
    good, bad = span(1, start_ns=NOW_S * NANOS), span(2, start_ns=NOW_S * NANOS, trace_id=bytes(16))
    for _ in range(2):
        answer = await gateway.post("/v1/traces", traces(good, bad))
        assert (answer.status, read_traces(answer.body).partial_success.rejected_spans) == (200, 1)
    assert await gateway.statuses(spans(1)) == [429]


async def test_requests_at_once_are_never_one_item_too_many(
    start_gateway: StartGateway, limit: Limit, checks: AuthGuards
) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store, clock=clock, linger_s=0.05, quota_sync_s=0.05)
    org = await limit(100)
    answers = await asyncio.gather(*(gateway.post("/v1/traces", spans(7), project=n % 2) for n in range(40)))
    assert sorted(answer.status for answer in answers) == [200] * 14 + [429] * 26
    assert gateway.metric("items_total", outcome="accepted") == 98
    assert await gateway.statuses(spans(2)) == [200]
    assert await gateway.statuses(spans(1)) == [429]
    await gateway.stop()
    assert await recorded(checks.database, org) == 100


@pytest.mark.parametrize("shared", [False, True], ids=["database", "redis"])
async def test_gateways_learn_of_each_other(
    shared: bool,
    start_gateway: StartGateway,
    limit: Limit,
    checks: AuthGuards,
    connect: Connect,
    redis_server: RedisServer,
) -> None:
    """Through the record alone, or sooner through Redis: there the record is not exchanged within this test."""
    options: dict[str, Any] = {"clock": clock, "quota_sync_s": 60.0 if shared else 0.05}
    first, second = [
        await start_gateway(RecordingStore(), redis=await connect(redis_server.url) if shared else None, **options)
        for _ in range(2)
    ]
    org = await limit(10)
    assert await second.statuses(spans(1)) == [200]
    assert await first.statuses(spans(9)) == [200]
    for each in (first, second):
        async with asyncio.timeout(20):
            while (await each.post("/v1/traces", b"")).status != 429:
                await asyncio.sleep(0.02)
    await first.stop()
    await second.stop()
    assert await recorded(checks.database, org) == 10
    third = await start_gateway(RecordingStore(), **options)
    assert await third.statuses(spans(1)) == [429], "one that starts knows at its first request"


async def test_a_new_month_begins_anew(start_gateway: StartGateway, limit: Limit) -> None:
    now_s = [month().ends - 1]
    gateway = await start_gateway(RecordingStore(), clock=lambda: now_s[0] * NANOS)
    await limit(5)
    assert await gateway.statuses(spans(5, now_s[0])) == [200]
    answer = await gateway.post("/v1/traces", spans(1, now_s[0]))
    assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
    now_s[0] += 1
    assert await gateway.statuses(spans(5, now_s[0])) == [200]
    assert await gateway.statuses(spans(1, now_s[0])) == [429]


async def test_a_changed_quota_holds_at_once_where_the_guard_knows_it(gateway: Gateway, limit: Limit) -> None:
    await limit(5)
    assert await gateway.statuses(spans(5)) == [200]
    assert await gateway.statuses(spans(1)) == [429]
    await limit(6)
    assert await gateway.statuses(spans(1)) == [200]
    await limit(3)
    assert (await gateway.post("/v1/traces", b"")).status == 429
    await limit(0)
    answer = await gateway.post("/v1/traces", spans(1_000))
    assert (answer.status, answer.headers["x-ratelimit-limit"]) == (200, "10000")


async def test_without_a_quota_items_are_counted_all_the_same(
    gateway: Gateway, limit: Limit, checks: AuthGuards
) -> None:
    org = await limit(0)
    assert await gateway.statuses(spans(12)) == [200]
    await gateway.stop()
    assert await recorded(checks.database, org) == 12


async def test_with_every_store_of_counts_away_exports_go_on_by_what_is_known(
    start_gateway: StartGateway, limit: Limit, checks: AuthGuards, connect: Connect, own_redis: RedisServer
) -> None:
    redis = await connect(own_redis.url)
    gateway = await start_gateway(RecordingStore(), redis=redis, clock=clock, quota_sync_s=0.05)
    await limit(100)
    assert await gateway.statuses(spans(40)) == [200]
    own_redis.stop()
    await checks.database.close()
    assert await gateway.statuses(spans(40)) == [200]
    await eventually(lambda: gateway.metric("quota_failures_total", store="database") > 0)
    await eventually(lambda: gateway.metric("quota_failures_total", store="redis") > 0)
    assert await gateway.statuses(spans(20)) == [200]
    assert await gateway.statuses(spans(1)) == [429]
    await checks.database.start()


async def test_a_key_over_its_rate_is_told_so_before_the_quota_is_asked(
    start_gateway: StartGateway, limit: Limit
) -> None:
    gateway = await start_gateway(RecordingStore(), clock=clock, otlp_rate=1, otlp_burst=2)
    await limit(100)
    body = traces_json(*(span(n, start_ns=NOW_S * NANOS) for n in range(1, 102)))
    answers = await asyncio.gather(*(gateway.post("/v1/traces", body, {"Content-Type": JSON}) for _ in range(30)))
    assert {answer.status for answer in answers} == {429}
    told = {(answer.json["error"]["code"], answer.headers["x-ratelimit-limit"]) for answer in answers}
    assert told == {("quota_exceeded", "100"), ("rate_limited", "2")}
