"""Batches and a store that fails: what is answered when, what is inserted with which token, what is never lost."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from chassis.clickhouse import ClickHouse, StoreBusy, StoreRejected, StoreUnavailable
from gateway.ingest.pending_requests import PendingRequest
from tests.gateway.conftest import Answer, Gateway, Insert, RecordingStore, StartGateway, eventually
from tests.gateway.otlp import DAY_NS, JSON, NOW_NS, PROTOBUF, exception_event, log, logs, span, traces

Rows = Callable[..., Awaitable[list[tuple[Any, ...]]]]
AWAY = StoreUnavailable("connection refused")
DERIVED = ["trace_index", "attribute_keys", "ingest_outcomes"]


@pytest.fixture
def durability() -> str:
    """Requests are answered when they are stored."""
    return "store"


def days_of(store: RecordingStore, table: str) -> list[int]:
    return [int(insert.token.rsplit(":", 1)[1]) for insert in store.taken if insert.table == table]


async def send_all(gateway: Gateway, bodies: Sequence[bytes]) -> list[Answer]:
    return await asyncio.gather(*(gateway.post("/v1/traces", body) for body in bodies))


async def test_main_rows_go_first_and_every_block_has_its_token(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store)
    one = span()
    one.events.append(exception_event("KeyError", "x", ""))
    await gateway.post("/v1/traces", traces(one))
    await gateway.stop()
    assert store.tables() == ["spans", "trace_index", "attribute_keys", "error_occurrences", "ingest_outcomes"]
    day = NOW_NS // DAY_NS
    batch = store.taken[0].token.split(":", 1)[0]
    assert [insert.token for insert in store.taken] == [f"{batch}:{table}:{day}" for table in store.tables()]
    assert 0 <= int(batch) < 2**63


async def test_requests_share_a_batch(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store, linger_s=5.0, batch_rows=30)
    answers = await send_all(gateway, [traces(*map(span, range(1, 11)))] * 3)
    assert [answer.status for answer in answers] == [200, 200, 200]
    await gateway.stop()
    assert store.tables().count("spans") == 1


async def test_a_batch_is_full_by_bytes_as_well(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store, linger_s=5.0, batch_bytes=1)
    assert (await gateway.post("/v1/traces", traces(span()))).status == 200


async def test_each_day_is_a_block_of_its_own(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store)
    starts = [NOW_NS, NOW_NS - DAY_NS, NOW_NS - 9 * DAY_NS]
    await gateway.post("/v1/traces", traces(*(span(n, start_ns=start) for n, start in enumerate(starts, 1))))
    await gateway.stop()
    expected = sorted(start // DAY_NS for start in starts)
    for table in ("spans", "trace_index", "attribute_keys"):
        assert days_of(store, table) == expected


async def test_an_ambiguous_insert_is_repeated_with_the_same_token_and_stored_once(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    class AnswerLost(RecordingStore):
        """Takes the first block, and says that it did not."""

        async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
            await super().insert(table, columns, pieces, token=token)
            if len(self.asked) == 1:
                raise AWAY

    store = AnswerLost(behind=clickhouse)
    gateway = await start_gateway(store)
    assert (await gateway.post("/v1/traces", traces(span(1), span(2)))).status == 200
    await gateway.stop()
    first, second = store.asked[:2]
    assert first == second
    assert await rows("SELECT count() FROM spans") == [(2,)]


@pytest.mark.parametrize("error", [AWAY, StoreBusy("busy"), StoreUnavailable("Too many parts", 252)])
async def test_a_passing_failure_costs_nobody_anything(start_gateway: StartGateway, error: StoreUnavailable) -> None:
    store = RecordingStore(failures=[error])
    gateway = await start_gateway(store)
    assert (await gateway.post("/v1/traces", traces(span()))).status == 200
    await gateway.stop()
    assert store.tables() == ["spans", *DERIVED]


async def test_while_clickhouse_is_unavailable_requests_are_refused_and_accepted_later(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    store = RecordingStore(behind=clickhouse, away=AWAY)
    gateway = await start_gateway(store, ack_deadline_s=0.3)
    first = await gateway.post("/v1/traces", traces(span(1)))
    assert (first.status, first.content_type) == (503, "application/x-protobuf")
    assert 1 <= int(first.headers["Retry-After"]) <= 5
    asked = len(store.asked)
    for _ in range(20):  # at once, and without bothering the store
        assert (await gateway.post("/v1/traces", traces(span(2)))).status == 503
    assert len(store.asked) == asked
    ready = await gateway.request("GET", "/readyz")
    assert ready.status == 503
    assert b"clickhouse" in ready.body
    assert gateway.metric("store_up") == 0
    assert gateway.metric("inflight_bytes") == 0

    store.away = None
    await eventually(lambda: gateway.metric("store_up") == 1)
    assert (await gateway.post("/v1/traces", traces(span(3)))).status == 200
    await gateway.stop()
    assert await rows("SELECT reinterpretAsUInt64(reverse(span_id)) FROM spans") == [(3,)]
    assert await rows("SELECT sum(requests) FROM ingest_outcomes WHERE reason = 'service_unavailable'") == [(21,)]


async def test_derived_rows_follow_when_clickhouse_comes_back(start_gateway: StartGateway) -> None:
    store = RecordingStore()

    def without_derived(insert: Insert) -> StoreUnavailable | None:
        if insert.table == "spans":
            return None
        store.away = AWAY
        return AWAY

    store.refuse = without_derived
    gateway = await start_gateway(store)
    assert (await gateway.post("/v1/traces", traces(span()))).status == 200  # the spans are in
    await eventually(lambda: gateway.metric("background_bytes") > 0)
    assert store.tables() == ["spans"]
    store.refuse = lambda _insert: None
    store.away = None
    await eventually(lambda: sorted(store.tables()) == sorted(["spans", *DERIVED]))
    assert gateway.metric("background_bytes") == 0
    assert gateway.metric("lost_rows_total") == 0


async def test_a_trace_is_found_as_soon_as_its_export_is_answered(start_gateway: StartGateway) -> None:
    class WithLateRest(RecordingStore):
        """Takes its time with everything but spans and the trace index."""

        async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
            if table not in ("spans", "trace_index"):
                await answered.wait()
            await super().insert(table, columns, pieces, token=token)

    answered = asyncio.Event()
    store = WithLateRest()
    gateway = await start_gateway(store)
    assert (await gateway.post("/v1/traces", traces(span()))).status == 200
    assert store.tables() == ["spans", "trace_index"]
    answered.set()
    await eventually(lambda: store.tables() == ["spans", *DERIVED])


async def test_dropped_rows_are_counted_and_logged_as_lost(start_gateway: StartGateway) -> None:
    store = RecordingStore(refuse=lambda insert: AWAY if insert.table in DERIVED else None)
    gateway = await start_gateway(store, max_background_bytes=0)
    with capture_logs() as lines:
        assert (await gateway.post("/v1/traces", traces(span()))).status == 200
        await eventually(lambda: gateway.metric("lost_rows_total") >= 5)
    lost = [line for line in lines if line["event"] == "rows lost"]
    assert [(line["log_level"], line["table"], line["rows"]) for line in lost] == [
        ("error", "trace_index", 1),
        ("error", "attribute_keys", 3),
        ("error", "ingest_outcomes", 1),
    ]


async def test_a_request_over_its_deadline_is_503_and_counted_if_it_is_stored_after_all(
    start_gateway: StartGateway,
) -> None:
    released = asyncio.Event()

    class Slow(RecordingStore):
        async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
            await released.wait()
            await super().insert(table, columns, pieces, token=token)

    store = Slow()
    gateway = await start_gateway(store, ack_deadline_s=0.1)
    answer = await gateway.post("/v1/traces", traces(span(1), span(2)))
    assert answer.status == 503
    released.set()
    await eventually(lambda: gateway.metric("late_items_total") == 2)


async def test_requests_that_gave_up_waiting_hold_no_memory(start_gateway: StartGateway) -> None:
    """A store that hangs: what is answered 503 must not pile up behind it."""
    released = asyncio.Event()

    class Hanging(RecordingStore):
        async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
            self.asked.append(Insert(table, token, b""))
            await released.wait()
            await super().insert(table, columns, pieces, token=token)

    def held() -> int:
        return sum(isinstance(one, PendingRequest) for one in gc.get_objects())

    gc.collect()
    before = held()  # by the errors that earlier tests raise again and again, for one
    store = Hanging()
    gateway = await start_gateway(store, ack_deadline_s=0.2, max_batches=1, batch_rows=2)
    statuses = []
    for number in range(1, 4):
        answers = await send_all(gateway, [traces(span(number))] * 3)
        statuses += [answer.status for answer in answers]
    # Those of the insert that hangs; the handlers of the last answers may take a moment to end.
    await eventually(lambda: held() <= before + 2)
    released.set()
    await gateway.stop()
    assert statuses == [503] * 9
    assert store.tables().count("spans") == 1


async def test_the_gateway_goes_on_after_requests_gave_up_waiting_for_a_slot(start_gateway: StartGateway) -> None:
    began, released = asyncio.Event(), asyncio.Event()

    class Hanging(RecordingStore):
        async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
            began.set()
            await released.wait()
            await super().insert(table, columns, pieces, token=token)

    gateway = await start_gateway(Hanging(), ack_deadline_s=0.5, max_batches=1, linger_s=0.02)
    first = asyncio.ensure_future(gateway.post("/v1/traces", traces(span(1))))
    await began.wait()  # its batch has taken the slot
    assert (await gateway.post("/v1/traces", traces(span(2)))).status == 503  # ripe, and without a slot
    assert (await first).status == 503
    released.set()
    await eventually(lambda: gateway.metric("late_items_total") == 1)
    assert (await gateway.post("/v1/traces", traces(span(3)))).status == 200


async def test_stopping_does_not_wait_for_an_insert_that_hangs(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.ingest.wiring.DRAIN_RETRY_QUEUE_S", 0.1)
    hanging = asyncio.Event()

    class Hanging(RecordingStore):
        async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
            if table == "trace_index":
                self.asked.append(Insert(table, token, b""))
                await hanging.wait()
            await super().insert(table, columns, pieces, token=token)

    store = Hanging()
    gateway = await start_gateway(store, ack_deadline_s=0.1)
    assert (await gateway.post("/v1/traces", traces(span()))).status == 200
    await eventually(lambda: len(store.asked) == 2)
    with capture_logs() as lines:
        await gateway.stop()
    assert {line["table"] for line in lines if line["event"] == "rows lost"} == {"trace_index"}
    assert store.tables() == ["spans", "attribute_keys", "ingest_outcomes"]


async def test_a_request_that_never_got_an_insert_slot_is_not_stored(start_gateway: StartGateway) -> None:
    released = asyncio.Event()

    class Slow(RecordingStore):
        async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
            if not self.asked:
                self.asked.append(Insert(table, token, b""))
                await released.wait()
            await super().insert(table, columns, pieces, token=token)

    store = Slow()
    gateway = await start_gateway(store, ack_deadline_s=0.3, max_batches=1)
    first = asyncio.ensure_future(gateway.post("/v1/traces", traces(span(1))))
    await eventually(lambda: len(store.asked) == 1)
    assert (await gateway.post("/v1/traces", traces(span(2)))).status == 503
    assert (await first).status == 503
    released.set()
    await gateway.stop()
    assert store.tables().count("spans") == 1


async def test_a_batch_that_is_partly_in_is_completed_in_the_background(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    yesterday = (NOW_NS - DAY_NS) // DAY_NS

    def only_yesterday(insert: Insert) -> StoreUnavailable | None:
        return None if insert.token.endswith(f":spans:{yesterday}") else AWAY

    store.refuse = only_yesterday
    gateway = await start_gateway(store, ack_deadline_s=0.3)
    body = traces(span(1), span(2, start_ns=NOW_NS - DAY_NS))
    assert (await gateway.post("/v1/traces", body)).status == 503
    store.refuse = lambda _insert: None
    await eventually(lambda: store.tables().count("ingest_outcomes") >= 1)
    assert sorted(days_of(store, "spans")) == [yesterday, yesterday + 1]
    await gateway.stop()


POISON = StoreRejected("Incorrect data", 117)


def poisoned(insert: Insert) -> StoreRejected | None:
    return POISON if insert.table == "spans" and b"poison" in insert.body else None


async def test_a_block_that_is_refused_for_good_costs_only_its_request(start_gateway: StartGateway) -> None:
    store = RecordingStore(refuse=poisoned)
    gateway = await start_gateway(store, linger_s=5.0, batch_rows=8)
    good, bad = traces(span(1)), traces(span(2, name="poison"))
    requests = [gateway.post("/v1/traces", bad if n == 3 else good, project=int(n > 5)) for n in range(8)]
    with capture_logs() as lines:
        answers = await asyncio.gather(*requests)
    assert [answer.status for answer in answers] == [200, 200, 200, 500, 200, 200, 200, 200]
    assert [line["items"] for line in lines if line["log_level"] == "error"] == [1]
    await gateway.stop()
    assert gateway.metric("items_total", outcome="accepted") == 7
    assert gateway.metric("items_total", outcome="refused", reason="internal_error") == 1
    assert len({insert.token for insert in store.taken}) == len(store.taken)


async def test_narrowing_does_not_store_a_day_twice(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    store = RecordingStore(behind=clickhouse, refuse=poisoned)
    gateway = await start_gateway(store, linger_s=5.0, batch_rows=4)
    yesterday = NOW_NS - DAY_NS
    good = traces(span(1), span(2, start_ns=yesterday))
    bad = traces(span(3, name="poison"), span(4, start_ns=yesterday))
    answers = await send_all(gateway, [good, bad])
    assert sorted(answer.status for answer in answers) == [200, 500]
    await gateway.stop()
    found = await rows("SELECT reinterpretAsUInt64(reverse(span_id)) AS n, count() FROM spans GROUP BY n ORDER BY n")
    assert found == [(1, 1), (2, 1), (4, 1)]


async def test_the_stored_days_of_a_refused_request_are_to_be_found(start_gateway: StartGateway) -> None:
    store = RecordingStore(refuse=poisoned)
    gateway = await start_gateway(store)
    earlier = NOW_NS - DAY_NS
    body = traces(span(1, start_ns=earlier), span(2, name="poison"))
    assert (await gateway.post("/v1/traces", body)).status == 500
    await gateway.stop()
    days = [(insert.table, int(insert.token.rsplit(":", 1)[1])) for insert in store.taken]
    day = earlier // DAY_NS
    assert days == [("spans", day), ("trace_index", day), ("attribute_keys", day), ("ingest_outcomes", day + 1)]
    assert gateway.metric("items_total", outcome="refused", reason="internal_error") == 2


async def test_an_unforeseen_fault_is_503_not_500(start_gateway: StartGateway) -> None:
    def broken(_insert: Insert) -> None:
        raise RuntimeError("a defect of ours")

    gateway = await start_gateway(RecordingStore(refuse=broken))
    with capture_logs() as lines:
        answer = await gateway.post("/v1/traces", b"{}", {"Content-Type": JSON})
        assert answer.status == 200  # nothing to store
        answer = await gateway.post("/v1/traces", traces(span()))
    assert answer.status == 503
    assert "storing a batch failed; answering 503" in [line["event"] for line in lines]
    assert b"defect" not in answer.body


async def test_an_unforeseen_fault_with_one_derived_block_does_not_hold_up_the_next(
    start_gateway: StartGateway,
) -> None:
    def broken(insert: Insert) -> None:
        if insert.table == "trace_index":
            raise RuntimeError("a defect of ours")

    store = RecordingStore(refuse=broken)
    gateway = await start_gateway(store)
    with capture_logs() as lines:
        assert (await gateway.post("/v1/traces", traces(span()))).status == 200
        await gateway.stop()
    assert store.tables() == ["spans", "attribute_keys", "ingest_outcomes"]
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["insert failed", "rows lost"]


async def test_a_body_of_unknown_length_is_charged_as_it_grows(start_gateway: StartGateway) -> None:
    released = asyncio.Event()

    async def stalling() -> AsyncIterator[bytes]:
        for _ in range(12):
            yield bytes(50_000)
        await released.wait()

    async def growing() -> AsyncIterator[bytes]:
        for _ in range(12):
            yield bytes(50_000)

    gateway = await start_gateway(RecordingStore(), max_inflight_bytes=1_000_000)
    key = {"Content-Type": PROTOBUF, "X-Legacy-Auth": f"Legacy legacy_key={gateway.projects[0].key}"}
    held = asyncio.ensure_future(gateway.request("POST", "/v1/traces", data=stalling(), headers=key))
    await eventually(lambda: gateway.metric("inflight_bytes") == 600_000)
    refused = await gateway.request("POST", "/v1/traces", data=growing(), headers=key)
    assert (refused.status, refused.headers["Connection"]) == (503, "close")
    released.set()
    assert (await held).status == 400  # zeros are no request
    assert gateway.metric("inflight_bytes") == 0


async def test_too_much_in_flight_is_503_with_retry_after(start_gateway: StartGateway) -> None:
    released = asyncio.Event()

    class Slow(RecordingStore):
        async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
            await released.wait()
            await super().insert(table, columns, pieces, token=token)

    gateway = await start_gateway(Slow(), max_inflight_items=3)
    held = asyncio.ensure_future(gateway.post("/v1/traces", traces(span(1), span(2))))
    await eventually(lambda: gateway.metric("inflight_items") == 2)
    assert gateway.metric("inflight_bytes") > 0
    refused = await gateway.post("/v1/traces", traces(span(3), span(4)))
    assert refused.status == 503
    assert 1 <= int(refused.headers["Retry-After"]) <= 5
    fits = asyncio.ensure_future(gateway.post("/v1/traces", traces(span(3)), project=1))
    await eventually(lambda: gateway.metric("inflight_items") == 3)
    released.set()
    assert [(await held).status, (await fits).status] == [200, 200]
    assert gateway.metric("inflight_items") == gateway.metric("inflight_bytes") == 0


async def test_a_lone_request_is_admitted_whatever_its_size(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(RecordingStore(), max_inflight_bytes=1, max_inflight_items=1)
    assert (await gateway.post("/v1/traces", traces(span(1), span(2)))).status == 200


async def test_stopping_stores_what_waits(clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway) -> None:
    gateway = await start_gateway(clickhouse, linger_s=1.0)
    waiting = [asyncio.ensure_future(gateway.post("/v1/logs", logs(log(n)))) for n in range(3)]
    await eventually(lambda: gateway.metric("inflight_items") == 3)
    await gateway.stop()
    assert [(await one).status for one in waiting] == [200, 200, 200]
    assert await rows("SELECT count() FROM logs") == [(3,)]
    assert await rows("SELECT sum(items) FROM ingest_outcomes") == [(3,)]


async def test_an_uncertain_block_keeps_its_token_until_the_deadline(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it fails while others are stored: another token would store what an attempt has stored already."""
    monkeypatch.setattr("gateway.inserts.insert_retry.MAX_FAILURES", 1)
    released = asyncio.Event()

    class Uncertain(RecordingStore):
        """The connection ends after a block was sent."""

        async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
            await super().insert(table, columns, pieces, token=token)
            if b"uncertain" in self.taken[-1].body and table == "spans":
                await released.wait()
                raise AWAY

    store = Uncertain()
    gateway = await start_gateway(store, ack_deadline_s=0.5, linger_s=5.0, batch_rows=2)
    uncertain = asyncio.ensure_future(send_all(gateway, [traces(span(n, name="uncertain")) for n in (1, 2)]))
    await eventually(lambda: len(store.taken) == 1)
    assert [answer.status for answer in await send_all(gateway, [traces(span(n)) for n in (3, 4)])] == [200, 200]
    released.set()
    assert [answer.status for answer in await uncertain] == [503, 503]
    await gateway.stop()
    assert len({insert.token for insert in store.taken if insert.table == "spans"}) == 2


async def test_a_part_of_which_nothing_is_stored_is_not_stored_after_its_503(start_gateway: StartGateway) -> None:
    today, yesterday = NOW_NS // DAY_NS, NOW_NS // DAY_NS - 1

    def refuse(insert: Insert) -> StoreRejected | StoreUnavailable | None:
        if insert.token.endswith(f":spans:{yesterday}"):
            return None
        if insert.table == "spans" and b"poison" in insert.body:
            return POISON
        return StoreUnavailable("Not enough space", 243) if insert.token.endswith(f":spans:{today}") else None

    store = RecordingStore(refuse=refuse)
    gateway = await start_gateway(store, ack_deadline_s=0.6, linger_s=5.0, batch_rows=3)
    both_days = traces(span(1, name="poison"), span(2, start_ns=NOW_NS - DAY_NS))
    first = asyncio.ensure_future(gateway.post("/v1/traces", both_days))
    await eventually(lambda: gateway.metric("inflight_items") == 2)
    second = asyncio.ensure_future(gateway.post("/v1/traces", traces(span(3)), project=1))
    assert [(await answer).status for answer in (first, second)] == [500, 503]
    store.refuse = lambda _insert: None
    await gateway.stop()
    assert days_of(store, "spans") == [yesterday]
