"""What is not certain: inserts of which nobody knows what became, rows that go while others come, and errors that are
about no request."""

import asyncio
import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from prometheus_client import CollectorRegistry

from chassis.clickhouse import QueryLimits, StoreError, StoreRejected, StoreUnavailable
from gateway.ingest.batch_writer import BatchWriter
from gateway.ingest.journal_reader import JournalReader
from gateway.ingest.pending_requests import DecodeResult, decode_entries
from gateway.ingest.recovery import Recovery
from gateway.inserts.derived_coalescer import DerivedCoalescer
from gateway.inserts.derived_retry_queue import BlockRetryQueue
from gateway.inserts.insert_block import Inserter
from gateway.inserts.insert_breaker import InsertBreaker
from gateway.inserts.insert_context import InsertContext
from gateway.inserts.item_accounting import ItemAccounting
from gateway.inserts.stored_block_checker import StoredBlockChecker
from gateway.journal import Batch, Entry, Journal, NullJournal, RecoveredState
from gateway.metrics import Metrics
from proto.otlp.codec import new_named_keys
from tests.gateway.conftest import Gateway, RecordingStore, eventually
from tests.gateway.ingest.rig import AWAY, Gate, Losing, Start, acknowledged, stored
from tests.gateway.otlp import DAY_NS, NOW_NS, span, traces

TIMEOUT = StoreUnavailable("timed out")  # it may have been applied
DAY = NOW_NS // DAY_NS


@dataclass
class Engine(RecordingStore):
    """Keeps rows, and each token once. `fate` says what becomes of an insert of spans: an error, and whether its rows
    are kept all the same."""

    fate: Callable[[str, bytes], tuple[Exception | None, bool]] = lambda _token, _body: (None, True)
    rows: dict[str, bytes] = field(default_factory=dict)  # of spans, by token

    async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
        if table == "spans":
            body = b"".join(pieces)
            error, kept = self.fate(token, body)
            if kept:
                self.rows.setdefault(token, body)
            if error is not None:
                raise error
        await super().insert(table, columns, pieces, token=token)

    async def query(
        self,
        sql: str,
        parameters: Mapping[str, object],
        *,
        limits: QueryLimits,  # noqa: ARG002
    ) -> list[tuple[object, ...]]:
        asked = parameters.get("ids", [])
        assert isinstance(asked, list)
        tokens = self.rows if "spans" in sql else [insert.token for insert in self.taken]
        there = {token.split(":")[0] for token in tokens}
        return [(batch,) for batch in asked if str(batch) in there]

    def names(self) -> Counter[str]:
        """How often each span is there, by its name."""
        return Counter(name.decode() for body in self.rows.values() for name in re.findall(rb"<([a-z0-9-]+)>", body))


@pytest.fixture(autouse=True)
def soon_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """ClickHouse is tried again soon, also where it refuses one table again and again."""
    monkeypatch.setattr("gateway.inserts.insert_breaker.FIRST_PROBE_S", 0.01)
    monkeypatch.setattr("gateway.inserts.insert_breaker.MAX_PAUSE_S", 0.01)
    monkeypatch.setattr("gateway.inserts.insert_retry.MAX_FAILURES", 2)


async def sent(gateway: Gateway, *names: str) -> None:
    """Exports of a span each, at once, all answered 200."""
    spans = [span(number, name=f"<{name}>") for number, name in enumerate(names, 1)]
    answers = await asyncio.gather(*(gateway.post("/v1/traces", traces(one)) for one in spans))
    assert {answer.status for answer in answers} == {200}


async def test_a_block_of_which_nobody_knows_whether_it_is_in_is_not_taken_apart(start: Start) -> None:
    """It times out while others get in, and in the end all of it comes."""
    hanging: dict[str, bytes] = {}

    def fate(token: str, body: bytes) -> tuple[Exception | None, bool]:
        if b"<slow-1>" in body and token not in engine.rows:
            hanging[token] = body
            return TIMEOUT, False
        return None, True

    engine = Engine(fate=fate)
    gateway = await start(engine, journal_linger_s=0.1)
    await sent(gateway, "slow-1", "slow-2")
    await eventually(lambda: bool(hanging))
    for number in range(12):
        await sent(gateway, f"quick-{number}")
        await eventually(lambda: engine.names()[f"quick-{number}"] == 1)  # noqa: B023 (looked at in this turn)
    engine.rows |= hanging
    await eventually(lambda: gateway.metric("pending_items") == 0)
    assert len(hanging) == 1
    assert set(engine.names().values()) == {1}


async def test_it_is_once_it_is_certain_that_nothing_of_it_comes(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inserts.insert_retry.UNKNOWN_OUTCOME_S", 0.3)
    refused: list[str] = []

    def fate(token: str, body: bytes) -> tuple[Exception | None, bool]:
        if b"<a>" in body and b"<b>" in body:
            refused.append(token)
            return TIMEOUT, False
        return None, True

    engine = Engine(fate=fate)
    gateway = await start(engine, journal_linger_s=0.2)
    await sent(gateway, "a", "b", "c")
    await eventually(lambda: bool(refused))
    for number in itertools.count():
        await sent(gateway, f"quick-{number}")
        await eventually(lambda: engine.names()[f"quick-{number}"] == 1)  # noqa: B023
        if engine.names()["a"]:
            break
    await eventually(lambda: gateway.metric("pending_items") == 0)
    assert {"a", "b", "c"} <= set(engine.names())
    assert set(engine.names().values()) == {1}
    assert gateway.metric("quarantined_items_total") == 0


async def test_too_few_live_replicas_mean_that_nothing_of_it_is_in(start: Start) -> None:
    """So it is taken apart without a wait for what may yet come of it."""
    refused: list[str] = []

    def fate(token: str, body: bytes) -> tuple[Exception | None, bool]:
        if b"<a>" in body and b"<b>" in body:
            refused.append(token)
            return StoreUnavailable("Number of alive replicas (1) is less than requested quorum (2)", 285), False
        return None, True

    engine = Engine(fate=fate)
    gateway = await start(engine, journal_linger_s=0.2)
    await sent(gateway, "a", "b", "c")
    await eventually(lambda: bool(refused))
    for number in range(100):
        await sent(gateway, f"quick-{number}")
        await eventually(lambda: engine.names()[f"quick-{number}"] == 1)  # noqa: B023
        if engine.names()["a"]:
            break
    await eventually(lambda: gateway.metric("pending_items") == 0)
    assert {"a", "b", "c"} <= set(engine.names())
    assert set(engine.names().values()) == {1}
    assert gateway.metric("quarantined_items_total") == 0


async def test_a_refused_block_that_may_have_been_taken_before_is_looked_for(start: Start) -> None:
    answers: list[Exception] = [TIMEOUT, StoreRejected("no")]

    def fate(_token: str, _body: bytes) -> tuple[Exception | None, bool]:
        return (answers.pop(0), True) if answers else (None, True)

    engine = Engine(fate=fate)
    gateway = await start(engine)
    await sent(gateway, "a")
    await eventually(lambda: stored(gateway) == 1)
    assert (engine.names(), gateway.metric("quarantined_items_total")) == ({"a": 1}, 0)


class LosingMeanwhile(Losing, Gate):
    """Loses rows while derived ones of the same batch are held; `started` is when it says that it began."""

    def __init__(self) -> None:
        super().__init__()
        self._table = "trace_index"
        self.open = asyncio.Event()
        self.started = 1_000

    async def query(
        self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits
    ) -> list[tuple[object, ...]]:
        if "uptime" in sql:
            return [("one", self.started)]
        return await super().query(sql, parameters, limits=limits)


async def test_rows_that_vanish_before_their_batch_is_complete_are_reinserted(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.inserts.restart_detector.INTERVAL_S", 0.02)
    store = LosingMeanwhile()
    gateway = await start(store)
    await acknowledged(gateway, 1)
    await eventually(lambda: any(insert.table == "trace_index" for insert in store.asked))
    store.lose()
    lost = next(insert.token for insert in store.taken if insert.table == "spans")
    store.started += 60
    checks = itertools.count()
    await eventually(lambda: next(checks) > 20)  # looked at, with nothing finished yet
    store.open.set()
    await eventually(lambda: stored(gateway) == 1)
    assert f"{lost}:1" in store.anew()


async def test_what_is_about_no_request_is_done_again_from_the_journal(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the same token: it may have been stored."""
    faults: list[Exception] = [RuntimeError("can't start new thread"), MemoryError()]
    tokens: list[str] = []
    read: list[int] = []
    members = Journal.read_batch

    def fate(token: str, _body: bytes) -> tuple[Exception | None, bool]:
        tokens.append(token)
        return (faults.pop(0) if faults else None), True

    async def watched(journal: Journal, batch: Batch) -> list[Entry]:
        read.append(batch.batch_id)
        return await members(journal, batch)

    monkeypatch.setattr(Journal, "read_batch", watched)
    engine = Engine(fate=fate)
    gateway = await start(engine, journal_linger_s=0.2)
    await sent(gateway, "a", "b", "c")
    await eventually(lambda: stored(gateway) == 3)
    assert read
    assert len(set(tokens)) == 1
    assert set(engine.names().values()) == {1}
    assert (gateway.metric("pending_items"), gateway.metric("quarantined_items_total")) == (0, 0)


async def test_in_mode_memory_what_cannot_be_stored_now_takes_its_room(start: Start) -> None:
    """So that requests are refused before memory is full of it."""
    faults = [RuntimeError("can't start new thread")] * 100
    engine = Engine(fate=lambda *_: (faults.pop(), False) if faults else (None, True))
    gateway = await start(engine, durability="memory", pending_bytes=1)
    await acknowledged(gateway, 1)
    await eventually(lambda: len(faults) < 99)  # put off once at least
    assert (await gateway.post("/v1/traces", traces(span(2)))).status == 503
    faults.clear()
    await eventually(lambda: stored(gateway) == 1)


async def test_a_batch_whose_boundaries_cannot_be_recorded_is_stored(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def begin(_journal: Journal, _batch: Batch) -> None:
        raise MemoryError

    monkeypatch.setattr(Journal, "begin", begin)
    gateway = await start(RecordingStore())
    await acknowledged(gateway, 1, 2)
    await eventually(lambda: stored(gateway) == 2)
    assert gateway.metric("pending_items") == 0


async def test_what_is_stored_and_cannot_be_recorded_is_read_again_once(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def begin(_journal: Journal, _batch: Batch) -> None:
        raise MemoryError

    monkeypatch.setattr(Journal, "begin", begin)
    monkeypatch.setattr("gateway.ingest.batch_writer.RECORD_TRIES", 0)
    monkeypatch.setattr("gateway.ingest.backlog.CHECK_INTERVAL_S", 0.01)
    gateway = await start(RecordingStore())
    for number in (1, 2, 3, 4):
        await acknowledged(gateway, number)
        await eventually(lambda number=number: stored(gateway) == 2 * number)  # type: ignore[misc]
    assert gateway.metric("overlooked_requests_total") == 4


async def test_want_of_memory_is_no_request_s_fault(
    start: Start, crash: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is damaged when it is read for the second time is recovered once, and lost."""
    first = await start(RecordingStore(away=AWAY), journal_linger_s=30.0)
    for number in range(1, 4):
        await acknowledged(first, number)
    (segment,) = (tmp_path / crash("image") / "0").glob("*.segment")
    faults = [MemoryError()]

    def failing(entries: Sequence[Entry], most_bytes: float) -> DecodeResult:
        if faults:
            data = bytearray(segment.read_bytes())
            data[data.index((2).to_bytes(16, "big") + b"\x12\x08" + (2).to_bytes(8, "big"))] ^= 1
            segment.write_bytes(data)
            raise faults.pop()
        return decode_entries(entries, most_bytes)

    monkeypatch.setattr("gateway.ingest.journal_reader.decode_entries", failing)
    monkeypatch.setattr("gateway.ingest.backlog.RETRY_S", 0.05)
    second = await start(RecordingStore(), "image")
    await eventually(lambda: stored(second) == 2)
    await eventually(lambda: second.metric("lost_items_total", reason="damaged") == 1)
    assert second.metric("recovered_items_total") == 3
    assert (second.metric("pending_items"), second.metric("quarantined_items_total")) == (0, 0)


async def test_outcomes_are_of_the_day_on_which_a_request_was_accepted(start: Start) -> None:
    """Not of that on which its batch is made, after an outage over the end of a month."""
    now = [NOW_NS]
    store = RecordingStore(away=AWAY)
    gateway = await start(store, pending_bytes=1, clock=lambda: now[0])
    await acknowledged(gateway, 1, 2)
    now[0] += 3 * DAY_NS
    store.away = None
    await eventually(lambda: stored(gateway) == 2)
    days = {int(insert.token.split(":")[2]) for insert in store.taken if insert.table == "ingest_outcomes"}
    assert days == {DAY}


class Held(NullJournal):
    """A journal with a finished batch; whether it holds what is finished."""

    def __init__(self) -> None:
        super().__init__(structlog.stdlib.get_logger())
        self.holding = True

    def retained_batches(self) -> Sequence[Batch]:
        return [Batch(1, 2, ((1, 1),), rows={("spans", DAY): 1})]

    def pause_retention(self, *, on: bool) -> None:
        self.holding = on


class Counting(RecordingStore):
    """Counts rows once it is let, and fails to so often before."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.asked_for_rows = 0
        self._failures = failures

    async def query(
        self,
        sql: str,  # noqa: ARG002
        parameters: Mapping[str, object],  # noqa: ARG002
        *,
        limits: QueryLimits,  # noqa: ARG002
    ) -> list[tuple[object, ...]]:
        self.asked_for_rows += 1
        await self.open.wait()
        if self.asked_for_rows <= self._failures:
            raise StoreError("no")
        return [(1,)]


@contextlib.asynccontextmanager
async def checking(store: Counting, journal: Held) -> Any:
    """The recovery of a journal that nothing was left in but what is held."""
    log, metrics = structlog.stdlib.get_logger(), Metrics(CollectorRegistry())
    breaker = InsertBreaker(store, metrics, log)
    with ThreadPoolExecutor(1) as threads:
        inserter = Inserter(store, breaker, metrics)
        retry_queue = BlockRetryQueue(inserter, breaker, metrics, log, 0)
        sink = InsertContext(
            inserter,
            breaker,
            StoredBlockChecker(store),
            retry_queue,
            DerivedCoalescer(retry_queue, 0.0),
            ItemAccounting(metrics),
            metrics,
            log,
            threads,
            lambda: NOW_NS,
            new_named_keys(0, 0),
            threads,
        )
        reading = JournalReader(journal, sink)
        recovery = Recovery(journal, reading, BatchWriter(journal, reading, sink), sink, 0, 4)
        task = asyncio.get_running_loop().create_task(recovery.run(RecoveredState()))
        try:
            yield recovery
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_nothing_is_removed_before_a_check_is_over() -> None:
    """Though ClickHouse goes and comes while it runs."""
    store, journal = Counting(), Held()
    async with checking(store, journal) as made:
        recovery = cast("Recovery", made)
        await eventually(lambda: store.asked_for_rows == 1)
        recovery.on_down()
        recovery.on_up(lost=False)
        assert journal.holding
        store.open.set()
        await eventually(lambda: not journal.holding)
        recovery.on_up(lost=True)
        recovery.on_up(lost=False)
        assert journal.holding
        await eventually(lambda: not journal.holding)


async def test_nor_after_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.ingest.recovery.RETRY_S", 0.01)
    store, journal = Counting(failures=2), Held()
    store.open.set()
    async with checking(store, journal):
        await eventually(lambda: not journal.holding)
        assert store.asked_for_rows == 3
