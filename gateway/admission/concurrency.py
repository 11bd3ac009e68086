"""An adaptive concurrency limit: under overload it admits as many requests as can be answered soon, and sheds the rest
before they are parsed.

Memory limits keep a process alive, but do not keep its latency low: requests that wait in memory are answered too late.
So the number of requests that are in progress (head received, response not yet sent) is limited, and the limit follows
the latency (`next_limit`): by Little's law, slots = responses per second * latency. Clients share the slots
(`FairShare`), so that a client that floods the process does not take the slots of other clients. A client is identified
by its key (`chassis.auth.project_credential`), which is not verified yet, because verifying a key costs several times
as much as refusing a request.

docs/adr/011-overload.md records the alternatives and measurements.
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
from chassis.limits.fairness import FairShare
from chassis.runtime.periodic import PeriodicTask
from gateway.metrics import NO_PROJECT, SIGNALS, Metrics, OutcomeCounters
from gateway.settings import GatewaySettings
from proto.otlp.policy import Signal
from proto.otlp.responses import CONTENT_TYPES, status_json, status_protobuf

log = structlog.get_logger(__name__)

OVERLOADED: Final = "overloaded"  # the reason in metrics and outcomes
MESSAGE: Final = "The gateway is overloaded; retry later."

MIN_LIMIT: Final = 64  # slots; if latency is too high with so few requests, their number is not the cause
MAX_LIMIT: Final = 2**16
INITIAL_LIMIT: Final = 512
SHRINK_FACTOR: Final = 0.5  # the limit shrinks at most by this factor per window
GROWTH_FACTOR: Final = 1.25  # the limit grows at most by this factor per window
WINDOW_S: Final = 0.25  # between changes of the limit: long enough for latencies to show the previous change
STORE_DEADLINE_FRACTION: Final = 0.5  # of the ack deadline
MAX_SAMPLES: Final = 2_000  # latencies recorded per window
NEWCOMER_SLOTS: Final = 64  # slots beyond the limit, for clients that hold none
SLOW_UPLOAD_S: Final = 1.0  # a body that takes longer than this to arrive holds no slot until it is complete

_PROTOBUF: Final = CONTENT_TYPES["protobuf"].encode()
_REQUEST_ID: Final = re.compile(rb"[ \t]*([A-Za-z0-9._-]{1,64})[ \t]*")


class Overloaded(ServiceUnavailable):
    """503: no slot was free."""


class Window(NamedTuple):
    """Observations of one window: seconds from the last byte of a request to its response, and refusals."""

    latencies_s: list[float]
    refused: int

    @property
    def median_s(self) -> float:
        """Median latency; 0 if no request was answered."""
        return sorted(self.latencies_s)[len(self.latencies_s) // 2] if self.latencies_s else 0.0


def target_latency_s(settings: GatewaySettings, durability: str) -> float:
    """The target of the median latency. In mode `store` a response waits for ClickHouse, which is no overload, so at
    least half of the ack deadline is allowed.
    """
    store_wait_s = settings.ack_deadline_s * STORE_DEADLINE_FRACTION if durability == "store" else 0.0
    return max(settings.target_delay_s, store_wait_s)


def next_limit(limit: int, previous: Window, window: Window, target_s: float) -> int:
    """The number of slots with which half of the requests are answered within `target_s`.

    The limit shrinks when the median exceeded the target in two windows. If the median exceeded it in only one window,
    that was a stall which is over, and it is better to answer waiting requests late than to refuse them. The limit
    grows when the median was below the target and requests were refused. Below INITIAL_LIMIT it grows without refusals
    too, to leave room for a burst.
    """
    median_s = window.median_s
    if not median_s:
        return limit  # no responses, so no information
    # The square root, because the latencies were observed under earlier limits.
    change = (target_s / median_s) ** 0.5
    if change < 1:
        return max(MIN_LIMIT, int(limit * max(change, SHRINK_FACTOR))) if previous.median_s > target_s else limit
    max_limit = MAX_LIMIT if window.refused else max(INITIAL_LIMIT, limit)
    return min(max_limit, 1 + int(limit * min(change, GROWTH_FACTOR)))


class ConcurrencyLimiter:
    """The pre-parse filter of the export routes. `clock` gives monotonic seconds."""

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
        self._receiving: OrderedDict[_Slot, float] = OrderedDict()  # the oldest first
        self._previous_window = Window([], 0)
        self._latencies_s: list[float] = []
        self._refused = 0
        self._uncounted_refusals: dict[Signal, list[int]] = {signal: [0, 0] for signal in SIGNALS}  # requests, bytes
        self._response_template = _RawOverloadResponse(b"Vary: Origin\r\n" if vary else b"")
        metrics.slot_limit.set_function(lambda: self._slots.capacity)
        metrics.slots_in_use.set_function(lambda: self._slots.taken)

    def try_acquire(self, client_key: bytes) -> "_Slot | None":
        """A slot for a request of `client_key`, or None. When the limit falls below the slots in use, clients without
        slots do not have to wait for clients that hold slots: NEWCOMER_SLOTS are reserved for them.
        """
        is_newcomer = not self._slots.take(client_key, 1)
        if is_newcomer:
            if self._newcomers >= NEWCOMER_SLOTS or self._slots.held(client_key):
                self._refused += 1
                return None
            self._newcomers += 1
            self._slots.change(client_key, 1)
        slot = _Slot(self, client_key, is_newcomer=is_newcomer)
        self._receiving[slot] = self._clock()
        return slot

    def cached_refusal(self, _preview: RequestPreview) -> bytes | None:
        """None: this filter caches no refusals."""
        return None

    def overload_response(self, preview: RequestPreview) -> bytes:
        """503 with Retry-After, the same as `OtlpResponses` renders; counted at the end of the window."""
        counts = self._uncounted_refusals["logs" if preview.route.endswith(b"/logs") else "traces"]
        counts[0] += 1
        counts[1] += preview.received_body_bytes
        return self._response_template.render(preview)

    def overload_error(self) -> ServiceUnavailable:
        """The same response as an ApiError."""
        return Overloaded(MESSAGE)

    def on_body_received(self, slot: "_Slot") -> None:
        """Start to measure the latency of a request whose body is now complete."""
        if self._receiving.pop(slot, None) is None:
            self._slots.change(slot.client_key, 1)  # a slow upload had released it
        slot.received_at = self._clock()

    def release(self, slot: "_Slot", *, succeeded: bool) -> None:
        """Free the slot of a finished request, and record its latency if it `succeeded`."""
        if slot.is_newcomer:
            slot.is_newcomer = False
            self._newcomers -= 1
        if self._receiving.pop(slot, None) is not None or slot.received_at:
            self._slots.change(slot.client_key, -1)
        if succeeded and slot.received_at and len(self._latencies_s) < MAX_SAMPLES:
            self._latencies_s.append(self._clock() - slot.received_at)

    def adjust(self) -> None:
        """End a window: set the limit, release slow uploads, and count refusals."""
        window = Window(self._latencies_s, self._refused)
        self._slots.capacity = next_limit(self._slots.capacity, self._previous_window, window, self._target_s)
        self._previous_window, self._latencies_s, self._refused = window, [], 0
        self._release_slow_uploads()
        self.flush_refused()

    def flush_refused(self) -> None:
        """Count the refusals since the last call, in metrics and outcomes."""
        for signal, counts in self._uncounted_refusals.items():
            if counts[0]:
                self._outcomes.refused(signal, OVERLOADED, NO_PROJECT, counts[1], 0, requests=counts[0])
                counts[:] = 0, 0

    async def task(self, _app: web.Application) -> AsyncIterator[None]:
        """Adjust the limit at the end of each window while the application runs."""

        async def end_window() -> None:
            self.adjust()

        periodic_task = PeriodicTask(end_window, WINDOW_S, log, "adjusting the concurrency limit failed")
        periodic_task.start()
        yield
        await periodic_task.close()
        self.flush_refused()

    def _release_slow_uploads(self) -> None:
        """Free the slots of uploads that take longer than SLOW_UPLOAD_S: they wait for the client's network, and must
        not keep slots from other requests.
        """
        since = self._clock() - SLOW_UPLOAD_S
        while self._receiving and next(iter(self._receiving.values())) < since:
            slot, _ = self._receiving.popitem(last=False)
            self._slots.change(slot.client_key, -1)


class _Slot:
    """The slot of one request."""

    __slots__ = ("_limiter", "client_key", "is_newcomer", "received_at")

    def __init__(self, limiter: ConcurrencyLimiter, client_key: bytes, *, is_newcomer: bool) -> None:
        self._limiter = limiter
        self.client_key = client_key
        self.is_newcomer = is_newcomer
        self.received_at = 0.0  # when its body was complete; 0 before

    def on_body_received(self) -> None:
        if not self.received_at:
            self._limiter.on_body_received(self)

    def release(self, *, succeeded: bool) -> None:
        self._limiter.release(self, succeeded=succeeded)


def request_id_of(preview: RequestPreview) -> bytes:
    """The id that the client gave the request, or a new one."""
    match = _REQUEST_ID.fullmatch(preview.headers.get(b"x-request-id", b""))
    return match[1] if match is not None else new_request_id().encode()


def is_protobuf(preview: RequestPreview) -> bool:
    """Whether the body is protobuf, by its Content-Type: then the response is, too."""
    return preview.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == _PROTOBUF


class _RawOverloadResponse:
    """503 in the media type of the request, rendered in advance except for request id, Date and Retry-After."""

    def __init__(self, headers: bytes) -> None:
        body = status_protobuf(503, MESSAGE)
        head = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: %s\r\nServer: sluice\r\n" + headers
        self._json_head = head % CONTENT_TYPES["json"].encode()
        self._protobuf_head = head % CONTENT_TYPES["protobuf"].encode() + b"Content-Length: %d\r\n" % len(body)
        self._protobuf_body = body

    def render(self, preview: RequestPreview) -> bytes:
        rid = request_id_of(preview)
        retry_after = random.randint(1, MAX_RETRY_SECONDS)  # noqa: S311 (jitter)
        headers = b"%sX-Request-Id: %s\r\nRetry-After: %d\r\n" % (date_line(), rid, retry_after)
        if is_protobuf(preview):
            return b"%s%s\r\n%s" % (self._protobuf_head, headers, self._protobuf_body)
        body = status_json(503, MESSAGE, (), envelope(ServiceUnavailable(MESSAGE), rid.decode())["error"])
        return b"%s%sContent-Length: %d\r\n\r\n%s" % (self._json_head, headers, len(body), body)
