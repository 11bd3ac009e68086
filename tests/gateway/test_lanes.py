"""Old days take a lane of their own, and a project its turn: whose rows are in which batch, and who waits for whom."""

import asyncio

import pytest

from chassis.clickhouse import StoreUnavailable
from tests.gateway.conftest import Answer, Insert, RecordingStore, StartGateway, eventually
from tests.gateway.otlp import DAY_NS, NOW_NS, log, logs, span, traces

TODAY = NOW_NS // DAY_NS
OLD_NS = NOW_NS - 9 * DAY_NS
OLD = TODAY - 9
DURABILITY = "store"  # requests are answered when they are stored


def days_by_batch(store: RecordingStore) -> list[list[int]]:
    """For each batch the days of its spans, sorted."""
    days: dict[str, list[int]] = {}
    for insert in store.into("spans"):
        days.setdefault(insert.token.split(":")[0], []).append(insert.day)
    return sorted(sorted(batch) for batch in days.values())


def spans_of(*days_ago: int, first: int = 1) -> list[bytes]:
    """An export of a span for each of these days."""
    return [traces(span(first + n, start_ns=NOW_NS - ago * DAY_NS)) for n, ago in enumerate(days_ago)]


async def test_old_days_are_in_batches_of_their_own(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store, linger_s=1.0, slow_linger_s=1.0)
    assert await gateway.statuses(*spans_of(*[0, 9] * 4)) == [200] * 8
    await gateway.stop()
    assert days_by_batch(store) == [[OLD], [TODAY]]
    assert gateway.metric("slow_items_total") == 4


async def test_a_request_goes_as_a_whole_with_its_oldest_item(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store, linger_s=1.0, slow_linger_s=1.0)
    mixed = traces(span(1), span(2, start_ns=OLD_NS))
    assert await gateway.statuses(mixed, traces(span(3))) == [200, 200]
    await gateway.stop()
    assert days_by_batch(store) == [[OLD, TODAY], [TODAY]]


async def test_a_day_is_old_when_it_ended_two_days_ago(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(RecordingStore(), slow_linger_s=0.0)
    for days_ago, slow in ((2, 0), (3, 1)):
        await gateway.post("/v1/logs", logs(log(time_ns=NOW_NS - days_ago * DAY_NS)))
        assert gateway.metric("slow_items_total") == slow


async def test_without_a_slow_lane_all_days_share_batches(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store, linger_s=5.0, batch_rows=2, slow_after_days=0)
    assert await gateway.statuses(*spans_of(0, 9)) == [200, 200]
    await gateway.stop()
    assert days_by_batch(store) == [[OLD, TODAY]]


async def test_new_items_do_not_wait_behind_old_ones(start_gateway: StartGateway) -> None:
    store = RecordingStore(hold=lambda insert: insert.day == OLD)
    gateway = await start_gateway(store, slow_linger_s=0.0, max_batches=1)
    old = [gateway.later(body) for body in spans_of(*[9] * 5)]
    await eventually(lambda: len(store.held) == 1)  # more of them than there are slots
    for body in spans_of(0, 0, 0, first=6):
        assert await gateway.statuses(body) == [200]
    assert not any(one.done() for one in old)
    store.released.set()
    assert await asyncio.gather(*old) == [[200]] * 5


async def test_one_project_s_backfill_leaves_room_for_another_s(start_gateway: StartGateway) -> None:
    store = RecordingStore(hold=lambda insert: insert.day == OLD)
    gateway = await start_gateway(store, slow_linger_s=0.0, max_slow_bytes=20_000_000, ack_deadline_s=60.0)
    body = traces(*(span(n, start_ns=OLD_NS) for n in range(1, 2_001)))  # up to 2 MB, by the memory it is given

    async def sent(project: int) -> "asyncio.Future[Answer]":
        """An export that waits to be stored, or was refused."""
        held = gateway.metric("slow_bytes")
        answer = asyncio.ensure_future(gateway.post("/v1/traces", body, project=project))
        await eventually(lambda: answer.done() or gateway.metric("slow_bytes") > held)
        return answer

    waiting = [await sent(project=0)]
    while not waiting[-1].done():
        waiting.append(await sent(project=0))
    refused = waiting.pop().result()
    assert (refused.status, b"The queue for old and high-cardinality data" in refused.body) == (503, True), refused
    assert 8_000_000 < gateway.metric("slow_bytes") <= 10_000_000
    other = await sent(project=1)
    assert not other.done()
    assert await gateway.statuses(traces(span(1))) == [200]  # new items are another matter
    store.released.set()
    assert {answer.status for answer in await asyncio.gather(other, *waiting)} == {200}
    assert gateway.metric("slow_bytes") == 0


async def test_old_items_that_could_not_be_stored_in_time_are_refused_at_once(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored after their sender gave up, they would be there twice."""
    loop = asyncio.get_running_loop()
    time, passed = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: time() + sum(passed))

    def let_time_pass(insert: Insert) -> None:
        if insert.table == "spans":
            passed.append(2.4)  # seconds

    store = RecordingStore(hold=lambda insert: insert.table == "spans" and bool(store.taken), answer=let_time_pass)
    gateway = await start_gateway(store, slow_linger_s=0.0, ack_deadline_s=4.0)
    bodies = spans_of(9, 9, 9)
    assert await gateway.statuses(bodies[0]) == [200]  # by which it knows what a batch takes
    second = gateway.later(bodies[1])
    await eventually(lambda: len(store.held) == 1)
    assert (await gateway.statuses(bodies[2]), second.done()) == ([503], False)
    store.released.set()
    assert await second == [200]
    await gateway.stop()
    assert store.tables().count("spans") == 2
    assert gateway.metric("late_items_total") == 0


async def test_projects_take_turns(start_gateway: StartGateway) -> None:
    store = RecordingStore(hold=lambda insert: insert.table == "spans" and len(store.asked) == 1)
    gateway = await start_gateway(store, max_batches=1, batch_rows=2)
    first = gateway.later(traces(span(1)))
    await eventually(lambda: len(store.held) == 1)
    many = [gateway.later(traces(span(n, name="many"))) for n in range(2, 8)]
    await eventually(lambda: gateway.metric("inflight_items") == 7)
    one = gateway.later(traces(span(8, name="one")), project=1)
    await eventually(lambda: gateway.metric("inflight_items") == 8)
    store.released.set()
    assert await asyncio.gather(first, one, *many) == [[200]] * 8
    await gateway.stop()
    assert [b"one" in insert.body for insert in store.into("spans")] == [False, True, False, False, False]
    assert [insert.body.count(b"many") for insert in store.into("spans")] == [0, 1, 1, 1, 1]


async def test_days_have_a_limit_in_a_request_and_in_a_batch(start_gateway: StartGateway) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store, max_days=3, slow_linger_s=1.0)
    four = (span(ago, start_ns=NOW_NS - ago * DAY_NS) for ago in range(20, 24))
    refused = await gateway.post("/v1/traces", traces(*four))
    assert (refused.status, b"more than 3 UTC days" in refused.body) == (413, True)
    assert await gateway.statuses(*spans_of(*range(20, 26))) == [200] * 6
    await gateway.stop()
    assert max(map(len, days_by_batch(store))) == 3


async def test_what_a_full_batch_leaves_over_is_written_without_another_request(start_gateway: StartGateway) -> None:
    store = RecordingStore(hold=lambda insert: insert.table == "spans" and len(store.asked) == 1)
    gateway = await start_gateway(store, max_batches=1, batch_rows=3, linger_s=0.5)
    first = gateway.later(traces(*map(span, range(1, 4))))
    await eventually(lambda: len(store.held) == 1)
    full = gateway.later(traces(*map(span, range(4, 7))))
    await eventually(lambda: gateway.metric("inflight_items") == 6)
    rest = gateway.later(traces(span(7)), project=1)
    await eventually(lambda: gateway.metric("inflight_items") == 7)
    store.released.set()
    assert list(await asyncio.gather(first, full, rest)) == [[200]] * 3


async def test_a_slow_lane_that_cannot_keep_up_says_so_in_time(start_gateway: StartGateway) -> None:
    """However long it may linger, the answer comes within the deadline."""
    gateway = await start_gateway(RecordingStore(), slow_linger_s=30.0, ack_deadline_s=1.0)
    for body in spans_of(9, 9):
        assert await gateway.statuses(body) == [200]
    store = RecordingStore(refuse=lambda insert: StoreUnavailable("x") if insert.day == OLD else None)
    gateway = await start_gateway(store, ack_deadline_s=0.2)
    assert await gateway.statuses(*spans_of(9)) == [503]
