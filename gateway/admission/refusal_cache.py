"""Caches refusals of clients whose limit is used up, so that their requests are answered 429 before they are parsed.

When an export is refused because its key is over its rate, or because nothing is left of its organization's month, it
is known how long the next export would be refused too. During that time, at most MAX_AGE_NS, this cache gives requests
with the same key the same response, at a small part of the cost of parsing and checking a request. Three kinds of
request are always handled as usual: later requests, requests with a shorter body than the refused request whose items
did not fit, and requests with a `project_id`, which may belong to another project than the key. Only valid keys are
cached.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from aiohttp import web
from prometheus_client import Counter

from chassis.auth.project_credential import ANONYMOUS
from chassis.errors import ApiError, ServiceUnavailable, envelope
from chassis.http.access import PROJECT
from chassis.http.preparse import PreParseFilter, RequestPreview, Slot, client_key_of, date_line
from chassis.limits.limiter import SECOND_NS, LimitClass
from chassis.limits.rate_limits import LIMIT_RESULT, ClientRequest, limit_headers
from gateway.admission.concurrency import is_protobuf, request_id_of
from gateway.metrics import WIRE_BYTES, OutcomeCounters
from proto.errors import ErrorCode
from proto.otlp.policy import Signal
from proto.otlp.responses import CONTENT_TYPES, Media, status_json, status_protobuf

MAX_AGE_NS: Final = SECOND_NS  # short, because a key may be revoked or a limit raised
MAX_ENTRIES: Final = 10_000
CACHEABLE_CODES: Final = frozenset({ErrorCode.RATE_LIMITED, ErrorCode.QUOTA_EXCEEDED})


class CachedRefusal(NamedTuple):
    """The refusal of a client until `expires_ns` (monotonic), for bodies of at least `min_bytes`. `head`: status line
    and the first headers; ends with CRLF.
    """

    expires_ns: int
    min_bytes: int
    project_id: int
    error: ApiError
    head: bytes
    protobuf_status: bytes


class RefusalCache:
    """A pre-parse filter in front of `next_filter`, if there is one. `clock` gives monotonic nanoseconds."""

    def __init__(
        self,
        next_filter: PreParseFilter | None,
        outcomes: OutcomeCounters,
        rate_limited: Counter,
        clock: Callable[[], int],
        *,
        vary: bool = False,
    ) -> None:
        """`rate_limited` counts refusals by class of limit (label `limit`)."""
        self._next_filter = next_filter
        self._outcomes = outcomes
        self._rate_limited = rate_limited.labels(LimitClass.OTLP)
        self._clock = clock
        self._vary = b"Vary: Origin\r\n" if vary else b""
        self._refusals: OrderedDict[bytes, CachedRefusal] = OrderedDict()

    def add(self, request: web.Request, error: ApiError) -> None:
        """Cache the refusal of an export, if `error` is a used-up limit of a valid key."""
        if error.code in CACHEABLE_CODES:
            self.add_for(client_key_of(request), request, error)

    def add_for(self, client_key: bytes, request: ClientRequest, error: ApiError) -> None:
        """Cache the refusal of a request whose `client_key` is known."""
        if error.code not in CACHEABLE_CODES or PROJECT not in request:
            return
        if client_key == ANONYMOUS:
            return  # it would apply to all clients without a key
        now = self._clock()
        # If some of the quota was left, the body was read, and shorter ones may still fit.
        min_bytes = (request.get(WIRE_BYTES) or 0) if error.code is ErrorCode.QUOTA_EXCEEDED else 0
        self._refusals[client_key] = CachedRefusal(
            expires_ns=now + min(MAX_AGE_NS, request[LIMIT_RESULT].wait_ns),
            min_bytes=min_bytes,
            project_id=request[PROJECT].project_id,
            error=error,
            head=self._response_head(request, error),
            protobuf_status=status_protobuf(error.status, error.message),
        )
        self._refusals.move_to_end(client_key)
        self._evict(now)

    def cached_refusal(self, preview: RequestPreview) -> bytes | None:
        """The cached 429, with the bytes that `OtlpResponses` would render, counted; None if the request is to be
        handled."""
        if not self._refusals:
            return None
        refusal = self._find(preview.client_key, preview.content_length)
        if refusal is None or not preview.is_simple or preview.has_project_id:
            return None
        signal: Signal = "logs" if preview.route.endswith(b"/logs") else "traces"
        self._count(refusal, signal, preview.received_body_bytes)
        return _render(refusal, preview)

    def cached_error(self, client_key: bytes, signal: Signal) -> ApiError | None:
        """The cached refusal as an error, for a request whose body has an unknown length and is not received yet."""
        refusal = self._find(client_key, 0)
        if refusal is not None:
            self._count(refusal, signal, 0)
        return None if refusal is None else refusal.error

    def try_acquire(self, client_key: bytes) -> Slot | None:
        """A slot of the next filter; an unlimited slot if there is no next filter."""
        return _UNLIMITED_SLOT if self._next_filter is None else self._next_filter.try_acquire(client_key)

    def overload_response(self, preview: RequestPreview) -> bytes:
        """The response of the next filter."""
        return self._required_next_filter.overload_response(preview)

    def overload_error(self) -> ServiceUnavailable:
        """The error of the next filter."""
        return self._required_next_filter.overload_error()

    def _find(self, client_key: bytes, nbytes: int) -> CachedRefusal | None:
        refusal = self._refusals.get(client_key)
        if refusal is None or nbytes < refusal.min_bytes or refusal.expires_ns <= self._clock():
            return None
        return refusal

    def _count(self, refusal: CachedRefusal, signal: Signal, received_bytes: int) -> None:
        self._outcomes.refused(signal, refusal.error.code.value, refusal.project_id, received_bytes, 0)
        if refusal.error.code is ErrorCode.RATE_LIMITED:
            self._rate_limited.inc()

    def _evict(self, now: int) -> None:
        """Remove expired refusals, and the oldest beyond MAX_ENTRIES."""
        refusals = self._refusals
        while refusals and (len(refusals) > MAX_ENTRIES or next(iter(refusals.values())).expires_ns <= now):
            refusals.popitem(last=False)

    @property
    def _required_next_filter(self) -> PreParseFilter:
        if self._next_filter is None:
            raise TypeError("no filter follows the cache of refusals, so no request is refused for overload")
        return self._next_filter

    def _response_head(self, request: ClientRequest, error: ApiError) -> bytes:
        headers = {"Retry-After": str(error.retry_after), **limit_headers(request)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return b"HTTP/1.1 429 Too Many Requests\r\nServer: sluice\r\n" + self._vary + lines.encode()


class _UnlimitedSlot:
    """The slot of all requests when there is no limit."""

    def on_body_received(self) -> None:
        """Does nothing."""

    def release(self, *, succeeded: bool) -> None:
        """Does nothing."""


_UNLIMITED_SLOT: Final = _UnlimitedSlot()


def _render(refusal: CachedRefusal, preview: RequestPreview) -> bytes:
    rid = request_id_of(preview)
    media: Media = "protobuf" if is_protobuf(preview) else "json"
    body = refusal.protobuf_status if media == "protobuf" else _json_body(refusal.error, rid.decode())
    return b"%s%sX-Request-Id: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        *(refusal.head, date_line(), rid, CONTENT_TYPES[media].encode(), len(body), body),
    )


def _json_body(error: ApiError, rid: str) -> bytes:
    return status_json(error.status, error.message, (), envelope(error, rid)["error"])
