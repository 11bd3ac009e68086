"""Senders whose limit is used up, turned away before they are parsed.

When an export is refused because its key is over its rate, or because nothing is left of its organization's month, it
is known how long the next one would be refused too. For that long, and KEPT_NS at most, whoever comes with the same key
gets the same answer from here, for a small part of what it costs to parse and check a request; the next one is looked
at as ever. So is, after a request whose items did not fit, one with a shorter body, and one with a
`project_id`, which may be another than the key's. Only keys that were found good are remembered.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from aiohttp import web
from prometheus_client import Counter

from chassis.access import PROJECT
from chassis.errors import ApiError, ServiceUnavailable, envelope
from chassis.gate import Gate, Glimpse, Place, date_line, sender_of
from chassis.limits.admission import VERDICT, limit_headers
from chassis.limits.gcra import SECOND_NS
from chassis.limits.limiter import LimitClass
from chassis.request_ids import new_request_id
from chassis.senders import NOBODY
from gateway.answers import WIRE_BYTES
from gateway.outcomes import Ledger
from gateway.shedding import REQUEST_ID
from proto.errors import ErrorCode
from proto.otlp.policy import Signal
from proto.otlp.responses import CONTENT_TYPES, status_json, status_protobuf

KEPT_NS: Final = SECOND_NS  # a key may be revoked meanwhile, a limit raised
MAX_SENDERS: Final = 10_000
LIMITS: Final = frozenset({ErrorCode.RATE_LIMITED, ErrorCode.QUOTA_EXCEEDED})

_PROTOBUF: Final = CONTENT_TYPES["protobuf"].encode()
_JSON: Final = CONTENT_TYPES["json"].encode()


class Refusal(NamedTuple):
    """What a sender is told until `until` (ns); about bodies of `least` bytes and more. `head` ends with a line end."""

    until: int
    least: int
    project_id: int
    error: ApiError
    head: bytes
    status: bytes


class Turnstile:
    """In front of another gate, if there is one. `clock` gives monotonic nanoseconds."""

    def __init__(
        self, behind: Gate | None, ledger: Ledger, limited: Counter, clock: Callable[[], int], *, vary: bool = False
    ) -> None:
        """`limited` counts refusals by class of limit (`limit`)."""
        self._behind = behind
        self._ledger = ledger
        self._limited = limited.labels(LimitClass.OTLP)
        self._clock = clock
        self._vary = b"Vary: Origin\r\n" if vary else b""
        self._refusals: OrderedDict[bytes, Refusal] = OrderedDict()

    def remember(self, request: web.Request, error: ApiError) -> None:
        """An export is refused for this error."""
        if error.code not in LIMITS or PROJECT not in request:
            return
        sender, now = sender_of(request), self._clock()
        if sender == NOBODY:
            return  # it would be said to all who have no key
        # With items to spare the body was read, and the rest of it is for shorter ones.
        least = request.get(WIRE_BYTES, 0) if error.code is ErrorCode.QUOTA_EXCEEDED else 0
        self._refusals[sender] = Refusal(
            until=now + min(KEPT_NS, request[VERDICT].wait_ns),
            least=least,
            project_id=request[PROJECT].project_id,
            error=error,
            head=self._head(request, error),
            status=status_protobuf(error.status, error.message),
        )
        self._refusals.move_to_end(sender)
        self._drop(now)

    def spent(self, glimpse: Glimpse) -> bytes | None:
        """429 as `Answers` would give it, counted likewise."""
        if not self._refusals:
            return None
        refusal = self._refusals.get(glimpse.sender)
        if refusal is None or glimpse.length < refusal.least or refusal.until <= self._clock():
            return None
        if not glimpse.plain or glimpse.names_project:
            return None
        signal: Signal = "logs" if glimpse.route.endswith(b"/logs") else "traces"
        self._ledger.refused(signal, refusal.error.code.value, refusal.project_id, glimpse.came, 0)
        if refusal.error.code is ErrorCode.RATE_LIMITED:
            self._limited.inc()
        return _answer(refusal, glimpse)

    def enter(self, sender: bytes) -> Place | None:
        """As behind it."""
        return _ANYWHERE if self._behind is None else self._behind.enter(sender)

    def refusal(self, glimpse: Glimpse) -> bytes:
        """As behind it."""
        return self._required.refusal(glimpse)

    def refused(self) -> ServiceUnavailable:
        """As behind it."""
        return self._required.refused()

    def _drop(self, now: int) -> None:
        """What is over, and what there is no room for."""
        kept = self._refusals
        while kept and (len(kept) > MAX_SENDERS or next(iter(kept.values())).until <= now):
            kept.popitem(last=False)

    @property
    def _required(self) -> Gate:
        if self._behind is None:
            raise TypeError("without a gate behind nobody lacks a place")
        return self._behind

    def _head(self, request: web.Request, error: ApiError) -> bytes:
        told = {"Retry-After": str(error.retry_after), **limit_headers(request)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        return b"HTTP/1.1 429 Too Many Requests\r\nServer: sluice\r\n" + self._vary + lines.encode()


class _Anywhere:
    """A place that there is always another of."""

    def arrived(self) -> None:
        """Nobody minds."""

    def leave(self, *, answered: bool) -> None:
        """Nobody minds."""


_ANYWHERE: Final = _Anywhere()


def _answer(refusal: Refusal, glimpse: Glimpse) -> bytes:
    kept = REQUEST_ID.fullmatch(glimpse.headers.get(b"x-request-id", b""))
    rid = kept[1] if kept is not None else new_request_id().encode()
    media = glimpse.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    body, media = (refusal.status, media) if media == _PROTOBUF else (_as_json(refusal.error, rid.decode()), _JSON)
    return b"%s%sX-Request-Id: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        *(refusal.head, date_line(), rid, media, len(body), body),
    )


def _as_json(error: ApiError, rid: str) -> bytes:
    return status_json(error.status, error.message, (), envelope(error, rid)["error"])
