"""Batches and a store that fails: what is answered when, what is inserted with which token, what is never lost."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from chassis.clickhouse import ClickHouse, StoreBusy, StoreRejected, StoreUnavailable
from gateway.inserts.pending_requests import PendingRequest
from tests.gateway.conftest import Insert, RecordingStore, Rows, StartGateway, eventually, holding
from tests.gateway.otlp import DAY_NS, JSON, NOW_NS, PROTOBUF, log, logs, span, traces

DURABILITY = "store"  # requests are answered when they are stored
AWAY = StoreUnavailable("connection refused")
DERIVED = ["trace_index", "attribute_keys", "ingest_outcomes"]
TODAY, YESTERDAY_NS = NOW_NS // DAY_NS, NOW_NS - DAY_NS


def days_of(store: RecordingStore, table: str) -> list[int]:
    return [insert.day for insert in store.into(table)]


async def test_main_rows_go_first_and_every_block_has_its_token(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store)
    await gateway.post("/v1/traces", traces(span(exception=("KeyError", "x", ""))))
    await gateway.stop()
    assert store.tables() == ["spans", "trace_index", "attribute_keys", "error_occurrences", "ingest_outcomes"]
    batch = store.taken[0].token.split(":", 1)[0]
    assert [insert.token for insert in store.taken] == [f"{batch}:{table}:{TODAY}" for table in store.tables()]
    assert 0 <= int(batch) < 2**63


async def test_requests_share_a_batch_that_is_full_by_rows_or_by_bytes(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store, linger_s=5.0, batch_rows=30)
    assert await gateway.statuses(*[traces(*map(span, range(1, 11)))] * 3) == [200, 200, 200]
    await gateway.stop()
    assert store.tables().count("spans") == 1
    gateway = await start_gateway(store, linger_s=5.0, batch_bytes=1)
    assert await gateway.statuses(traces(span())) == [200]


async def test_each_day_is_a_block_of_its_own(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store)
    starts = [NOW_NS, YESTERDAY_NS, NOW_NS - 9 * DAY_NS]
    await gateway.post("/v1/traces", traces(*(span(n, start_ns=start) for n, start in enumerate(starts, 1))))
    await gateway.stop()
    for table in ("spans", "trace_index", "attribute_keys"):
        assert days_of(store, table) == sorted(start // DAY_NS for start in starts)


async def test_an_ambiguous_insert_is_repeated_with_the_same_token_and_stored_once(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    store = RecordingStore(behind=clickhouse, answer=lambda _insert: AWAY if len(store.asked) == 1 else None)
    gateway = await start_gateway(store)
    assert await gateway.statuses(traces(span(1), span(2))) == [200]
    await gateway.stop()
    first, second = store.asked[:2]
    assert first == second
    assert await rows("SELECT count() FROM spans") == [(2,)]


async def test_a_passing_failure_costs_nobody_anything(start_gateway: StartGateway) -> None:
    for error in (AWAY, StoreBusy("busy"), StoreUnavailable("Too many parts", 252)):
        store = RecordingStore(failures=[error])
        gateway = await start_gateway(store)
        assert await gateway.statuses(traces(span())) == [200]
        await gateway.stop()
        assert store.tables() == ["spans", *DERIVED]


async def test_while_clickhouse_is_unavailable_requests_are_refused_and_accepted_later(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    """Who waited in vain has little time left to try again, so it is told the shortest wait."""
    store = RecordingStore(behind=clickhouse, away=AWAY)
    gateway = await start_gateway(store, ack_deadline_s=1.0)
    waited = await asyncio.gather(*(gateway.post("/v1/traces", traces(span(n))) for n in range(1, 13)))
    assert {(answer.status, answer.content_type, answer.headers["Retry-After"]) for answer in waited} == {
        (503, PROTOBUF, "1")
    }
    asked = len(store.asked)
    for _ in range(20):  # at once, and without bothering the store
        refused = await gateway.post("/v1/traces", traces(span(2)))
        assert (refused.status, 1 <= int(refused.headers["Retry-After"]) <= 5) == (503, True)
    assert len(store.asked) == asked
    ready = await gateway.request("GET", "/readyz")
    assert (ready.status, b"clickhouse" in ready.body) == (503, True)
    assert gateway.metric("store_up") == gateway.metric("inflight_bytes") == 0

    store.away = None
    await eventually(lambda: gateway.metric("store_up") == 1)
    assert await gateway.statuses(traces(span(30))) == [200]
    await gateway.stop()
    assert await rows("SELECT reinterpretAsUInt64(reverse(span_id)) FROM spans") == [(30,)]
    assert await rows("SELECT sum(requests) FROM ingest_outcomes WHERE reason = 'service_unavailable'") == [(32,)]


async def test_derived_rows_follow_when_clickhouse_comes_back(start_gateway: StartGateway) -> None:
    def without_derived(insert: Insert) -> StoreUnavailable | None:
        store.away = None if insert.table == "spans" else AWAY
        return AWAY if store.away else None

    store = RecordingStore(refuse=without_derived)
    gateway = await start_gateway(store)
    assert await gateway.statuses(traces(span())) == [200]  # the spans are in
    await eventually(lambda: gateway.metric("background_bytes") > 0)
    assert store.tables() == ["spans"]
    store.refuse = lambda _insert: None
    store.away = None
    await eventually(lambda: sorted(store.tables()) == sorted(["spans", *DERIVED]))
    assert gateway.metric("background_bytes") == gateway.metric("lost_rows_total") == 0


async def test_a_trace_is_found_as_soon_as_its_export_is_answered(start_gateway: StartGateway) -> None:
    store = holding(*DERIVED[1:])
    gateway = await start_gateway(store)
    assert await gateway.statuses(traces(span())) == [200]
    assert store.tables() == ["spans", "trace_index"]
    store.released.set()
    await eventually(lambda: store.tables() == ["spans", *DERIVED])


async def test_dropped_rows_are_counted_and_logged_as_lost(start_gateway: StartGateway) -> None:
    store = RecordingStore(refuse=lambda insert: AWAY if insert.table in DERIVED else None)
    gateway = await start_gateway(store, max_background_bytes=0)
    with capture_logs() as lines:
        assert await gateway.statuses(traces(span())) == [200]
        await eventually(lambda: gateway.metric("lost_rows_total") >= 5)
    lost = [line for line in lines if line["event"] == "rows lost"]
    assert [(line["log_level"], line["table"], line["rows"]) for line in lost] == [
        ("error", "trace_index", 1),
        ("error", "attribute_keys", 3),
        ("error", "ingest_outcomes", 1),
    ]


async def test_requests_that_gave_up_waiting_hold_no_memory_and_count_if_they_are_stored_after_all(
    start_gateway: StartGateway,
) -> None:
    """A store that hangs: what is answered 503 must not pile up behind it."""

    def held() -> int:
        return sum(isinstance(one, PendingRequest) for one in gc.get_objects())

    gc.collect()
    before = held()  # by the errors that earlier tests raise again and again, for one
    store = holding()
    gateway = await start_gateway(store, ack_deadline_s=0.2, max_batches=1, batch_rows=2)
    for number in range(1, 4):
        assert await gateway.statuses(*[traces(span(number))] * 3) == [503] * 3
    # Those of the insert that hangs; the handlers of the last answers may take a moment to end.
    await eventually(lambda: held() <= before + 2)
    store.released.set()
    await eventually(lambda: gateway.metric("late_items_total") == 2)
    await gateway.stop()
    assert store.tables().count("spans") == 1


async def test_a_request_that_never_got_an_insert_slot_is_not_stored_and_the_gateway_goes_on(
    start_gateway: StartGateway,
) -> None:
    store = holding()
    gateway = await start_gateway(store, ack_deadline_s=0.5, max_batches=1, linger_s=0.02)
    first = gateway.later(traces(span(1, name="first")))
    await eventually(lambda: len(store.held) == 1)  # its batch has taken the slot
    assert await gateway.statuses(traces(span(2, name="second"))) == [503]  # ripe, and without a slot
    assert await first == [503]
    store.released.set()
    await eventually(lambda: gateway.metric("late_items_total") == 1)
    assert await gateway.statuses(traces(span(3, name="third"))) == [200]
    await gateway.stop()
    stored = b"".join(insert.body for insert in store.into("spans"))
    assert [name in stored for name in (b"first", b"second", b"third")] == [True, False, True]


async def test_stopping_does_not_wait_for_an_insert_that_hangs(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.ingest.wiring.DRAIN_RETRY_QUEUE_S", 0.1)
    store = holding("trace_index")
    gateway = await start_gateway(store, ack_deadline_s=0.1)
    assert await gateway.statuses(traces(span())) == [200]
    await eventually(lambda: len(store.held) == 1)
    with capture_logs() as lines:
        await gateway.stop()
    assert {line["table"] for line in lines if line["event"] == "rows lost"} == {"trace_index"}
    assert store.tables() == ["spans", "attribute_keys", "ingest_outcomes"]


async def test_a_batch_that_is_partly_in_is_completed_in_the_background(start_gateway: StartGateway) -> None:
    store = RecordingStore(refuse=lambda insert: None if insert.token.endswith(f":spans:{TODAY - 1}") else AWAY)
    gateway = await start_gateway(store, ack_deadline_s=0.3)
    assert await gateway.statuses(traces(span(1), span(2, start_ns=YESTERDAY_NS))) == [503]
    store.refuse = lambda _insert: None
    await eventually(lambda: store.tables().count("ingest_outcomes") >= 1)
    assert sorted(days_of(store, "spans")) == [TODAY - 1, TODAY]


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
    good = traces(span(1), span(2, start_ns=YESTERDAY_NS))
    bad = traces(span(3, name="poison"), span(4, start_ns=YESTERDAY_NS))
    assert await gateway.statuses(good, bad) == [200, 500]
    await gateway.stop()
    found = await rows("SELECT reinterpretAsUInt64(reverse(span_id)) AS n, count() FROM spans GROUP BY n ORDER BY n")
    assert found == [(1, 1), (2, 1), (4, 1)]


async def test_the_stored_days_of_a_refused_request_are_to_be_found(start_gateway: StartGateway) -> None:
    store = RecordingStore(refuse=poisoned)
    gateway = await start_gateway(store)
    assert await gateway.statuses(traces(span(1, start_ns=YESTERDAY_NS), span(2, name="poison"))) == [500]
    await gateway.stop()
    stored = [(insert.table, insert.day) for insert in store.taken]
    assert stored == [*((table, TODAY - 1) for table in ("spans", *DERIVED[:2])), ("ingest_outcomes", TODAY)]
    assert gateway.metric("items_total", outcome="refused", reason="internal_error") == 2


async def test_an_unforeseen_fault_is_503_not_500(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(RecordingStore(refuse=lambda _insert: RuntimeError("a defect of ours")))
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
    broken = RuntimeError("a defect of ours")
    store = RecordingStore(refuse=lambda insert: broken if insert.table == "trace_index" else None)
    gateway = await start_gateway(store)
    with capture_logs() as lines:
        assert await gateway.statuses(traces(span())) == [200]
        await gateway.stop()
    assert store.tables() == ["spans", "attribute_keys", "ingest_outcomes"]
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["insert failed", "rows lost"]


async def test_a_body_of_unknown_length_is_charged_as_it_grows(start_gateway: StartGateway) -> None:
    async def growing(until: asyncio.Event) -> AsyncIterator[bytes]:
        for _ in range(12):
            yield bytes(50_000)
        await until.wait()

    released = asyncio.Event()
    gateway = await start_gateway(RecordingStore(), max_inflight_bytes=1_000_000)
    headers = {"Content-Type": PROTOBUF, **gateway.key()}
    held = asyncio.ensure_future(gateway.request("POST", "/v1/traces", data=growing(released), headers=headers))
    await eventually(lambda: gateway.metric("inflight_bytes") == 600_000)
    refused = await gateway.request("POST", "/v1/traces", data=growing(asyncio.Event()), headers=headers)
    assert (refused.status, refused.headers["Connection"]) == (503, "close")
    released.set()
    assert (await held).status == 400  # zeros are no request
    assert gateway.metric("inflight_bytes") == 0


async def test_too_much_in_flight_is_503_with_retry_after(start_gateway: StartGateway) -> None:
    store = holding()
    gateway = await start_gateway(store, max_inflight_items=3)
    held = gateway.later(traces(span(1), span(2)))
    await eventually(lambda: gateway.metric("inflight_items") == 2)
    assert gateway.metric("inflight_bytes") > 0
    refused = await gateway.post("/v1/traces", traces(span(3), span(4)))
    assert (refused.status, 1 <= int(refused.headers["Retry-After"]) <= 5) == (503, True)
    fits = gateway.later(traces(span(3)), project=1)
    await eventually(lambda: gateway.metric("inflight_items") == 3)
    store.released.set()
    assert [await held, await fits] == [[200], [200]]
    assert gateway.metric("inflight_items") == gateway.metric("inflight_bytes") == 0


async def test_a_noisy_project_has_half_of_what_may_be_in_flight_and_another_finds_room(
    start_gateway: StartGateway,
) -> None:
    store = holding()
    gateway = await start_gateway(store, max_inflight_items=120)
    noisy = [gateway.later(traces(*(span(10 * n + one) for one in range(1, 11)))) for n in range(30)]
    await eventually(lambda: sum(one.done() for one in noisy) == 24)
    assert gateway.metric("inflight_items") == 60
    quiet = [gateway.later(traces(*map(span, range(1, 11))), project=1) for _ in range(3)]
    await eventually(lambda: gateway.metric("inflight_items") == 90)
    store.released.set()
    assert sorted(await asyncio.gather(*noisy, *quiet)) == [[200]] * 9 + [[503]] * 24
    assert gateway.metric("inflight_items") == gateway.metric("inflight_bytes") == 0


async def test_a_lone_request_is_admitted_whatever_its_size(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(RecordingStore(), max_inflight_bytes=1, max_inflight_items=1)
    assert await gateway.statuses(traces(span(1), span(2))) == [200]


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
    monkeypatch.setattr("gateway.inserts.retries.MAX_FAILURES", 1)

    def is_uncertain(insert: Insert) -> bool:
        return b"uncertain" in insert.body and insert.table == "spans"

    store = RecordingStore(hold=is_uncertain, answer=lambda insert: AWAY if is_uncertain(insert) else None)
    gateway = await start_gateway(store, ack_deadline_s=0.5, linger_s=5.0, batch_rows=2)
    uncertain = gateway.later(*(traces(span(n, name="uncertain")) for n in (1, 2)))
    await eventually(lambda: len(store.held) == 1)
    assert await gateway.statuses(*(traces(span(n)) for n in (3, 4))) == [200, 200]
    store.released.set()
    assert await uncertain == [503, 503]
    await gateway.stop()
    assert len({insert.token for insert in store.into("spans")}) == 2


async def test_a_part_of_which_nothing_is_stored_is_not_stored_after_its_503(start_gateway: StartGateway) -> None:
    def refuse(insert: Insert) -> StoreRejected | StoreUnavailable | None:
        if insert.token.endswith(f":spans:{TODAY - 1}"):
            return None
        full = insert.token.endswith(f":spans:{TODAY}")
        return poisoned(insert) or (StoreUnavailable("Not enough space", 243) if full else None)

    store = RecordingStore(refuse=refuse)
    gateway = await start_gateway(store, ack_deadline_s=0.6, linger_s=5.0, batch_rows=3)
    first = gateway.later(traces(span(1, name="poison"), span(2, start_ns=YESTERDAY_NS)))
    await eventually(lambda: gateway.metric("inflight_items") == 2)
    second = gateway.later(traces(span(3)), project=1)
    assert [await first, await second] == [[500], [503]]
    store.refuse = lambda _insert: None
    await gateway.stop()
    assert days_of(store, "spans") == [TODAY - 1]
