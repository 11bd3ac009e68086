"""What is not certain: inserts of which nobody knows what became, rows that go while others come, and errors that are
about no request."""

import asyncio
import contextlib
import itertools
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog
from prometheus_client import CollectorRegistry

from chassis.clickhouse import StoreError, StoreRejected, StoreUnavailable
from gateway.ingest.recovery import Recovery
from gateway.inserts.batch_writer import BatchWriter
from gateway.inserts.blocks import BlockBuilder, Gate, Inserter
from gateway.inserts.derived import BlockRetryQueue, DerivedCoalescer
from gateway.inserts.pending_requests import DecodeResult, EntryDecoder, JournalReader, decode_entries
from gateway.inserts.retries import RetryingInserter
from gateway.inserts.store_state import InsertBreaker, StoredBlockChecker
from gateway.journal import Batch, Entry, Journal, NullJournal, RecoveredState
from gateway.metrics import ItemAccounting, Metrics
from proto.otlp.codec import new_named_keys
from tests.gateway.conftest import Gateway, Insert, RecordingStore, eventually
from tests.gateway.ingest.rig import AWAY, Losing, Start, acknowledged, all_stored, damage_second
from tests.gateway.otlp import DAY_NS, NOW_NS, span, traces

TIMEOUT = StoreUnavailable("timed out")  # it may have been applied
DAY = NOW_NS // DAY_NS
NAMES = re.compile(rb"<([a-z0-9-]+)>")

Fate = tuple[Exception | None, bool]


@dataclass
class Engine(RecordingStore):
    """Keeps rows, and each token once. `fate` says what becomes of an insert of spans, of its token and body: an error,
    and whether its rows are kept all the same.
    """

    fate: Callable[[str, bytes], Fate] = lambda _token, _body: (None, True)
    rows: dict[str, bytes] = field(default_factory=dict)  # of spans, by token

    def __post_init__(self) -> None:
        self.refuse = self._meet

    def _meet(self, insert: Insert) -> Exception | None:
        if insert.table != "spans":
            return None
        error, kept = self.fate(insert.token, insert.body)
        if kept:
            self.rows.setdefault(insert.token, insert.body)
        return error

    async def query(self, sql: str, parameters: Mapping[str, object], **_limits: object) -> list[tuple[object, ...]]:
        asked = parameters.get("ids", [])
        assert isinstance(asked, list)
        tokens = self.rows if "spans" in sql else [insert.token for insert in self.taken]
        there = {token.split(":")[0] for token in tokens}
        return [(batch,) for batch in asked if str(batch) in there]

    def names(self) -> Counter[str]:
        """How often each span is there, by its name."""
        return Counter(name.decode() for body in self.rows.values() for name in NAMES.findall(body))


@pytest.fixture(autouse=True)
def soon_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """ClickHouse is tried again soon, also where it refuses one table again and again."""
    monkeypatch.setattr("gateway.inserts.store_state.FIRST_PROBE_S", 0.01)
    monkeypatch.setattr("gateway.inserts.store_state.MAX_PAUSE_S", 0.01)
    monkeypatch.setattr("gateway.inserts.retries.MAX_FAILURES", 2)


async def sent(gateway: Gateway, *names: str) -> None:
    """Exports of a span each, at once, all answered 200."""
    bodies = [traces(span(number, name=f"<{name}>")) for number, name in enumerate(names, 1)]
    assert set(await gateway.statuses(*bodies)) == {200}


async def sent_quickly(gateway: Gateway, engine: Engine, number: int) -> None:
    """Another export, which gets in at once."""
    await sent(gateway, f"quick-{number}")
    await eventually(lambda: engine.names()[f"quick-{number}"] == 1)


async def test_a_block_of_which_nobody_knows_whether_it_is_in_is_not_taken_apart(start: Start) -> None:
    """It times out while others get in, and in the end all of it comes."""
    hanging: dict[str, bytes] = {}

    def fate(token: str, body: bytes) -> Fate:
        if b"<slow-1>" in body and token not in engine.rows:
            hanging[token] = body
            return TIMEOUT, False
        return None, True

    engine = Engine(fate=fate)
    gateway = await start(engine, journal_linger_s=0.1)
    await sent(gateway, "slow-1", "slow-2")
    await eventually(lambda: bool(hanging))
    for number in range(12):
        await sent_quickly(gateway, engine, number)
    engine.rows |= hanging
    await eventually(lambda: gateway.metric("pending_items") == 0)
    assert len(hanging) == 1
    assert set(engine.names().values()) == {1}


TOO_FEW = StoreUnavailable("Number of alive replicas (1) is less than requested quorum (2)", 285)


@pytest.mark.parametrize("error", [TIMEOUT, TOO_FEW], ids=["after-a-while", "too-few-replicas"])
async def test_it_is_once_it_is_certain_that_nothing_of_it_comes(
    start: Start, monkeypatch: pytest.MonkeyPatch, error: StoreUnavailable
) -> None:
    """Where too few replicas are alive without a wait for what may yet come of it."""
    if error is TIMEOUT:
        monkeypatch.setattr("gateway.inserts.retries.UNKNOWN_RESULT_S", 0.3)
    refused: list[str] = []

    def fate(token: str, body: bytes) -> Fate:
        if b"<a>" in body and b"<b>" in body:
            refused.append(token)
            return error, False
        return None, True

    engine = Engine(fate=fate)
    gateway = await start(engine, journal_linger_s=0.2)
    await sent(gateway, "a", "b", "c")
    await eventually(lambda: bool(refused))
    for number in itertools.count():
        await sent_quickly(gateway, engine, number)
        if engine.names()["a"]:
            break
    await eventually(lambda: gateway.metric("pending_items") == 0)
    assert {"a", "b", "c"} <= set(engine.names())
    assert set(engine.names().values()) == {1}
    assert gateway.metric("quarantined_items_total") == 0


async def test_a_refused_block_that_may_have_been_taken_before_is_looked_for(start: Start) -> None:
    answers: list[Exception] = [TIMEOUT, StoreRejected("no")]

    def fate(_token: str, _body: bytes) -> Fate:
        return (answers.pop(0), True) if answers else (None, True)

    engine = Engine(fate=fate)
    gateway = await start(engine)
    await sent(gateway, "a")
    await all_stored(gateway, 1)
    assert (engine.names(), gateway.metric("quarantined_items_total")) == ({"a": 1}, 0)


async def test_rows_that_vanish_before_their_batch_is_complete_are_reinserted(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.inserts.store_state.RESTART_CHECK_S", 0.02)
    store = Losing(hold=lambda insert: insert.table == "trace_index")
    gateway = await start(store)
    await acknowledged(gateway, 1)
    await eventually(lambda: bool(store.held))
    store.lose()
    lost = store.into("spans")[0].token
    store.started += 60
    checks = itertools.count()
    await eventually(lambda: next(checks) > 20)  # looked at, with nothing finished yet
    store.released.set()
    await all_stored(gateway, 1)
    assert lost in store.anew()


async def test_what_is_about_no_request_is_done_again_from_the_journal(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the same token: it may have been stored."""
    faults: list[Exception] = [RuntimeError("can't start new thread"), MemoryError()]
    tokens: list[str] = []
    read: list[int] = []
    members = Journal.read_batch

    def fate(token: str, _body: bytes) -> Fate:
        tokens.append(token)
        return (faults.pop(0) if faults else None), True

    async def watched(journal: Journal, batch: Batch) -> list[Entry]:
        read.append(batch.batch_id)
        return await members(journal, batch)

    monkeypatch.setattr(Journal, "read_batch", watched)
    engine = Engine(fate=fate)
    gateway = await start(engine, journal_linger_s=0.2)
    await sent(gateway, "a", "b", "c")
    await all_stored(gateway, 3)
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
    assert await gateway.statuses(traces(span(2))) == [503]
    faults.clear()
    await all_stored(gateway, 1)


@pytest.mark.parametrize("times", [1, 2], ids=["in-time", "looked-at-before"])
async def test_a_batch_whose_boundaries_cannot_be_recorded_is_stored(
    start: Start, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """What is found in the journal without a batch is read again once."""

    async def begin(_journal: Journal, _batch: Batch) -> None:
        raise MemoryError

    monkeypatch.setattr(Journal, "begin", begin)
    if times == 2:
        monkeypatch.setattr("gateway.inserts.retries.RECORD_TRIES", 0)
        monkeypatch.setattr("gateway.ingest.journaled.CHECK_INTERVAL_S", 0.01)
    gateway = await start(RecordingStore())
    for number in (1, 2, 3, 4):
        await acknowledged(gateway, number)
        await all_stored(gateway, times * number)
    assert gateway.metric("overlooked_requests_total") == 4 * (times - 1)
    assert times == 2 or gateway.metric("pending_items") == 0


async def test_want_of_memory_is_no_request_s_fault(
    start: Start, crash: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is damaged when it is read for the second time is recovered once, and lost."""
    first = await start(RecordingStore(away=AWAY), journal_linger_s=30.0)
    for number in range(1, 4):
        await acknowledged(first, number)
    image = tmp_path / crash("image")
    faults = [MemoryError()]

    def failing(entries: Sequence[Entry], most_bytes: float) -> DecodeResult:
        if faults:
            damage_second(image)
            raise faults.pop()
        return decode_entries(entries, most_bytes)

    monkeypatch.setattr("gateway.inserts.pending_requests.decode_entries", failing)
    monkeypatch.setattr("gateway.ingest.journaled.RETRY_S", 0.05)
    second = await start(RecordingStore(), "image")
    await all_stored(second, 2)
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
    await all_stored(gateway, 2)
    assert {insert.day for insert in store.into("ingest_outcomes")} == {DAY}


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
    """Counts rows once it is released, and fails to so often before."""

    asked_for_rows = 0
    misses = 0

    async def query(self, *_: object, **__: object) -> list[tuple[object, ...]]:
        self.asked_for_rows += 1
        await self.released.wait()
        if self.asked_for_rows <= self.misses:
            raise StoreError("no")
        return [(1,)]


@contextlib.asynccontextmanager
async def checking(store: Counting, journal: Held) -> AsyncIterator[Recovery]:
    """The recovery of a journal that nothing was left in but what is held."""
    log, metrics = structlog.stdlib.get_logger(), Metrics(CollectorRegistry())
    breaker, checker, accounting = (
        InsertBreaker(store, metrics, log),
        StoredBlockChecker(store),
        ItemAccounting(metrics),
    )
    with ThreadPoolExecutor(1) as threads:
        inserter = Inserter(store, breaker, metrics)
        writer = BatchWriter(
            journal,
            reading := JournalReader(journal, EntryDecoder(threads), accounting, log),
            BlockBuilder(threads, new_named_keys(0, 0), None, metrics.fingerprint_failures),
            RetryingInserter(inserter, breaker, checker, log),
            DerivedCoalescer(BlockRetryQueue(inserter, breaker, metrics, log, 0), 0.0, log),
            accounting,
            Gate(),
            lambda: NOW_NS,
            log,
        )
        recovery = Recovery(
            *(journal, reading, writer, checker, breaker),
            frozenset(),
            metrics.recovery_batches,
            lambda: NOW_NS,
            log,
            retention_days=0,
            max_concurrent=4,
        )
        task = asyncio.get_running_loop().create_task(recovery.run(RecoveredState()))
        try:
            yield recovery
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_nothing_is_removed_before_a_check_is_over() -> None:
    """Though ClickHouse goes and comes while it runs."""
    store, journal = Counting(), Held()
    async with checking(store, journal) as recovery:
        await eventually(lambda: store.asked_for_rows == 1)
        recovery.on_down()
        recovery.on_up(lost=False)
        assert journal.holding
        store.released.set()
        await eventually(lambda: not journal.holding)
        recovery.on_up(lost=True)
        recovery.on_up(lost=False)
        assert journal.holding
        await eventually(lambda: not journal.holding)


async def test_nor_after_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.ingest.recovery.RETRY_S", 0.01)
    store, journal = Counting(), Held()
    store.misses = 2
    store.released.set()
    async with checking(store, journal):
        await eventually(lambda: not journal.holding)
        assert store.asked_for_rows == 3
