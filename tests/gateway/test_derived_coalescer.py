"""Derived rows of several batches: one insert, one part, one token, and nothing lost that could be kept."""

import asyncio

import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from chassis.clickhouse import ClickHouse, StoreBusy, StoreRejected, StoreUnavailable
from gateway.inserts import derived
from gateway.inserts.blocks import InsertBlock, Inserter, merge_blocks
from gateway.inserts.derived import BlockRetryQueue
from gateway.inserts.store_state import InsertBreaker
from gateway.metrics import Metrics
from proto.otlp.policy import Block
from tests.gateway.conftest import DEADLINE_S, Insert, RecordingStore, Rows, StartGateway, eventually, holding
from tests.gateway.otlp import DAY_NS, NOW_NS, span, traces

DURABILITY = "store"  # requests are answered when they are stored
GATHERED = ("attribute_keys", "error_occurrences", "ingest_outcomes")


def failing(number: int) -> bytes:
    """An export with one span that has an exception."""
    return traces(span(number, exception=("KeyError", f"key {number}", "")))


async def test_several_batches_share_an_insert_of_their_derived_rows(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    store = RecordingStore(behind=clickhouse)
    gateway = await start_gateway(store, derived_linger_s=60.0)
    for number in range(1, 6):
        assert await gateway.statuses(failing(number)) == [200]
    assert store.tables().count("spans") == 5
    await gateway.stop()
    for table in GATHERED:
        assert store.tables().count(table) <= 2  # the first one goes at once
    assert await rows("SELECT count(), uniqExact(batch_id) FROM error_occurrences") == [(5, 5)]
    assert await rows("SELECT sum(items), uniqExact(batch_id) FROM ingest_outcomes") == [(5, 5)]
    assert await rows("SELECT sum(spans) FROM attribute_keys WHERE key = 'http.route'") == [(5,)]
    assert len({insert.token for insert in store.taken}) == len(store.taken)


async def test_the_trace_index_of_many_days_follows_the_answer(start_gateway: StartGateway) -> None:
    store = holding("trace_index")
    gateway = await start_gateway(store, max_batches=1, slow_linger_s=0.0)
    days = [NOW_NS - ago * DAY_NS for ago in range(10, 15)]
    for number in (1, 6):  # the second finds the slot free again
        body = traces(*(span(number + n, start_ns=start) for n, start in enumerate(days)))
        assert await gateway.statuses(body) == [200]
    store.released.set()
    await gateway.stop()
    index = store.into("trace_index")
    assert sum(insert.body.count(b"trace_id") for insert in index) == 10  # the column of each block


async def test_an_ambiguous_insert_of_several_batches_is_stored_once(
    clickhouse: ClickHouse, rows: Rows, start_gateway: StartGateway
) -> None:
    lost: list[str] = []

    def lose_once(insert: Insert) -> StoreUnavailable | None:
        if insert.table not in GATHERED or insert.token in lost:
            return None
        lost.append(insert.token)
        return StoreUnavailable("connection reset")

    store = RecordingStore(behind=clickhouse, answer=lose_once)
    gateway = await start_gateway(store, derived_linger_s=60.0)
    for number in range(1, 6):
        await eventually(lambda: gateway.metric("store_up") == 1)
        assert await gateway.statuses(failing(number)) == [200]
    await gateway.stop()
    assert lost
    assert await rows("SELECT count() FROM error_occurrences") == [(5,)]
    assert await rows("SELECT sum(items) FROM ingest_outcomes WHERE outcome = 'accepted'") == [(5,)]
    assert await rows("SELECT sum(spans) FROM attribute_keys WHERE key = 'http.route'") == [(5,)]


async def test_what_is_refused_for_good_is_lost_alone(start_gateway: StartGateway) -> None:
    def refuse(insert: Insert) -> StoreRejected | None:
        poisoned = insert.table == "error_occurrences" and b"key 3" in insert.body
        return StoreRejected("Incorrect data", 117) if poisoned else None

    store = RecordingStore(refuse=refuse)
    gateway = await start_gateway(store, derived_linger_s=60.0)
    with capture_logs() as lines:
        for number in range(1, 6):
            await gateway.post("/v1/traces", failing(number))
        await gateway.stop()
    errors = b"".join(insert.body for insert in store.into("error_occurrences"))
    assert [number for number in range(1, 6) if b"key %d" % number in errors] == [1, 2, 4, 5]
    assert gateway.metric("lost_rows_total", table="error_occurrences") == 1
    assert [line["rows"] for line in lines if line["event"] == "rows lost"] == [1]


async def test_batches_wait_while_derived_rows_pile_up(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived, "MAX_COALESCED_BYTES", 1)
    store = holding(*GATHERED)
    gateway = await start_gateway(store, max_batches=1, ack_deadline_s=0.3)
    assert await gateway.statuses(failing(1)) == [200]
    assert await gateway.statuses(failing(2)) == [503]  # the slot is held until there is room
    store.released.set()
    await eventually(lambda: store.tables().count("ingest_outcomes") >= 1)
    assert await gateway.statuses(failing(3)) == [200]
    await gateway.stop()
    assert gateway.metric("lost_rows_total") == 0


class Queue:
    """A queue of blocks over a store that fails as it is told, and what it lost."""

    def __init__(self, store: RecordingStore, max_bytes: int) -> None:
        self._registry = CollectorRegistry()
        metrics = Metrics(self._registry)
        log = structlog.get_logger("test")
        self._breaker = InsertBreaker(store, metrics, log, probe_s=0.01)
        self.background = BlockRetryQueue(
            Inserter(store, self._breaker, metrics), self._breaker, metrics, log, max_bytes
        )
        self.background.start()

    @property
    def lost(self) -> float:
        return self._registry.get_sample_value("sluice_gateway_lost_rows_total", {"table": "error_occurrences"}) or 0.0

    async def close(self, timeout_s: float = DEADLINE_S) -> None:
        await self.background.close(timeout_s)
        await self._breaker.close()


def several() -> InsertBlock:
    """Four blocks of 100 bytes and a row each, as one insert."""
    return merge_blocks([InsertBlock(n, Block("error_occurrences", 20_000, 1, [b"%d" % n * 100])) for n in range(1, 5)])


def blocks_in(store: RecordingStore) -> list[str]:
    """The blocks in each insert that was taken."""
    return [insert.body[::100].decode() for insert in store.taken]


def refusing_joined(insert: Insert) -> StoreRejected | None:
    return StoreRejected("Incorrect data", 117) if len(insert.body) > 100 else None


async def test_of_what_does_not_fit_the_queue_the_rest_is_lost_alone() -> None:
    store = RecordingStore()
    queue = Queue(store, max_bytes=250)
    with capture_logs() as lines:
        queue.background.add(several())
    await queue.close()
    assert blocks_in(store) == ["1", "2"]
    assert [line["rows"] for line in lines] == [queue.lost] == [2]


async def test_blocks_take_the_room_of_the_insert_that_they_were_in() -> None:
    store = RecordingStore(failures=[StoreBusy("busy")], refuse=refusing_joined)
    queue = Queue(store, max_bytes=400)
    await queue.background.insert([several()])
    await queue.close()
    assert [len(insert.body) for insert in store.asked[:2]] == [400, 400]
    assert (blocks_in(store), queue.lost) == (["1", "2", "3", "4"], 0)


async def test_an_insert_of_several_has_a_token_of_its_own() -> None:
    one, other = several(), several()
    assert one.token == other.token
    assert one.token not in {part.token for part in one.parts}
    assert one.without_parts().token == one.token
    assert merge_blocks(one.parts[:3]).token != one.token


async def test_an_insert_that_may_be_stored_is_not_taken_apart() -> None:
    """Refused later, or too large for the queue: its blocks would be stored a second time."""

    def refused_from_now_on(_insert: Insert) -> StoreUnavailable:
        store.refuse = refusing_joined
        return StoreUnavailable("connection reset")

    for max_bytes in (1_000, 399):
        store = RecordingStore(answer=refused_from_now_on)
        queue = Queue(store, max_bytes)
        await queue.background.insert([several()])
        await queue.close()
        assert (blocks_in(store), queue.lost) == (["1234"], 4)


async def test_an_insert_that_nobody_waited_for_is_not_taken_apart() -> None:
    store = holding()
    queue = Queue(store, max_bytes=250)
    inserting = asyncio.ensure_future(queue.background.insert([several(), several()]))
    await eventually(lambda: len(store.held) == 1)
    inserting.cancel()
    await asyncio.gather(inserting, return_exceptions=True)
    assert queue.lost == 4 + 2  # the second was not sent yet
    await queue.close(0.0)
