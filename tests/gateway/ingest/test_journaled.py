"""What happens behind the answer of a request that is acknowledged before it is stored.

A crash is a copy of the journal's directory, taken while the gateway runs: what another process finds after this one
was killed.
"""

import asyncio
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from chassis.clickhouse import ClickHouse, StoreRejected, StoreUnavailable
from chassis.errors import ServiceUnavailable
from gateway.ingest.journaled import LaneBacklog
from gateway.ingest.lanes import Lane, LaneLimits
from gateway.inserts.pending_requests import DecodeResult, PendingRequest, decode_entries
from gateway.journal import Batch, Entry, Journal
from gateway.journal.format import PAGE
from gateway.journal.storage.files import Files
from proto.otlp.codec import decode
from proto.otlp.policy import Policy
from tests.gateway.conftest import Insert, RecordingStore, Rows, eventually, holding
from tests.gateway.ingest.rig import (
    AWAY,
    GONE,
    Losing,
    Start,
    acknowledged,
    acknowledged_and_stored,
    all_stored,
    damage_second,
    refusing,
    stored,
)
from tests.gateway.otlp import DAY_NS, JSON, NOW_NS, log, logs, span, traces, traces_json

PROJECT = str(Path(__file__).parents[3])


@pytest.mark.parametrize("mode", ["journal", "memory"])
async def test_what_is_acknowledged_becomes_rows(start: Start, clickhouse: ClickHouse, rows: Rows, mode: str) -> None:
    gateway = await start(clickhouse, durability=mode)
    await acknowledged(gateway, 1, 2, 3)
    assert (await gateway.post("/v1/logs", logs(log()))).status == 200
    assert (await gateway.post("/v1/traces", traces_json(span(4)), {"Content-Type": JSON})).status == 200
    await all_stored(gateway, 5)
    assert await rows("SELECT count(), uniq(span_id) FROM spans") == [(4, 4)]
    assert await rows("SELECT count() FROM logs") == [(1,)]
    assert gateway.metric("pending_items") == 0
    await gateway.stop()  # without a journal derived rows follow those of which they are derived
    assert await rows("SELECT sum(items) FROM ingest_outcomes WHERE outcome = 'accepted'") == [(5,)]


async def test_an_outage_is_nobody_s_loss_and_what_memory_has_no_room_for_is_read_again(
    start: Start, clickhouse: ClickHouse, rows: Rows
) -> None:
    store = RecordingStore(clickhouse, away=AWAY)
    gateway = await start(store, pending_bytes=1)
    for number in range(1, 13):
        await acknowledged(gateway, number)
    assert (stored(gateway), gateway.metric("pending_items")) == (0, 12)
    store.away = None
    await all_stored(gateway, 12)
    await acknowledged(gateway, 13, 14)
    await all_stored(gateway, 14)
    assert await rows("SELECT count(), uniq(span_id) FROM spans") == [(14, 14)]
    assert gateway.metric("pending_items") == gateway.metric("redecoded_differences_total") == 0


async def test_what_comes_while_the_journal_is_read_on_is_stored(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """While its thread reads, requests queue up for it; what they are written as, between two steps of the reader, ends
    one block and begins the next.
    """
    read = Files.read

    def slowly(files: Files, fd: int, size: int, offset: int) -> bytes:
        time.sleep(0.005)
        return read(files, fd, size, offset)

    monkeypatch.setattr(Files, "read", slowly)
    monkeypatch.setattr("gateway.journal.storage.segments.BLOCK_BYTES", PAGE + PAGE // 8)
    gateway = await start(RecordingStore(), pending_bytes=1)

    async def send(first: int) -> None:
        for number in range(first, 161, 8):
            await acknowledged(gateway, number)

    await asyncio.gather(*map(send, range(1, 9)))
    await all_stored(gateway, 160)
    assert gateway.metric("overlooked_requests_total") == 0


@pytest.mark.parametrize("days_ago", [0, 9], ids=["fresh", "slow"])
async def test_what_a_lane_has_forgotten_is_noticed_and_stored(
    start: Start, monkeypatch: pytest.MonkeyPatch, days_ago: int
) -> None:
    put = LaneBacklog.put

    def forget(belt: LaneBacklog, sequence: int, *rest: Any) -> None:
        if sequence != 2:
            put(belt, sequence, *rest)

    monkeypatch.setattr(LaneBacklog, "put", forget)
    monkeypatch.setattr("gateway.ingest.journaled.CHECK_INTERVAL_S", 0.02)
    gateway = await start(RecordingStore(), slow_linger_s=0.0)
    for number in (1, 2, 3):
        await acknowledged(gateway, number, start_ns=NOW_NS - days_ago * DAY_NS)
    await all_stored(gateway, 3)
    assert gateway.metric("overlooked_requests_total") == 1


@pytest.mark.parametrize("finished", [False, True], ids=["before_the_answer", "after_it"])
async def test_a_batch_is_made_again_after_a_crash(
    start: Start, crash: Callable[[str], str], clickhouse: ClickHouse, rows: Rows, *, finished: bool
) -> None:
    """Its blocks and tokens are the same, so that what was stored is not stored twice."""
    gate = holding("attribute_keys", behind=clickhouse)
    first = await start(gate, journal_linger_s=0.2)
    await acknowledged(first, 1, 2, 3)
    await eventually(lambda: bool(gate.held))
    image = crash("image")
    if finished:
        gate.released.set()
        await all_stored(first, 3)
    again = RecordingStore(clickhouse)
    second = await start(again, image)
    await all_stored(second, 3)
    assert second.metric("recovered_items_total") == 3
    assert not again.into("spans"), "they are counted, and there"
    before = {insert.token: insert.body for insert in gate.asked if insert.table not in ("spans", *GONE)}
    assert {insert.token: insert.body for insert in again.taken}.items() >= before.items()
    gate.released.set()
    await all_stored(first, 3)
    assert await rows("SELECT count(), uniq(span_id) FROM spans") == [(3, 3)]
    assert await rows("SELECT sum(items) FROM ingest_outcomes") == [(3,)]
    assert await rows("SELECT max(spans) FROM (SELECT sum(spans) AS spans FROM attribute_keys GROUP BY key)") == [(3,)]


async def test_limits_of_today_refuse_nothing_of_yesterday(start: Start, crash: Callable[[str], str]) -> None:
    """Requests of no batch are stored by the next process, whatever it would take."""
    first = await start(RecordingStore(away=AWAY), journal_linger_s=30.0)
    body = traces(*(span(n, start_ns=NOW_NS - 20 * DAY_NS) for n in range(1, 11)))
    assert await first.statuses(body, body) == [200, 200]
    second = await start(RecordingStore(), crash("image"), max_items=2, max_parts=8, max_body_bytes=1_000)
    await acknowledged(second, 4)
    await all_stored(second, 21)
    assert (second.metric("recovered_items_total"), second.metric("redecoded_differences_total")) == (20, 0)


async def test_a_permanently_refused_request_is_quarantined_alone(start: Start, tmp_path: Path) -> None:
    """The offending request is found among those that share its block; all others are stored."""
    gateway = await start(refusing("poison", StoreRejected("poison")), journal_linger_s=0.3)
    bodies = [traces(span(n, name="poison" if n == 4 else "work")) for n in range(1, 8)]
    sent = [gateway.post("/v1/traces", body, project=n % 2) for n, body in enumerate(bodies)]
    assert {answer.status for answer in await asyncio.gather(*sent)} == {200}
    await all_stored(gateway, 6)
    assert (gateway.metric("quarantined_items_total"), gateway.metric("pending_items")) == (1, 0)
    assert len(list((tmp_path / "journal" / "quarantine").glob("*.json"))) == 1


async def test_in_mode_memory_what_is_refused_for_good_is_lost_and_said_so(start: Start) -> None:
    gateway = await start(refusing("", StoreRejected("no")), durability="memory")
    await acknowledged(gateway, 1)
    await eventually(lambda: gateway.metric("lost_items_total") == 1)
    assert gateway.metric("pending_items") == 0


async def test_mode_memory_refuses_what_it_has_no_room_for(start: Start) -> None:
    gateway = await start(RecordingStore(away=AWAY), durability="memory", pending_bytes=1)
    await acknowledged(gateway, 1)
    assert await gateway.statuses(traces(span(2))) == [503]


async def test_old_items_do_not_hold_up_new_ones(start: Start) -> None:
    """Not even when the memory for them is full and the rest is in the journal alone."""
    store = RecordingStore(hold=lambda insert: insert.day < NOW_NS // DAY_NS - 2)
    gateway = await start(store, slow_linger_s=0.0, max_slow_bytes=1)
    await acknowledged(gateway, *range(1, 11), start_ns=NOW_NS - 9 * DAY_NS)
    await acknowledged(gateway, 11, 12)
    await all_stored(gateway, 2)
    store.released.set()
    await all_stored(gateway, 12)


async def test_missing_rows_are_reinserted_once_under_a_new_token(start: Start, crash: Callable[[str], str]) -> None:
    """Though there are two reasons to look: the start after a crash, and that ClickHouse is back; and though one block
    is refused.
    """
    store = Losing()
    first = await start(store)
    await acknowledged_and_stored(first, 1, 2, 3, 4, 5, 6)
    await acknowledged_and_stored(first, 7)  # its sync brings the end of the batches before it to disk
    image = crash("image")
    await first.stop()
    tokens = [insert.token for insert in store.into("spans")]
    store.lose()
    store.away = AWAY
    store.refuse = lambda insert: StoreRejected("no") if insert.token.startswith(f"{tokens[0]}:") else None
    second = await start(store, image)
    await acknowledged(second, 8)
    await eventually(lambda: second.metric("store_up") == 0)
    store.away = None
    await eventually(lambda: {*store.anew()} >= {*tokens[1:6]})
    await acknowledged(second, 9)
    await eventually(lambda: second.metric("pending_items") == 0)
    assert len(store.anew()) == len(set(store.anew()))


async def test_a_restarted_clickhouse_is_checked(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inserts.store_state.RESTART_CHECK_S", 0.02)
    store = Losing()
    gateway = await start(store)
    await acknowledged_and_stored(gateway, 1)
    store.lose()

    def is_reinserted() -> bool:
        store.started += 60  # again and again: at the first look the batch may not be finished
        return bool(store.anew())

    await eventually(is_reinserted)


async def test_what_is_there_is_left_alone_after_a_crash(
    start: Start, crash: Callable[[str], str], clickhouse: ClickHouse
) -> None:
    first = await start(clickhouse)
    await acknowledged_and_stored(first, 1, 2, 3)
    store = RecordingStore(clickhouse)
    second = await start(store, crash("image"))
    await acknowledged(second, 5)
    await eventually(lambda: stored(second) >= 1)
    assert all(insert.token.count(":") == 2 for insert in store.taken)


@pytest.mark.parametrize(
    "options",
    [{"journal_hold_s": 60.0}, {"journal_hold_s": 0.0}, *({"durability": mode} for mode in ("store", "memory"))],
    ids=str,
)
async def test_journals_without_a_process_are_adopted(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """More than one at once, though what they held is kept for a while after it is stored. Those of the mode `journal`
    are stored by a gateway in another mode as well.
    """
    monkeypatch.setattr("gateway.ingest.wiring.SCAN_INTERVAL_S", 0.05)
    monkeypatch.setattr("gateway.ingest.wiring.POLL_INTERVAL_S", 0.02)
    first = await start(RecordingStore(away=AWAY), "elsewhere")
    await acknowledged(first, 1, 2)
    await first.stop()
    second = await start(RecordingStore(), **{"journal_hold_s": 0.0, **options})
    places = [tmp_path / "journal" / number for number in ("5", "6", "7", "8")]
    for place in places:
        shutil.copytree(tmp_path / "elsewhere" / "0", place)
    await all_stored(second, 8)
    assert second.metric("recovered_items_total") == 8
    await acknowledged_and_stored(second, 9)
    if options.get("journal_hold_s"):
        assert all(place.exists() for place in places)
    else:
        await eventually(lambda: not any(place.exists() for place in places))


async def test_projects_that_fill_the_journal_are_refused_until_it_is_stored(start: Start) -> None:
    store = RecordingStore(away=AWAY)
    gateway = await start(store, journal_max_bytes=1_000_000, journal_segment_bytes=64 * 2**10, pending_bytes=1)
    body = traces(span(1, name="x" * 100_000))
    answers = [status for n in range(30) for status in await gateway.statuses(body, project=n % 2)]
    assert answers == sorted(answers)
    assert set(answers) == {200, 503}
    store.away = None
    await eventually(lambda: gateway.metric("pending_items") == 0)
    await eventually(lambda: gateway.metric("journal_room_bytes") > 500_000)
    await acknowledged(gateway, 2)


async def test_without_room_on_the_disk_it_refuses_and_is_not_ready(start: Start) -> None:
    gateway = await start(RecordingStore(), journal_min_free_bytes=2**60)
    refused = await gateway.post("/v1/traces", traces(span(1)))
    assert (refused.status, b"disk" in refused.body) == (503, True)
    assert 1 <= int(refused.headers["Retry-After"]) <= 5
    ready = await gateway.request("GET", "/readyz")
    assert ready.status == 503
    away = [(probe["name"], probe["error"]) for probe in ready.json["dependencies"] if not probe["ok"]]
    assert away == [("journal", "has less free space than a segment needs")]


async def test_what_is_left_is_decoded_little_by_little(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it takes in memory, whatever it took on the wire."""
    sizes: list[list[int]] = []

    def watched(entries: Sequence[Entry], most_bytes: float) -> DecodeResult:
        read = decode_entries(entries, most_bytes)
        sizes.append([request.decoded.nbytes for request in read.good])
        return read

    monkeypatch.setattr("gateway.inserts.pending_requests.decode_entries", watched)
    monkeypatch.setattr("gateway.ingest.journaled.DECODED_BYTES", 40_000)
    store = RecordingStore(away=AWAY)
    gateway = await start(store, pending_bytes=100_000)
    for number in range(1, 61):
        await acknowledged(gateway, number, name="x" * 4_000)
    store.away = None
    await all_stored(gateway, 60)
    assert any(len(few) > 1 for few in sizes)
    assert all(sum(few[:-1]) < 40_000 for few in sizes)


async def test_a_quarantine_that_fails_is_retried(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inserts.retries.RECORD_TRIES", 1)
    set_aside, failures = Journal.quarantine, [1, 2, 3, 4, 5]

    async def failing(journal: Journal, batch: Batch, reason: str) -> int:
        if failures:
            failures.pop()
            raise ServiceUnavailable("no room")
        return await set_aside(journal, batch, reason)

    monkeypatch.setattr(Journal, "quarantine", failing)
    gateway = await start(refusing("poison", StoreRejected("poison")))
    await acknowledged(gateway, 1, name="poison")
    await acknowledged(gateway, 2)
    await eventually(lambda: gateway.metric("quarantined_items_total") == 1)
    await eventually(lambda: gateway.metric("pending_items") == 0)


async def test_a_block_that_is_too_large_for_clickhouse_is_made_smaller(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.inserts.retries.MAX_FAILURES", 2)
    too_large = StoreUnavailable("memory limit exceeded", 241)
    store = RecordingStore(
        refuse=lambda insert: too_large if insert.table == "spans" and len(insert.body) > 3_000 else None
    )
    gateway = await start(store, journal_linger_s=0.3)
    await acknowledged(gateway, *range(1, 17), name="x" * 500)
    await all_stored(gateway, 16)
    assert gateway.metric("quarantined_items_total") == 0


async def test_a_lane_that_is_closed_begins_nothing() -> None:
    began: list[int] = []

    async def write(batch: list[PendingRequest]) -> None:
        began.append(len(batch))
        await asyncio.Event().wait()

    lane = Lane(write, LaneLimits(items=1, nbytes=10**6, days=10, linger_s=0.0, slots=1))
    decoded = decode("traces", traces(span(1)), 1, Policy(), NOW_NS)
    for sequence in range(1, 4):
        lane.add(PendingRequest(sequence, decoded, 1, 100, NOW_NS))
    await asyncio.sleep(0)
    await lane.close()
    assert began == [1]


async def test_damaged_requests_are_reported_and_not_waited_for(
    start: Start, crash: Callable[[str], str], tmp_path: Path
) -> None:
    first = await start(RecordingStore(away=AWAY), journal_linger_s=30.0)
    for number in range(1, 4):
        await acknowledged(first, number)
    damage_second(tmp_path / crash("image"))
    second = await start(RecordingStore(), "image")
    await all_stored(second, 2)
    await eventually(lambda: second.metric("lost_items_total", reason="damaged") == 1)
    assert second.metric("recovered_items_total") == 3
    assert second.metric("pending_items") == 0


@pytest.mark.parametrize("mode", ["journal", "memory", "store"])
async def test_from_a_batch_to_the_client_it_is_eight_calls_at_most(start: Start, mode: str) -> None:
    """Whoever looks for a fault in this path reads all of it."""

    seen: list[list[str]] = []

    def watch(_insert: Insert) -> None:
        frame, calls = sys._getframe(1), list[str]()
        while frame.f_back is not None and frame.f_code.co_filename.startswith(PROJECT):
            calls.insert(0, frame.f_code.co_name)
            frame = frame.f_back
        seen.append(calls)

    gateway = await start(RecordingStore(refuse=watch), durability=mode)
    await acknowledged(gateway, 1)
    await gateway.all_stored()
    assert tuple(seen[0]) == (
        *("write", "store", "_store", "_insert"),  # BatchWriter
        *("insert", "_insert_until_done"),  # RetryingInserter
        *("insert", "insert"),  # Inserter, client
    )
