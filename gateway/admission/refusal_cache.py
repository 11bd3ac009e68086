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

from chassis.errors import ApiError, ServiceUnavailable, envelope
from chassis.http.access import PROJECT
from chassis.http.client_key import ANONYMOUS
from chassis.http.preparse import PreParseFilter, RequestPreview, Slot, client_key_of, date_line
from chassis.http.request_ids import new_request_id
from chassis.limits.gcra import SECOND_NS
from chassis.limits.limiter import LimitClass
from chassis.limits.rate_limits import LIMIT_RESULT, limit_headers
from gateway.admission.concurrency import REQUEST_ID
from gateway.outcomes import OutcomeCounters
from gateway.request_keys import WIRE_BYTES
from proto.errors import ErrorCode
from proto.otlp.policy import Signal
from proto.otlp.responses import CONTENT_TYPES, status_json, status_protobuf

MAX_AGE_NS: Final = SECOND_NS  # a key may be revoked meanwhile, a limit raised
MAX_ENTRIES: Final = 10_000
CACHEABLE_CODES: Final = frozenset({ErrorCode.RATE_LIMITED, ErrorCode.QUOTA_EXCEEDED})

_PROTOBUF: Final = CONTENT_TYPES["protobuf"].encode()
_JSON: Final = CONTENT_TYPES["json"].encode()


class CachedRefusal(NamedTuple):
    """What a sender is told until `until` (ns); about bodies of `least` bytes and more. `head` ends with a line end."""

    expires_ns: int
    min_bytes: int
    project_id: int
    error: ApiError
    head: bytes
    protobuf_status: bytes


class RefusalCache:
    """In front of another gate, if there is one. `clock` gives monotonic nanoseconds."""

    def __init__(
        self,
        next_filter: PreParseFilter | None,
        outcomes: OutcomeCounters,
        rate_limited: Counter,
        clock: Callable[[], int],
        *,
        vary: bool = False,
    ) -> None:
        """`limited` counts refusals by class of limit (`limit`)."""
        self._next_filter = next_filter
        self._outcomes = outcomes
        self._rate_limited = rate_limited.labels(LimitClass.OTLP)
        self._clock = clock
        self._vary = b"Vary: Origin\r\n" if vary else b""
        self._refusals: OrderedDict[bytes, CachedRefusal] = OrderedDict()

    def add(self, request: web.Request, error: ApiError) -> None:
        """An export is refused for this error."""
        if error.code not in CACHEABLE_CODES or PROJECT not in request:
            return
        sender, now = client_key_of(request), self._clock()
        if sender == ANONYMOUS:
            return  # it would be said to all who have no key
        # With items to spare the body was read, and the rest of it is for shorter ones.
        least = request.get(WIRE_BYTES, 0) if error.code is ErrorCode.QUOTA_EXCEEDED else 0
        self._refusals[sender] = CachedRefusal(
            expires_ns=now + min(MAX_AGE_NS, request[LIMIT_RESULT].wait_ns),
            min_bytes=least,
            project_id=request[PROJECT].project_id,
            error=error,
            head=self._response_head(request, error),
            protobuf_status=status_protobuf(error.status, error.message),
        )
        self._refusals.move_to_end(sender)
        self._evict(now)

    def cached_refusal(self, preview: RequestPreview) -> bytes | None:
        """429 as `Answers` would give it, counted likewise."""
        if not self._refusals:
            return None
        refusal = self._refusals.get(preview.client_key)
        if refusal is None or preview.content_length < refusal.min_bytes or refusal.expires_ns <= self._clock():
            return None
        if not preview.is_simple or preview.has_project_id:
            return None
        signal: Signal = "logs" if preview.route.endswith(b"/logs") else "traces"
        self._outcomes.refused(signal, refusal.error.code.value, refusal.project_id, preview.received_body_bytes, 0)
        if refusal.error.code is ErrorCode.RATE_LIMITED:
            self._rate_limited.inc()
        return _render(refusal, preview)

    def try_acquire(self, client_key: bytes) -> Slot | None:
        """As behind it."""
        return _UNLIMITED_SLOT if self._next_filter is None else self._next_filter.try_acquire(client_key)

    def overload_response(self, preview: RequestPreview) -> bytes:
        """As behind it."""
        return self._required_next_filter.overload_response(preview)

    def overload_error(self) -> ServiceUnavailable:
        """As behind it."""
        return self._required_next_filter.overload_error()

    def _evict(self, now: int) -> None:
        """What is over, and what there is no room for."""
        kept = self._refusals
        while kept and (len(kept) > MAX_ENTRIES or next(iter(kept.values())).expires_ns <= now):
            kept.popitem(last=False)

    @property
    def _required_next_filter(self) -> PreParseFilter:
        if self._next_filter is None:
            raise TypeError("without a gate behind nobody lacks a place")
        return self._next_filter

    def _response_head(self, request: web.Request, error: ApiError) -> bytes:
        told = {"Retry-After": str(error.retry_after), **limit_headers(request)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        return b"HTTP/1.1 429 Too Many Requests\r\nServer: sluice\r\n" + self._vary + lines.encode()


class _UnlimitedSlot:
    """A place that there is always another of."""

    def on_body_received(self) -> None:
        """Nobody minds."""

    def release(self, *, succeeded: bool) -> None:
        """Nobody minds."""


_UNLIMITED_SLOT: Final = _UnlimitedSlot()


def _render(refusal: CachedRefusal, preview: RequestPreview) -> bytes:
    kept = REQUEST_ID.fullmatch(preview.headers.get(b"x-request-id", b""))
    rid = kept[1] if kept is not None else new_request_id().encode()
    media = preview.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    body, media = (
        (refusal.protobuf_status, media) if media == _PROTOBUF else (_json_body(refusal.error, rid.decode()), _JSON)
    )
    return b"%s%sX-Request-Id: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        *(refusal.head, date_line(), rid, media, len(body), body),
    )


def _json_body(error: ApiError, rid: str) -> bytes:
    return status_json(error.status, error.message, (), envelope(error, rid)["error"])
