"""Under overload as many requests are taken as can be answered soon; the rest are turned away before they are parsed.

Bounds of memory keep a process alive, not its answers timely: what waits in memory is answered too late. Here the
number of requests between their head and their answer is bounded (`places`), and the bound follows the time that
answers take (`places_after`): by Little's law, places = answers a second * time to an answer. Senders share the places
(`Shares`), so that one which floods the process leaves the others theirs. A sender is told by its key
(`chassis.senders`), which is not checked yet, for that alone would cost several times a refusal.

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
from chassis.gate import Glimpse, date_line
from chassis.request_ids import new_request_id
from chassis.rounds import Rounds
from gateway.outcomes import NO_PROJECT, SIGNALS, Ledger, Metrics
from gateway.settings import GatewaySettings
from gateway.shares import Shares
from proto.otlp.policy import Signal
from proto.otlp.responses import CONTENT_TYPES, status_json, status_protobuf

log = structlog.get_logger(__name__)

OVERLOADED: Final = "overloaded"  # in metrics and outcomes: why it was refused
MESSAGE: Final = "The gateway is overloaded; send the request again later."

FEWEST: Final = 64  # places; where these take too long it is for other reasons than their number
MOST: Final = 2**16
FIRST: Final = 512
SHRINK: Final = 0.5  # at once, at most
GROW: Final = 1.25
WINDOW_S: Final = 0.25  # between changes: an answer's time shows the change before
WAITING_IS_FINE: Final = 0.5  # of the ack deadline
MAX_TIMES: Final = 2_000  # of answers that are looked at in a window
BEYOND: Final = 64  # places beyond all of them, for senders that hold none
ARRIVAL_S: Final = 1.0  # a body that takes longer than this to arrive holds no place until it is whole

REQUEST_ID: Final = re.compile(rb"[ \t]*([A-Za-z0-9._-]{1,64})[ \t]*")


class Overloaded(ServiceUnavailable):
    """503: there was no place."""


class Window(NamedTuple):
    """What was seen in a stretch of time: seconds from the last byte of a request to its answer, and refusals."""

    times: list[float]
    refused: int

    @property
    def median_s(self) -> float:
        """Half of the answers took longer; 0 without any."""
        return sorted(self.times)[len(self.times) // 2] if self.times else 0.0


def target_of(settings: GatewaySettings, durability: str) -> float:
    """The time that is aimed at. In mode store an answer waits for ClickHouse, which is no overload."""
    waiting_s = settings.ack_deadline_s * WAITING_IS_FINE if durability == "store" else 0.0
    return max(settings.target_delay_s, waiting_s)


def places_after(places: int, before: Window, window: Window, target_s: float) -> int:
    """How many places there are to be, so that half of the answers come within `target_s`.

    Fewer when they took longer in two windows: in one alone it was a stall, which is over, and whoever waited then is
    better answered late than sent away. More when they came sooner and there were too few places; and up to `FIRST` in
    any case, so that there is room for a burst.
    """
    median_s = window.median_s
    if not median_s:
        return places  # nothing was answered: that says nothing
    # The root, because what is seen is the time that answers took under earlier numbers of places.
    change = (target_s / median_s) ** 0.5
    if change < 1:
        return max(FEWEST, int(places * max(change, SHRINK))) if before.median_s > target_s else places
    most = MOST if window.refused else max(FIRST, places)
    return min(most, 1 + int(places * min(change, GROW)))


class Shedding:
    """The gate of the export routes. `clock` gives monotonic seconds."""

    def __init__(
        self, target_s: float, metrics: Metrics, ledger: Ledger, clock: Callable[[], float], *, vary: bool = False
    ) -> None:
        self._target_s = target_s
        self._ledger = ledger
        self._clock = clock
        self._places: Shares[bytes] = Shares(FIRST)
        self._beyond = 0
        self._arriving: OrderedDict[_Place, float] = OrderedDict()  # the longest under way first
        self._before = Window([], 0)
        self._times: list[float] = []
        self._refused = 0
        self._uncounted: dict[Signal, list[int]] = {signal: [0, 0] for signal in SIGNALS}  # requests, bytes
        self._answers = _Answers(b"Vary: Origin\r\n" if vary else b"")
        metrics.places.set_function(lambda: self._places.most)
        metrics.places_taken.set_function(lambda: self._places.taken)

    def enter(self, sender: bytes) -> "_Place | None":
        """A place for a request of `sender`, or None. Where there are suddenly fewer places than are taken, who holds
        none does not wait for those who had them.
        """
        beyond = not self._places.take(sender, 1)
        if beyond:
            if self._beyond >= BEYOND or self._places.held(sender):
                self._refused += 1
                return None
            self._beyond += 1
            self._places.change(sender, 1)
        place = _Place(self, sender, beyond=beyond)
        self._arriving[place] = self._clock()
        return place

    def spent(self, _glimpse: Glimpse) -> bytes | None:
        """Nothing is known of any."""
        return None

    def refusal(self, glimpse: Glimpse) -> bytes:
        """503 with Retry-After, as `Answers` would give it; counted with others at the end of the window."""
        counts = self._uncounted["logs" if glimpse.route.endswith(b"/logs") else "traces"]
        counts[0] += 1
        counts[1] += glimpse.came
        return self._answers.to(glimpse)

    def refused(self) -> ServiceUnavailable:
        """The same as an error."""
        return Overloaded(MESSAGE)

    def arrived(self, place: "_Place") -> None:
        """The body of a request is whole."""
        if self._arriving.pop(place, None) is None:
            self._places.change(place.sender, 1)  # it was too slow to keep its place
        place.since = self._clock()

    def leave(self, place: "_Place", *, answered: bool) -> None:
        """A request is over."""
        if place.beyond:
            place.beyond = False
            self._beyond -= 1
        if self._arriving.pop(place, None) is not None or place.since:
            self._places.change(place.sender, -1)
        if answered and place.since and len(self._times) < MAX_TIMES:
            self._times.append(self._clock() - place.since)

    def look(self) -> None:
        """The end of a window."""
        window = Window(self._times, self._refused)
        self._places.most = places_after(self._places.most, self._before, window, self._target_s)
        self._before, self._times, self._refused = window, [], 0
        self._forget_slow()
        self.count()

    def count(self) -> None:
        """Enter in the books who was turned away."""
        for signal, counts in self._uncounted.items():
            if counts[0]:
                self._ledger.refused(signal, OVERLOADED, NO_PROJECT, counts[1], 0, requests=counts[0])
                counts[:] = 0, 0

    async def looking(self, _app: web.Application) -> AsyncIterator[None]:
        """Look at the end of each window for as long as the application runs."""

        async def look() -> None:
            self.look()

        rounds = Rounds(look, WINDOW_S, log, "places cannot be counted")
        rounds.start()
        yield
        await rounds.close()
        self.count()

    def _forget_slow(self) -> None:
        """Who sends a body slowly waits for his own line, and must not keep others from a place."""
        since = self._clock() - ARRIVAL_S
        while self._arriving and next(iter(self._arriving.values())) < since:
            place, _ = self._arriving.popitem(last=False)
            self._places.change(place.sender, -1)


class _Place:
    """That of one request."""

    __slots__ = ("_shedding", "beyond", "sender", "since")

    def __init__(self, shedding: Shedding, sender: bytes, *, beyond: bool) -> None:
        self._shedding = shedding
        self.sender = sender
        self.beyond = beyond
        self.since = 0.0  # when its body was whole

    def arrived(self) -> None:
        if not self.since:
            self._shedding.arrived(self)

    def leave(self, *, answered: bool) -> None:
        self._shedding.leave(self, answered=answered)


class _Answers:
    """503 in the request's media type, made once but for its id and its time."""

    def __init__(self, headers: bytes) -> None:
        body = status_protobuf(503, MESSAGE)
        head = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: %s\r\nServer: sluice\r\n" + headers
        self._json_head = head % CONTENT_TYPES["json"].encode()
        self._protobuf_head = head % CONTENT_TYPES["protobuf"].encode() + b"Content-Length: %d\r\n" % len(body)
        self._protobuf_body = body

    def to(self, glimpse: Glimpse) -> bytes:
        kept = REQUEST_ID.fullmatch(glimpse.headers.get(b"x-request-id", b""))
        rid = kept[1] if kept is not None else new_request_id().encode()
        later = random.randint(1, MAX_RETRY_SECONDS)  # noqa: S311 (jitter)
        told = b"%sX-Request-Id: %s\r\nRetry-After: %d\r\n" % (date_line(), rid, later)
        media = glimpse.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media == CONTENT_TYPES["protobuf"].encode():
            return b"%s%s\r\n%s" % (self._protobuf_head, told, self._protobuf_body)
        body = status_json(503, MESSAGE, (), envelope(ServiceUnavailable(MESSAGE), rid.decode())["error"])
        return b"%s%sContent-Length: %d\r\n\r\n%s" % (self._json_head, told, len(body), body)
