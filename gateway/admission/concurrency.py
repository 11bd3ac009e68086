"""Under overload as many requests are taken as can be answered soon; the rest are turned away before they are parsed.

Bounds of memory keep a process alive, not its answers timely: what waits in memory is answered too late. Here the
number of requests between their head and their answer is bounded (`places`), and the bound follows the time that
answers take (`places_after`): by Little's law, places = answers a second * time to an answer. Senders share the places
(`Shares`), so that one which floods the process leaves the others theirs. A sender is told by its key
(`chassis.http.client_key`), which is not checked yet, for that alone would cost several times a refusal.

docs/adr/011-overload.md has what was weighed and measured.
"""

import random
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple

import structlog
from aiohttp import web

from chassis.errors import MAX_RETRY_SECONDS, ServiceUnavailable, envelope
from chassis.http.preparse import RequestPreview, date_line
from chassis.http.request_ids import new_request_id
from chassis.runtime.periodic import PeriodicTask
from gateway.admission.fair_share import FairShare
from gateway.outcomes import NO_PROJECT, SIGNALS, Metrics, OutcomeCounters
from gateway.settings import GatewaySettings
from proto.otlp.policy import Signal
from proto.otlp.responses import CONTENT_TYPES, status_json, status_protobuf

log = structlog.get_logger(__name__)

OVERLOADED: Final = "overloaded"  # in metrics and outcomes: why it was refused
MESSAGE: Final = "The gateway is overloaded; send the request again later."

MIN_LIMIT: Final = 64  # places; where these take too long it is for other reasons than their number
MAX_LIMIT: Final = 2**16
INITIAL_LIMIT: Final = 512
SHRINK_FACTOR: Final = 0.5  # at once, at most
GROWTH_FACTOR: Final = 1.25
WINDOW_S: Final = 0.25  # between changes: an answer's time shows the change before
STORE_DEADLINE_FRACTION: Final = 0.5  # of the ack deadline
MAX_SAMPLES: Final = 2_000  # of answers that are looked at in a window
NEWCOMER_SLOTS: Final = 64  # places beyond all of them, for senders that hold none
SLOW_UPLOAD_S: Final = 1.0  # a body that takes longer than this to arrive holds no place until it is whole

REQUEST_ID: Final = re.compile(rb"[ \t]*([A-Za-z0-9._-]{1,64})[ \t]*")


class Overloaded(ServiceUnavailable):
    """503: there was no place."""


class Window(NamedTuple):
    """What was seen in a stretch of time: seconds from the last byte of a request to its answer, and refusals."""

    latencies_s: list[float]
    refused: int

    @property
    def median_s(self) -> float:
        """Half of the answers took longer; 0 without any."""
        return sorted(self.latencies_s)[len(self.latencies_s) // 2] if self.latencies_s else 0.0


def target_latency_s(settings: GatewaySettings, durability: str) -> float:
    """The time that is aimed at. In mode store an answer waits for ClickHouse, which is no overload."""
    waiting_s = settings.ack_deadline_s * STORE_DEADLINE_FRACTION if durability == "store" else 0.0
    return max(settings.target_delay_s, waiting_s)


def next_limit(limit: int, previous: Window, window: Window, target_s: float) -> int:
    """How many places there are to be, so that half of the answers come within `target_s`.

    Fewer when they took longer in two windows: in one alone it was a stall, which is over, and whoever waited then is
    better answered late than sent away. More when they came sooner and there were too few places; and up to `FIRST` in
    any case, so that there is room for a burst.
    """
    median_s = window.median_s
    if not median_s:
        return limit  # nothing was answered: that says nothing
    # The root, because what is seen is the time that answers took under earlier numbers of places.
    change = (target_s / median_s) ** 0.5
    if change < 1:
        return max(MIN_LIMIT, int(limit * max(change, SHRINK_FACTOR))) if previous.median_s > target_s else limit
    most = MAX_LIMIT if window.refused else max(INITIAL_LIMIT, limit)
    return min(most, 1 + int(limit * min(change, GROWTH_FACTOR)))


class ConcurrencyLimiter:
    """The gate of the export routes. `clock` gives monotonic seconds."""

    def __init__(
        self,
        target_s: float,
        metrics: Metrics,
        outcomes: OutcomeCounters,
        clock: Callable[[], float],
        *,
        vary: bool = False,
    ) -> None:
        self._target_s = target_s
        self._outcomes = outcomes
        self._clock = clock
        self._slots: FairShare[bytes] = FairShare(INITIAL_LIMIT)
        self._newcomers = 0
        self._receiving: OrderedDict[_Slot, float] = OrderedDict()  # the longest under way first
        self._previous_window = Window([], 0)
        self._latencies_s: list[float] = []
        self._refused = 0
        self._uncounted_refusals: dict[Signal, list[int]] = {signal: [0, 0] for signal in SIGNALS}  # requests, bytes
        self._response_template = _RawOverloadResponse(b"Vary: Origin\r\n" if vary else b"")
        metrics.places.set_function(lambda: self._slots.capacity)
        metrics.places_taken.set_function(lambda: self._slots.taken)

    def try_acquire(self, client_key: bytes) -> "_Slot | None":
        """A place for a request of `sender`, or None. Where there are suddenly fewer places than are taken, who holds
        none does not wait for those who had them.
        """
        beyond = not self._slots.take(client_key, 1)
        if beyond:
            if self._newcomers >= NEWCOMER_SLOTS or self._slots.held(client_key):
                self._refused += 1
                return None
            self._newcomers += 1
            self._slots.change(client_key, 1)
        place = _Slot(self, client_key, is_newcomer=beyond)
        self._receiving[place] = self._clock()
        return place

    def cached_refusal(self, _preview: RequestPreview) -> bytes | None:
        """Nothing is known of any."""
        return None

    def overload_response(self, preview: RequestPreview) -> bytes:
        """503 with Retry-After, as `Answers` would give it; counted with others at the end of the window."""
        counts = self._uncounted_refusals["logs" if preview.route.endswith(b"/logs") else "traces"]
        counts[0] += 1
        counts[1] += preview.received_body_bytes
        return self._response_template.render(preview)

    def overload_error(self) -> ServiceUnavailable:
        """The same as an error."""
        return Overloaded(MESSAGE)

    def on_body_received(self, slot: "_Slot") -> None:
        """The body of a request is whole."""
        if self._receiving.pop(slot, None) is None:
            self._slots.change(slot.client_key, 1)  # it was too slow to keep its place
        slot.received_at = self._clock()

    def release(self, slot: "_Slot", *, succeeded: bool) -> None:
        """A request is over."""
        if slot.is_newcomer:
            slot.is_newcomer = False
            self._newcomers -= 1
        if self._receiving.pop(slot, None) is not None or slot.received_at:
            self._slots.change(slot.client_key, -1)
        if succeeded and slot.received_at and len(self._latencies_s) < MAX_SAMPLES:
            self._latencies_s.append(self._clock() - slot.received_at)

    def adjust(self) -> None:
        """The end of a window."""
        window = Window(self._latencies_s, self._refused)
        self._slots.capacity = next_limit(self._slots.capacity, self._previous_window, window, self._target_s)
        self._previous_window, self._latencies_s, self._refused = window, [], 0
        self._release_slow_uploads()
        self.flush_refused()

    def flush_refused(self) -> None:
        """Enter in the books who was turned away."""
        for signal, counts in self._uncounted_refusals.items():
            if counts[0]:
                self._outcomes.refused(signal, OVERLOADED, NO_PROJECT, counts[1], 0, requests=counts[0])
                counts[:] = 0, 0

    async def task(self, _app: web.Application) -> AsyncIterator[None]:
        """Look at the end of each window for as long as the application runs."""

        async def look() -> None:
            self.adjust()

        rounds = PeriodicTask(look, WINDOW_S, log, "places cannot be counted")
        rounds.start()
        yield
        await rounds.close()
        self.flush_refused()

    def _release_slow_uploads(self) -> None:
        """Who sends a body slowly waits for his own line, and must not keep others from a place."""
        since = self._clock() - SLOW_UPLOAD_S
        while self._receiving and next(iter(self._receiving.values())) < since:
            place, _ = self._receiving.popitem(last=False)
            self._slots.change(place.client_key, -1)


class _Slot:
    """That of one request."""

    __slots__ = ("_limiter", "client_key", "is_newcomer", "received_at")

    def __init__(self, limiter: ConcurrencyLimiter, client_key: bytes, *, is_newcomer: bool) -> None:
        self._limiter = limiter
        self.client_key = client_key
        self.is_newcomer = is_newcomer
        self.received_at = 0.0  # when its body was whole

    def on_body_received(self) -> None:
        if not self.received_at:
            self._limiter.on_body_received(self)

    def release(self, *, succeeded: bool) -> None:
        self._limiter.release(self, succeeded=succeeded)


class _RawOverloadResponse:
    """503 in the request's media type, made once but for its id and its time."""

    def __init__(self, headers: bytes) -> None:
        body = status_protobuf(503, MESSAGE)
        head = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: %s\r\nServer: sluice\r\n" + headers
        self._json_head = head % CONTENT_TYPES["json"].encode()
        self._protobuf_head = head % CONTENT_TYPES["protobuf"].encode() + b"Content-Length: %d\r\n" % len(body)
        self._protobuf_body = body

    def render(self, preview: RequestPreview) -> bytes:
        kept = REQUEST_ID.fullmatch(preview.headers.get(b"x-request-id", b""))
        rid = kept[1] if kept is not None else new_request_id().encode()
        later = random.randint(1, MAX_RETRY_SECONDS)  # noqa: S311 (jitter)
        told = b"%sX-Request-Id: %s\r\nRetry-After: %d\r\n" % (date_line(), rid, later)
        media = preview.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media == CONTENT_TYPES["protobuf"].encode():
            return b"%s%s\r\n%s" % (self._protobuf_head, told, self._protobuf_body)
        body = status_json(503, MESSAGE, (), envelope(ServiceUnavailable(MESSAGE), rid.decode())["error"])
        return b"%s%sContent-Length: %d\r\n\r\n%s" % (self._json_head, told, len(body), body)
