"""How many requests are under way at once, by how long answers take; and what those get that are too many."""

import asyncio

import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from prometheus_client import CollectorRegistry

from chassis.http.preparse import Slot
from gateway.admission import concurrency
from gateway.admission.concurrency import (
    GROWTH_FACTOR,
    INITIAL_LIMIT,
    MESSAGE,
    MIN_LIMIT,
    NEWCOMER_SLOTS,
    SHRINK_FACTOR,
    SLOW_UPLOAD_S,
    ConcurrencyLimiter,
    Window,
    next_limit,
    target_latency_s,
)
from gateway.metrics import Metrics, OutcomeCounters
from gateway.settings import GatewaySettings
from tests.gateway.conftest import Gateway, StartGateway, eventually, holding
from tests.gateway.otlp import JSON, PROTOBUF, log, logs, span, traces

TARGET_S = 0.25
DURABILITY = "store"  # requests are answered when they are stored


def window(*times: float, refused: int = 0) -> Window:
    return Window(list(times), refused)


SOON, LATE = window(0.1), window(0.5)


LIMITS: dict[str, tuple[Window, Window, int]] = {
    "nothing was answered": (LATE, window(), 1_000),
    "nothing was answered, some were refused": (LATE, window(refused=9), 1_000),
    "soon and enough places": (SOON, window(0.1, 0.1, 0.1), 1_000),
    "soon and too few places": (LATE, window(0.2, 0.2, 0.2, refused=1), 1_119),
    "much too few": (SOON, window(0.01, refused=1), int(1_000 * GROWTH_FACTOR) + 1),
    "late for the first time": (SOON, window(9.0, refused=5), 1_000),
    "late again": (LATE, window(0.3125), 894),
    "late again whoever was refused": (LATE, window(0.3125, refused=5), 894),
    "much too late": (LATE, window(9.0), int(1_000 * SHRINK_FACTOR)),
    "some are slow for reasons of their own": (LATE, window(0.1, 0.1, 0.1, 5.0, 5.0), 1_000),
}


def test_the_limit_follows_the_median_latency_and_is_never_too_low_to_find_out() -> None:
    found = {name: next_limit(1_000, before, seen, TARGET_S) for name, (before, seen, _) in LIMITS.items()}
    assert found == {name: places for name, (_, _, places) in LIMITS.items()}
    assert next_limit(MIN_LIMIT + 1, LATE, window(60.0, refused=1_000), TARGET_S) == MIN_LIMIT


def test_after_an_overload_there_is_room_for_a_burst_again() -> None:
    places = MIN_LIMIT
    for _ in range(20):
        places = next_limit(places, SOON, window(0.01), TARGET_S)
    assert places == INITIAL_LIMIT


@pytest.mark.parametrize("answers_per_s", [20, 300, 1_600, 12_000])
@pytest.mark.parametrize("first", [MIN_LIMIT, INITIAL_LIMIT, 20_000])
def test_under_overload_answers_take_about_as_long_as_is_aimed_at(answers_per_s: int, first: int) -> None:
    """A queue in front of something that answers at its own rate, and places that are always taken."""
    places, before = first, SOON
    for _ in range(60):
        seen = window(places / answers_per_s, refused=1)
        places, before = next_limit(places, before, seen, TARGET_S), seen
    if places == MIN_LIMIT:
        assert MIN_LIMIT / answers_per_s > TARGET_S * 0.9
    else:
        assert places / answers_per_s == pytest.approx(TARGET_S, rel=0.15)


class Door:
    """The gate over a clock that stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._registry = CollectorRegistry()
        metrics = Metrics(self._registry)
        self.gate = ConcurrencyLimiter(TARGET_S, metrics, OutcomeCounters(metrics), lambda: self.now)

    @property
    def places(self) -> tuple[float, float]:
        """How many there are, and how many are taken."""
        names = ("places", "places_taken")
        there, taken = (self._registry.get_sample_value(f"sluice_gateway_{name}") or 0.0 for name in names)
        return there, taken

    def enter_slowly(self, sender: bytes = b"a") -> Slot:
        """Of a request whose body is still to come."""
        place = self.gate.try_acquire(sender)
        assert place is not None
        return place

    def enter(self, sender: bytes) -> Slot:
        """Of a request whose body is there."""
        place = self.enter_slowly(sender)
        place.on_body_received()
        return place

    def answer_all(self, requests: int, seconds: float, sender: bytes = b"a") -> int:
        """So many at once, each answered after so long; how many were refused."""
        places = [self.gate.try_acquire(sender) for _ in range(requests)]
        held = [place for place in places if place is not None]
        for place in held:
            place.on_body_received()
        self.now += seconds
        for place in held:
            place.release(succeeded=True)
        self.gate.adjust()
        return len(places) - len(held)


def test_the_limit_grows_while_latency_is_low_and_requests_are_refused() -> None:
    door = Door()
    assert door.answer_all(100, 0.01) == 0
    assert door.places[0] == INITIAL_LIMIT
    assert door.answer_all(1_000, 0.01) == 1_000 - INITIAL_LIMIT // 2
    refused = [door.answer_all(1_000, 0.01) for _ in range(10)]
    assert refused[-1] == 0
    assert door.places[1] == 0


def test_one_client_leaves_slots_to_others() -> None:
    door = Door()
    noisy = [door.gate.try_acquire(b"noisy") for _ in range(INITIAL_LIMIT * 3)]
    assert sum(place is not None for place in noisy) == INITIAL_LIMIT // 2
    quiet = [door.gate.try_acquire(b"quiet") for _ in range(10)]
    assert all(quiet)


def test_when_the_limit_shrinks_clients_without_slots_do_not_wait_for_holders() -> None:
    """Up to a number of them: then the next is refused, and is not once one of them is gone."""
    door = Door()
    for _ in range(INITIAL_LIMIT // 2):
        door.enter(b"noisy")
    for _ in range(6):
        door.answer_all(3, 60.0, b"late")
    assert door.places[0] == MIN_LIMIT
    assert door.gate.try_acquire(b"noisy") is None
    quiet = [door.gate.try_acquire(str(number).encode()) for number in range(NEWCOMER_SLOTS + 1)]
    assert [place is not None for place in quiet] == [True] * NEWCOMER_SLOTS + [False]
    first = quiet[0]
    assert first is not None
    first.release(succeeded=False)
    first.release(succeeded=False)
    assert [door.gate.try_acquire(sender) is not None for sender in (b"new", b"newer")] == [True, False]


def test_what_was_refused_or_broke_off_says_nothing_of_time() -> None:
    door = Door()
    for _ in range(INITIAL_LIMIT // 2):
        place = door.enter(b"a")
        door.now += 9.0
        place.release(succeeded=False)
    door.gate.adjust()
    assert door.places == (INITIAL_LIMIT, 0)


def test_a_slow_upload_holds_no_slot_and_is_timed_from_its_last_byte() -> None:
    door = Door()
    slow = [door.enter_slowly() for _ in range(INITIAL_LIMIT // 2)]
    assert door.gate.try_acquire(b"a") is None
    door.now += SLOW_UPLOAD_S * 1.1
    door.gate.adjust()
    assert door.places[1] == 0
    for place in slow:
        place.on_body_received()
    assert door.places[1] == INITIAL_LIMIT // 2
    door.now += 0.1
    for place in slow:
        place.release(succeeded=True)
    door.gate.adjust()
    assert door.places == (INITIAL_LIMIT, 0)


def test_who_breaks_off_while_sending_slowly_gives_nothing_back_twice() -> None:
    door = Door()
    place = door.enter_slowly()
    door.now += SLOW_UPLOAD_S * 1.1
    door.gate.adjust()
    place.release(succeeded=False)
    assert door.places[1] == 0


@pytest.fixture
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at the start, so one for a sender."""
    monkeypatch.setattr(concurrency, "INITIAL_LIMIT", 2)
    monkeypatch.setattr(concurrency, "MIN_LIMIT", 2)


async def fill_the_place(gateway: Gateway) -> "asyncio.Task[list[int]]":
    """A request that holds the place of the first project."""
    held = gateway.later(traces(span(1)))
    await eventually(lambda: gateway.metric("inflight_items") == 1)
    return held


@pytest.mark.usefixtures("few_places")
async def test_without_a_slot_a_request_gets_503_with_a_jittered_retry_after_and_others_get_slots(
    start_gateway: StartGateway,
) -> None:
    """A sender whose credential varies is one sender."""
    store = holding()
    gateway = await start_gateway(store)
    held = await fill_the_place(gateway)
    waits = set()
    for number in range(40):
        varied = {"X-Legacy-Auth": f"{gateway.key()['X-Legacy-Auth']}, t={number}"} if number % 2 else {}
        refused = await gateway.post("/v1/logs", logs(log(number)), {"X-Request-Id": f"r-{number}", **varied})
        assert (refused.status, refused.content_type, refused.headers["X-Request-Id"]) == (503, PROTOBUF, f"r-{number}")
        assert "Connection" not in refused.headers
        status = Status.FromString(refused.body)
        assert (status.code, status.message) == (14, MESSAGE)
        waits.add(int(refused.headers["Retry-After"]))
    assert waits <= {1, 2, 3, 4, 5}
    assert len(waits) > 1
    other = gateway.later(traces(span(2)), project=1)
    await eventually(lambda: gateway.metric("inflight_items") == 2)
    store.released.set()
    assert [await held, await other] == [[200], [200]]
    await gateway.stop()
    assert gateway.metric("requests_total", signal="logs", outcome="refused", reason="overloaded") == 40
    assert gateway.metric("requests_total", outcome="answered") == 2
    assert any(b"overloaded" in insert.body for insert in store.into("ingest_outcomes"))


@pytest.mark.usefixtures("few_places")
async def test_the_answer_is_that_of_the_skeleton_and_in_kind(start_gateway: StartGateway) -> None:
    """The one in bytes, and the one for a request that only the skeleton can turn away."""
    store = holding()
    gateway = await start_gateway(store, cors_origins=("https://page",))
    held = await fill_the_place(gateway)
    for media in (PROTOBUF, JSON, "Application/JSON; charset=utf-8"):
        given = {"Content-Type": media, "X-Request-Id": "same"}
        plain = await gateway.post("/v1/traces", traces(span(2)), given)
        unusual = await gateway.post("/v1/traces", traces(span(2)), given | {"Origin": "https://page"})
        told = ("Content-Type", "X-Request-Id", "Server", "Content-Length", "Vary")
        assert [plain.headers[name] for name in told] == [unusual.headers[name] for name in told]
        assert (plain.status, plain.body) == (unusual.status, unusual.body)
        assert plain.headers["Date"].endswith(" GMT")
        assert unusual.headers["Access-Control-Allow-Origin"] == "https://page"
        if media != PROTOBUF:
            error = {"code": "service_unavailable", "message": MESSAGE, "requestId": "same"}
            assert (plain.status, plain.content_type) == (503, JSON)
            assert plain.json == {"code": 14, "message": MESSAGE, "error": error}
    store.released.set()
    assert await held == [200]
    await gateway.stop()
    assert gateway.metric("requests_total", reason="overloaded") == 6


@pytest.mark.parametrize(
    ("durability", "deadline_s", "aimed_at_s"),
    [("journal", 8.0, 0.2), ("memory", 8.0, 0.2), ("store", 8.0, 4.0), ("store", 0.2, 0.2)],
)
def test_in_mode_store_waiting_for_clickhouse_is_no_overload(
    durability: str, deadline_s: float, aimed_at_s: float
) -> None:
    assert target_latency_s(GatewaySettings(ack_deadline_s=deadline_s), durability) == aimed_at_s


@pytest.mark.usefixtures("few_places")
async def test_it_can_be_switched_off(start_gateway: StartGateway) -> None:
    store = holding()
    gateway = await start_gateway(store, target_delay_s=0.0)
    sent = gateway.later(*(traces(span(n)) for n in range(1, 9)))
    await eventually(lambda: gateway.metric("inflight_items") == 8)
    store.released.set()
    assert await sent == [200] * 8
