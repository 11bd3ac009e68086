"""Who asks the same as another at the same time, or seconds after, has the same answer; and nobody else has it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest

from query.settings import QuerySettings
from query.values import parse_timestamp
from tests.query.conftest import HOUR, NOW, ONE_ENGINE, OTHER_PATH, SECOND, Loader, span
from tests.query.under_load import Client, Counted, listened, until

AGGREGATE: Final = "/spans/aggregate"
CLOSED: Final = {"from": str(NOW - 3 * HOUR), "to": str(NOW - HOUR)}
OPEN: Final = {"from": str(NOW - 3 * HOUR), "to": str(NOW)}

pytestmark = ONE_ENGINE


@pytest.fixture
async def store(clickhouse_url: str, database: str, loader: Loader) -> Counted:
    await loader.spans(*(span(n, start=NOW - 2 * HOUR, attributes={"k": n % 3}) for n in range(1, 11)))
    return Counted(clickhouse_url, database)


@pytest.fixture
def settings() -> QuerySettings:
    return QuerySettings(cache_s=0)


@pytest.fixture
async def client(store: Counted, settings: QuerySettings) -> AsyncIterator[Client]:
    async with listened(store, settings) as client:
        yield client


def count(window: Mapping[str, str], **more: Any) -> Mapping[str, Any]:
    return {"fn": "count", "groupBy": "k", **window, **more}


async def test_requests_that_are_alike_are_read_once_and_have_the_same_bytes(store: Counted, client: Client) -> None:
    alone = await client.post(AGGREGATE, count(OPEN))
    of_one, store.reads = store.reads, 0
    store.may_go_on.clear()
    asking = [asyncio.create_task(client.post(AGGREGATE, count(OPEN), token=t)) for t in ["mine", "colleague"] * 10]
    await client.until('answers_total{source="coalesced"}', lambda value: value == 19)
    store.may_go_on.set()
    assert set(await asyncio.gather(*asking)) == {alone}
    assert store.reads == of_one
    assert await client.post(AGGREGATE, count(OPEN)) == alone
    assert store.reads == 2 * of_one, "what is answered is asked anew"


@pytest.mark.parametrize(
    "other",
    [
        count(OPEN | {"to": str(NOW - 1)}),
        count(OPEN, groupBy="name"),
        count(OPEN, filters=[{"key": "k", "op": "eq", "value": "1"}]),
        count(OPEN, limit=1),
    ],
    ids=["window", "key", "filter", "limit"],
)
async def test_requests_that_differ_are_read_apart(store: Counted, client: Client, other: Mapping[str, Any]) -> None:
    store.may_go_on.clear()
    asking = [asyncio.create_task(client.post(AGGREGATE, body)) for body in (count(OPEN), other)]
    await client.until('answers_total{source="engine"}', lambda value: value == 2)
    store.may_go_on.set()
    (one, first), (two, second) = await asyncio.gather(*asking)
    assert (one, two) == (200, 200)
    assert first != second


async def test_another_project_never_has_the_answer(store: Counted, client: Client) -> None:
    """Asked at the same time, and after it."""
    store.may_go_on.clear()
    mine = asyncio.create_task(client.post(AGGREGATE, count(CLOSED)))
    theirs = asyncio.create_task(client.post(AGGREGATE, count(CLOSED), base=OTHER_PATH))
    await client.until('answers_total{source="engine"}', lambda value: value == 2)
    store.may_go_on.set()
    assert [json.loads(body)["scanned"] for _, body in (await mine, await theirs)] == [10, 0]


async def test_one_that_goes_away_leaves_the_answer_to_the_others_and_the_last_ends_the_read(
    store: Counted, client: Client
) -> None:
    store.may_go_on.clear()
    asking = [asyncio.create_task(client.get("/spans?hours=3&to=" + CLOSED["to"])) for _ in range(3)]
    await client.until('answers_total{source="coalesced"}', lambda value: value == 2)
    asking[0].cancel()  # who began it
    await client.until('answers_total{source="engine"}', lambda value: value == 1)
    store.may_go_on.set()
    (status, body), other = await asyncio.gather(*asking[1:])
    assert (status, body) == other
    assert len(json.loads(body)["data"]) == 10
    assert store.cancelled == 0

    store.may_go_on.clear()
    asking = [asyncio.create_task(client.get("/spans?hours=3&to=" + CLOSED["to"])) for _ in range(3)]
    await client.until('answers_total{source="coalesced"}', lambda value: value == 4)
    for task in asking:
        task.cancel()

    async def cancelled() -> float:
        return store.cancelled

    await until(cancelled, lambda value: value == 1)
    store.may_go_on.set()
    assert (await client.get("/spans?hours=3&to=" + CLOSED["to"]))[0] == 200
    for sample in ("requests_running", "reads_running", "send_buffer_bytes"):
        await client.until(sample, lambda value: value == 0)


@pytest.mark.parametrize("settings", [QuerySettings(cache_s=0, max_waiting=2)])
async def test_no_more_wait_for_one_answer_than_may_wait(store: Counted, client: Client) -> None:
    store.may_go_on.clear()
    asking = [asyncio.create_task(client.post(AGGREGATE, count(OPEN))) for _ in range(5)]
    await client.until('refused_requests_total{reason="queue_full"}', lambda value: value == 2)
    store.may_go_on.set()
    assert sorted(status for status, _ in await asyncio.gather(*asking)) == [200] * 3 + [503] * 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (AGGREGATE, {"fn": "count", "hours": 24}),
        (AGGREGATE, {"fn": "count", "from": "now-720h", "to": "now"}),
        ("/spans?hours=720", None),
        ("/spans?filters=startTime:<now", None),
        ("/logs?hours=3", None),
        ("/errors?hours=3", None),
        ("/attributes?hours=3", None),
    ],
)
async def test_requests_for_the_time_until_now_are_alike_for_a_second(
    store: Counted, settings: QuerySettings, path: str, body: Mapping[str, Any] | None
) -> None:
    clock = [NOW + 1]
    async with listened(store, settings, clock) as client:

        def ask() -> asyncio.Task[tuple[int, bytes]]:
            return asyncio.create_task(client.get(path) if body is None else client.post(path, body))

        store.may_go_on.clear()
        asking = [ask()]
        await client.until('answers_total{source="engine"}', lambda value: value == 1)
        for shared, fraction in enumerate((123_456_789, SECOND), 1):
            clock[0] = NOW + fraction
            asking.append(ask())
            await client.until('answers_total{source="coalesced"}', float(shared).__eq__)
        clock[0] = NOW + SECOND + 1
        asking.append(ask())
        await client.until('answers_total{source="engine"}', lambda value: value == 2)
        store.may_go_on.set()
        first, *others = await asyncio.gather(*asking)
        assert first[0] == 200, first
        assert others[:2] == [first, first]


async def test_until_now_is_until_the_next_second_and_of_full_length(
    store: Counted, settings: QuerySettings, loader: Loader
) -> None:
    """What is stored up to now is in it, and the range that is shown is what was read."""
    now = NOW - HOUR + 999_999_999
    await loader.spans(span(100, start=now))
    async with listened(store, settings, [now]) as client:
        status, body = await client.post(AGGREGATE, {"fn": "count", "hours": 1})
        answer = json.loads(body)
        assert (status, answer["scanned"]) == (200, 1)
        shown = [parse_timestamp(answer["range"][end], 0) for end in ("from", "to")]
        assert shown == [NOW - 2 * HOUR + SECOND, NOW - HOUR + SECOND]


ONE_PLACE: Final = QuerySettings(cache_s=0, max_answers=1, max_wait_s=600)


@pytest.mark.parametrize("settings", [ONE_PLACE])
async def test_requests_that_wait_for_the_same_are_read_once(store: Counted, client: Client) -> None:
    """Behind another one of the same user, who has but one place."""
    alone = await client.post(AGGREGATE, count(OPEN))
    of_one, store.reads = store.reads, 0
    store.may_go_on.clear()
    other = asyncio.create_task(client.post(AGGREGATE, count(CLOSED)))
    await client.until("requests_running", lambda value: value == 1)
    asking = [asyncio.create_task(client.post(AGGREGATE, count(OPEN), token=t)) for t in ["mine", "colleague"] * 5]
    await client.until("requests_waiting", lambda value: value == 10)
    store.may_go_on.set()
    assert (await other)[0] == 200
    assert set(await asyncio.gather(*asking)) == {alone}
    assert store.reads == 2 * of_one
    assert await client.metric('answers_total{source="coalesced"}') == 9
    for sample in ("requests_running", "requests_waiting", "reads_running", "send_buffer_bytes"):
        await client.until(sample, lambda value: value == 0)


@pytest.mark.parametrize("settings", [ONE_PLACE])
async def test_the_first_of_those_that_wait_for_the_same_may_leave(store: Counted, client: Client) -> None:
    """While it waits, and when it has begun the execution of all."""
    store.may_go_on.clear()
    other = asyncio.create_task(client.get("/spans?to=" + CLOSED["to"]))
    await client.until("requests_running", lambda value: value == 1)
    asking = []
    for waiting in range(1, 5):
        asking.append(asyncio.create_task(client.get("/spans?hours=3&to=" + CLOSED["to"])))
        await client.until("requests_waiting", float(waiting).__eq__)
    asking[0].cancel()
    await client.until("requests_waiting", lambda value: value == 3)
    other.cancel()
    await client.until('answers_total{source="coalesced"}', lambda value: value == 2)
    asking[1].cancel()
    assert await client.metric("requests_waiting") == 0
    store.may_go_on.set()
    assert [status for status, _ in await asyncio.gather(*asking[2:])] == [200, 200]
    assert store.cancelled == 1
    await client.until("requests_running", lambda value: value == 0)


@pytest.mark.parametrize("settings", [QuerySettings(cache_s=0, max_answers=1, max_wait_s=0.3)])
async def test_who_waits_with_others_for_the_same_is_refused_after_his_own_wait(store: Counted, client: Client) -> None:
    store.may_go_on.clear()
    other = asyncio.create_task(client.post(AGGREGATE, count(CLOSED)))
    await client.until("requests_running", lambda value: value == 1)
    asking = [asyncio.create_task(client.post(AGGREGATE, count(OPEN))) for _ in range(3)]
    assert [status for status, _ in await asyncio.gather(*asking)] == [503] * 3
    store.may_go_on.set()
    assert (await other)[0] == 200
    assert (await client.post(AGGREGATE, count(OPEN)))[0] == 200


async def test_a_refusal_is_shared_as_well(store: Counted, client: Client) -> None:
    body = count(OPEN, filters=[{"key": "k", "op": "regex", "value": "("}])
    store.may_go_on.clear()
    asking = [asyncio.create_task(client.post(AGGREGATE, body)) for _ in range(5)]
    await client.until('answers_total{source="coalesced"}', lambda value: value == 4)
    store.may_go_on.set()
    assert [status for status, _ in await asyncio.gather(*asking)] == [400] * 5
    assert store.reads == 1


@pytest.mark.parametrize(
    ("settings", "window", "kept"),
    [
        (QuerySettings(cache_s=300), CLOSED, True),
        (QuerySettings(cache_s=300), OPEN, False),
        (QuerySettings(cache_s=300), {"from": OPEN["from"], "to": str(NOW - 59 * SECOND)}, False),
        (QuerySettings(cache_s=300), {"hours": 3}, False),
        (QuerySettings(cache_s=300, max_cache_bytes=0), CLOSED, False),
        (QuerySettings(cache_s=0), CLOSED, False),
    ],
    ids=["closed", "open", "just closed", "now", "no memory", "off"],
)
async def test_an_answer_over_a_closed_window_is_given_again(
    store: Counted, client: Client, window: Mapping[str, Any], kept: bool
) -> None:
    first = await client.post(AGGREGATE, count(window))
    of_one = store.reads
    assert await client.post(AGGREGATE, count(window), token="colleague") == first
    assert store.reads == of_one * (1 if kept else 2)
    assert await client.metric('answers_total{source="cache"}') == kept
    status, body = await client.post(AGGREGATE, count(window), base=OTHER_PATH)
    assert (status, json.loads(body)["scanned"]) == (200, 0)
