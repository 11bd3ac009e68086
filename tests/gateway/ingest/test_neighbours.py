"""What one project sends, or an earlier process left, and how long others wait for it: counted in inserts."""

import asyncio
import gzip
import threading
from collections.abc import Callable, Iterator

import pytest

from chassis.clickhouse import ClickHouse
from gateway.inserts.pending_requests import DecodeResult, decode_large_entry
from gateway.journal import Entry
from proto.otlp import codec
from proto.otlp.policy import Policy
from tests.gateway.conftest import DEADLINE_S, Gateway, Insert, RecordingStore, Rows, eventually, holding
from tests.gateway.ingest.rig import AWAY, Start, acknowledged, all_stored
from tests.gateway.otlp import JSON, NOW_NS, span, traces
from tests.gateway.test_json import collected

GOOD, NOISY = 1, 0  # places in `Gateway.projects`
FIRST = 0x1122334455667701  # a number whose bytes are nowhere else in a block
OTHER = FIRST + 99
LARGE = 600  # spans
SPARES = 64  # as the kernel has it


@pytest.fixture(autouse=True)
def small_buffers() -> Iterator[None]:
    """The decoder keeps buffers for later, with the room that earlier tests gave them, and that counts as memory taken:
    as long as somebody has all that it keeps, a small request is a small one.
    """
    kept = [codec.decode("traces", traces(span(FIRST)), 1, Policy(), NOW_NS) for _ in range(SPARES)]
    yield
    kept.clear()


def has(number: int, insert: Insert) -> bool:
    """Whether the span of this number is in it."""
    return number.to_bytes(8) in insert.body


async def flood(gateway: Gateway, number: int, keys: int) -> None:
    """A request of distinct keys, answered 200."""
    noisy = span(number, more={f"flood.{number}.{key}": "v" for key in range(keys - 1)})
    assert await gateway.statuses(traces(noisy), project=NOISY) == [200]


async def test_who_has_nothing_left_behind_waits_for_no_backlog(
    start: Start, clickhouse: ClickHouse, rows: Rows
) -> None:
    """Memory is full of one project, which has more in the journal: the next batch has what others send."""
    gate = holding("spans", behind=clickhouse)
    gateway = await start(gate, max_batches=1, pending_bytes=200_000, batch_rows=3, journal_linger_s=0.01)
    for number in range(FIRST, FIRST + 40):
        await acknowledged(gateway, number, project=NOISY)
    await eventually(lambda: len(gate.held) == 1)
    await acknowledged(gateway, OTHER, project=GOOD)
    gate.released.set()
    await all_stored(gateway, 41)
    assert any(has(OTHER, insert) for insert in gate.into("spans")[:2])
    assert await rows("SELECT count(), uniq(span_id) FROM spans") == [(41, 41)]
    assert gateway.metric("pending_items") == 0


async def test_a_backlog_of_an_earlier_process_does_not_hold_up_what_comes_now(
    start: Start, crash: Callable[[str], str]
) -> None:
    first = await start(RecordingStore(away=AWAY), journal_linger_s=30.0)
    for number in range(FIRST, FIRST + 40):
        await acknowledged(first, number, project=NOISY)
    gate = holding("spans")
    second = await start(gate, crash("image"), max_batches=1, batch_rows=3, pending_bytes=200_000)
    await eventually(lambda: len(gate.held) == 1)
    await acknowledged(second, OTHER, project=GOOD)
    gate.released.set()
    await all_stored(second, 41)
    assert any(has(OTHER, insert) for insert in gate.into("spans")[:2])


async def test_requests_of_many_keys_take_the_slow_lane(start: Start) -> None:
    """Its insert is under way, others' are not behind it."""
    gate = holding("spans")
    gateway = await start(gate, max_batches=1, slow_after_symbols=100, slow_linger_s=0.0)
    await flood(gateway, FIRST, keys=120)
    await eventually(lambda: len(gate.held) == 1)
    await flood(gateway, FIRST + 1, keys=120)
    await acknowledged(gateway, OTHER, project=GOOD)
    await eventually(lambda: len(gate.held) == 2)
    assert has(OTHER, gate.held[1])
    gate.released.set()
    await all_stored(gateway, 3)


@pytest.mark.parametrize("mode", ["journal", "memory", "store"])
async def test_the_roll_up_names_so_many_keys(start: Start, clickhouse: ClickHouse, rows: Rows, mode: str) -> None:
    gateway = await start(clickhouse, durability=mode, keys_per_batch=5, keys_per_day=12, derived_linger_s=0.0)
    for number, named in ((1, 5), (2, 10), (3, 12), (4, 12)):
        await flood(gateway, number, keys=20)
        await counted(rows, 20 * number)
        assert await rows("SELECT uniq(key) FROM attribute_keys WHERE key != unhex('ff')") == [(named,)]
    assert await rows("SELECT count(), sum(length(mapKeys(attributes))) FROM spans") == [(4, 80)]


async def counted(rows: Rows, spans: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await rows("SELECT sum(spans) FROM attribute_keys HAVING sum(spans) >= {n:UInt64}", n=spans):
            await asyncio.sleep(0.02)


async def test_begun_batches_are_completed_several_at_once_newest_first(
    start: Start, crash: Callable[[str], str], clickhouse: ClickHouse, rows: Rows
) -> None:
    gate = holding("spans")
    first = await start(gate, max_batches=6)
    numbers = range(FIRST, FIRST + 6)
    for at, number in enumerate(numbers, 1):
        await acknowledged(first, number)
        await eventually(lambda at=at: len(gate.held) == at)  # type: ignore[misc]
    again = holding("spans", behind=clickhouse)
    second = await start(again, crash("image"), recovery_batches=3)
    await eventually(lambda: len(again.held) == 3)
    assert [number for number in numbers if any(has(number, insert) for insert in again.held)] == list(numbers[3:])
    assert second.metric("recovery_batches") == 6
    again.released.set()
    await all_stored(second, 6)
    await eventually(lambda: second.metric("recovery_batches") == 0)
    assert await rows("SELECT count(), uniq(span_id) FROM spans") == [(6, 6)]


async def test_large_json_is_decoded_again_one_at_a_time(
    start: Start, crash: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever: batches that were begun, and what is left in the journal. Small requests do not wait for it."""
    gate = holding("spans")
    first = await start(gate, max_batches=4)
    for begun in range(1, 4):
        await sent_large(first, begun)
        await eventually(lambda begun=begun: len(gate.held) == begun)  # type: ignore[misc]
    await acknowledged(first, OTHER)
    await eventually(lambda: len(gate.held) == 4)
    await sent_large(first, 4)
    decoding: list[int] = []
    at_once: list[int] = []
    go_on = threading.Event()

    def watched(entry: Entry) -> DecodeResult:
        decoding.append(entry.sequence)
        at_once.append(len(decoding))
        assert go_on.wait(DEADLINE_S)
        read = decode_large_entry(entry)
        decoding.remove(entry.sequence)
        return read

    monkeypatch.setattr("gateway.inserts.pending_requests.decode_large_entry", watched)
    second = await start(RecordingStore(), crash("image"), recovery_batches=4)
    await all_stored(second, 1)
    go_on.set()
    await all_stored(second, 4 * LARGE + 1)
    assert at_once == [1] * 4


async def sent_large(gateway: Gateway, number: int) -> None:
    """More than a megabyte of JSON that is little on the wire, answered 200."""
    body = gzip.compress(collected(number * LARGE, LARGE), 1)
    headers = {"Content-Type": JSON, "Content-Encoding": "gzip"}
    assert (await gateway.post("/v1/traces", body, headers)).status == 200
