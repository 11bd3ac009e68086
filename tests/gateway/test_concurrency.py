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
from gateway.metrics import Metrics
from gateway.outcomes import OutcomeCounters
from gateway.settings import GatewaySettings
from tests.gateway.conftest import Gateway, StartGateway, eventually
from tests.gateway.otlp import JSON, PROTOBUF, log, logs, span, traces, traces_json
from tests.gateway.test_memory_budget import Stopped

TARGET_S = 0.25


@pytest.fixture
def durability() -> str:
    """Requests are answered when they are stored."""
    return "store"


def window(*times: float, refused: int = 0) -> Window:
    return Window(list(times), refused)


SOON, LATE = window(0.1), window(0.5)


@pytest.mark.parametrize(
    ("before", "seen", "places"),
    [
        pytest.param(LATE, window(), 1_000, id="nothing was answered"),
        pytest.param(LATE, window(refused=9), 1_000, id="nothing was answered, some were refused"),
        pytest.param(SOON, window(0.1, 0.1, 0.1), 1_000, id="soon and enough places"),
        pytest.param(LATE, window(0.2, 0.2, 0.2, refused=1), 1_119, id="soon and too few places"),
        pytest.param(SOON, window(0.01, refused=1), int(1_000 * GROWTH_FACTOR) + 1, id="much too few"),
        pytest.param(SOON, window(9.0, refused=5), 1_000, id="late for the first time"),
        pytest.param(LATE, window(0.3125), 894, id="late again"),
        pytest.param(LATE, window(0.3125, refused=5), 894, id="late again whoever was refused"),
        pytest.param(LATE, window(9.0), int(1_000 * SHRINK_FACTOR), id="much too late"),
        pytest.param(LATE, window(0.1, 0.1, 0.1, 5.0, 5.0), 1_000, id="some are slow for reasons of their own"),
    ],
)
def test_the_limit_follows_the_median_latency(before: Window, seen: Window, places: int) -> None:
    assert next_limit(1_000, before, seen, TARGET_S) == places


def test_there_are_never_too_few_to_find_out() -> None:
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


class Clock:
    """Moves when it is told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Door:
    """The gate over a clock of its own."""

    def __init__(self) -> None:
        self.clock = Clock()
        registry = CollectorRegistry()
        metrics = Metrics(registry)
        self._registry = registry
        self.gate = ConcurrencyLimiter(TARGET_S, metrics, OutcomeCounters(metrics), self.clock)

    def gauge(self, name: str) -> float:
        return self._registry.get_sample_value(f"sluice_gateway_{name}") or 0.0

    def enter(self, sender: bytes) -> Slot:
        """Of a request whose body is there."""
        place = self.gate.try_acquire(sender)
        assert place is not None
        place.on_body_received()
        return place

    def answer_all(self, requests: int, seconds: float, sender: bytes = b"a") -> int:
        """So many at once, each answered after so long; how many were refused."""
        places = [self.gate.try_acquire(sender) for _ in range(requests)]
        held = [place for place in places if place is not None]
        for place in held:
            place.on_body_received()
        self.clock.now += seconds
        for place in held:
            place.release(succeeded=True)
        self.gate.adjust()
        return len(places) - len(held)


def test_the_limit_grows_while_latency_is_low_and_requests_are_refused() -> None:
    door = Door()
    assert door.answer_all(100, 0.01) == 0
    assert door.gauge("places") == INITIAL_LIMIT
    assert door.answer_all(1_000, 0.01) == 1_000 - INITIAL_LIMIT // 2
    refused = [door.answer_all(1_000, 0.01) for _ in range(10)]
    assert refused[-1] == 0
    assert door.gauge("places_taken") == 0


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
    assert door.gauge("places") == MIN_LIMIT
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
        door.clock.now += 9.0
        place.release(succeeded=False)
    door.gate.adjust()
    assert (door.gauge("places"), door.gauge("places_taken")) == (INITIAL_LIMIT, 0)


def test_a_slow_upload_holds_no_slot_and_is_timed_from_its_last_byte() -> None:
    door = Door()
    slow = [door.gate.try_acquire(b"a") for _ in range(INITIAL_LIMIT // 2)]
    assert door.gate.try_acquire(b"a") is None
    door.clock.now += SLOW_UPLOAD_S * 1.1
    door.gate.adjust()
    assert door.gauge("places_taken") == 0
    for place in slow:
        assert place is not None
        place.on_body_received()
    assert door.gauge("places_taken") == INITIAL_LIMIT // 2
    door.clock.now += 0.1
    for place in slow:
        assert place is not None
        place.release(succeeded=True)
    door.gate.adjust()
    assert (door.gauge("places"), door.gauge("places_taken")) == (INITIAL_LIMIT, 0)


def test_who_breaks_off_while_sending_slowly_gives_nothing_back_twice() -> None:
    door = Door()
    place = door.gate.try_acquire(b"a")
    assert place is not None
    door.clock.now += SLOW_UPLOAD_S * 1.1
    door.gate.adjust()
    place.release(succeeded=False)
    assert door.gauge("places_taken") == 0


@pytest.fixture
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at the start, so one for a sender."""
    monkeypatch.setattr(concurrency, "INITIAL_LIMIT", 2)
    monkeypatch.setattr(concurrency, "MIN_LIMIT", 2)


async def fill_the_place(gateway: Gateway) -> "asyncio.Task[int]":
    """A request that holds the place of the first project."""

    async def held() -> int:
        return (await gateway.post("/v1/traces", traces(span(1)))).status

    task = asyncio.create_task(held())
    await eventually(lambda: gateway.metric("inflight_items") == 1)
    return task


@pytest.mark.usefixtures("few_places")
async def test_without_a_slot_a_request_gets_503_with_a_jittered_retry_after_and_others_get_slots(
    start_gateway: StartGateway,
) -> None:
    store = Stopped()
    gateway = await start_gateway(store)
    held = await fill_the_place(gateway)
    waits = set()
    for number in range(40):
        refused = await gateway.post("/v1/logs", logs(log(number)), {"X-Request-Id": f"r-{number}"})
        assert (refused.status, refused.content_type, refused.headers["X-Request-Id"]) == (503, PROTOBUF, f"r-{number}")
        assert "Connection" not in refused.headers
        status = Status.FromString(refused.body)
        assert (status.code, status.message) == (14, MESSAGE)
        waits.add(int(refused.headers["Retry-After"]))
    assert waits <= {1, 2, 3, 4, 5}
    assert len(waits) > 1
    other = asyncio.ensure_future(gateway.post("/v1/traces", traces(span(2)), project=1))
    await eventually(lambda: gateway.metric("inflight_items") == 2)
    store.released.set()
    assert (await held, (await other).status) == (200, 200)
    await gateway.stop()
    assert gateway.metric("requests_total", signal="logs", outcome="refused", reason="overloaded") == 40
    assert gateway.metric("requests_total", outcome="answered") == 2
    outcomes = [insert.body for insert in store.taken if insert.table == "ingest_outcomes"]
    assert any(b"overloaded" in body for body in outcomes)


@pytest.mark.usefixtures("few_places")
async def test_a_credential_that_varies_is_one_sender(start_gateway: StartGateway) -> None:
    store = Stopped()
    gateway = await start_gateway(store)
    held = await fill_the_place(gateway)
    for number in range(3):
        varied = {"X-Legacy-Auth": f"Legacy legacy_key={gateway.projects[0].key}, t={number}"}
        refused = await gateway.post("/v1/traces", traces(span(2)), varied)
        assert Status.FromString(refused.body).message == MESSAGE
    other = asyncio.ensure_future(gateway.post("/v1/traces", traces(span(2)), project=1))
    await eventually(lambda: gateway.metric("inflight_items") == 2)
    store.released.set()
    assert (await held, (await other).status) == (200, 200)


@pytest.mark.usefixtures("few_places")
async def test_a_json_request_gets_json(start_gateway: StartGateway) -> None:
    store = Stopped()
    gateway = await start_gateway(store)
    held = await fill_the_place(gateway)
    refused = await gateway.post(
        "/v1/traces", traces_json(span(2)), {"Content-Type": "Application/JSON; charset=utf-8"}
    )
    assert (refused.status, refused.content_type) == (503, JSON)
    assert refused.json == {
        "code": 14,
        "message": MESSAGE,
        "error": {
            "code": "service_unavailable",
            "message": MESSAGE,
            "requestId": refused.headers["X-Request-Id"],
        },
    }
    store.released.set()
    assert await held == 200


@pytest.mark.usefixtures("few_places")
@pytest.mark.parametrize("media", [PROTOBUF, JSON])
async def test_the_answer_is_that_of_the_skeleton(start_gateway: StartGateway, media: str) -> None:
    """The one in bytes, and the one for a request that only the skeleton can turn away."""
    store = Stopped()
    gateway = await start_gateway(store, cors_origins=("https://page",))
    held = await fill_the_place(gateway)
    given = {"Content-Type": media, "X-Request-Id": "same"}
    plain = await gateway.post("/v1/traces", traces(span(2)), given)
    unusual = await gateway.post("/v1/traces", traces(span(2)), given | {"Origin": "https://page"})
    told = ("Content-Type", "X-Request-Id", "Server", "Content-Length", "Vary")
    assert [plain.headers[name] for name in told] == [unusual.headers[name] for name in told]
    assert (plain.status, plain.body) == (unusual.status, unusual.body)
    assert plain.headers["Date"].endswith(" GMT")
    assert unusual.headers["Access-Control-Allow-Origin"] == "https://page"
    store.released.set()
    assert await held == 200
    await gateway.stop()
    assert gateway.metric("requests_total", reason="overloaded") == 2


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
    store = Stopped()
    gateway = await start_gateway(store, target_delay_s=0.0)
    sent = [asyncio.ensure_future(gateway.post("/v1/traces", traces(span(n)))) for n in range(1, 9)]
    await eventually(lambda: gateway.metric("inflight_items") == 8)
    store.released.set()
    assert {(await one).status for one in sent} == {200}
