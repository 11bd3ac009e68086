"""Admission before parsing: refusing an excess request here costs much less than parsing it.

A route may have a filter (`Route.pre_parse_filter`). `ConnectionAdmission.check` calls the filter when the head of a
request is received:

    cached_refusal      a limit of this client is known to be exhausted: the request gets this response
    try_acquire         the request gets a slot, which it holds until its handler is done and the response is sent; the
                        request is parsed and handled normally
    overload_response   there is no free slot: the request gets this response, in bytes

The body of a refused request is discarded unparsed as it is received, and the connection is kept, because a new
connection would cost both sides more.

Unusual requests are refused after parsing (`require_slot`), like any other error: requests with a chunked body, with
`Expect`, from a browser page, with `Connection: close` (which costs both sides a new connection anyway), pipelined
requests, and requests with a body so long that a new connection is cheaper.
"""

import re
import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from typing import Any, Final, Protocol

from aiohttp import web

from chassis.auth.project_credential import client_key, parse_query
from chassis.errors import ApiError, ServiceUnavailable

MAX_DISCARDED_BYTES: Final = 2**20  # of the rest of a body; reading this much takes as long as a new connection

PRE_PARSE_FILTERS: Final = web.AppKey("pre_parse_filters", Mapping[bytes, "PreParseFilter"])  # by method and path

_REQUEST_LINE: Final = re.compile(rb"([A-Z]{3,7} /[^ ?\r\n]{0,256})(?:\?([^ \r\n]*))? HTTP/1\.1\r\n")
_FIELDS: Final = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\r\n\0]*+\r\n)*+")
_LENGTH: Final = re.compile(rb"[ \t]*([0-9]{1,15})[ \t]*")
_UNSUPPORTED_FRAMING: Final = (b"transfer-encoding", b"upgrade")
_UNUSUAL: Final = (b"expect", b"origin")


def date_line() -> bytes:
    """The header Date with its line end. aiohttp adds this header only to responses that it writes itself."""
    return _date_line(int(time.time()))


@lru_cache(1)
def _date_line(second: int) -> bytes:
    return b"Date: %s\r\n" % formatdate(second, usegmt=True).encode()


class Slot(Protocol):
    """Permission to be served, which a request holds from its head to its response."""

    def on_body_received(self) -> None:
        """Call when the body is complete. The time after this call is processing time, not the client's. Idempotent."""

    def release(self, *, succeeded: bool) -> None:
        """Call once, when the request ends. `succeeded`: the response is not an error."""


class PreParseFilter(Protocol):
    """Admits requests of a route, or refuses them before they are parsed."""

    def cached_refusal(self, preview: "RequestPreview") -> bytes | None:
        """The complete response for a request whose client is known to have exhausted one of its limits. None for other
        requests. The response keeps the connection open.
        """

    def try_acquire(self, client_key: bytes) -> Slot | None:
        """A slot for a request of `client_key` (`chassis.auth.project_credential`). None when no slot is free."""

    def overload_response(self, preview: "RequestPreview") -> bytes:
        """The complete response for a request without a slot. The response keeps the connection open."""

    def overload_error(self) -> ServiceUnavailable:
        """The same refusal as an error, which the application renders."""


class RequestPreview:
    """The head of a request, read without the parser.

    `route`: method and path. `head_bytes`: length of the head. `content_length`: declared length of the body.
    `received_body_bytes`: length of the part of the body that is received. `headers`: values by name in lower case.
    """

    __slots__ = (
        "_client_key",
        "_head",
        "_query",
        "content_length",
        "head_bytes",
        "headers",
        "received_body_bytes",
        "route",
    )

    def __init__(self, line: re.Match[bytes], size: int, length: int, headers: Mapping[bytes, bytes]) -> None:
        """`line`: the match of the request line in the received bytes. `size`, `length`: bytes of head and body."""
        self.route, self._query = line[1], line[2]
        self.head_bytes = size
        self.content_length = length
        self.received_body_bytes = min(length, len(line.string) - size)
        self.headers = headers
        self._head = line.string[: size - 2]
        self._client_key: bytes | None = None  # until first read

    @classmethod
    def parse(cls, data: bytes) -> "RequestPreview | None":
        """Read the head of a request. None when the head is incomplete or malformed, repeats a header, or does not
        declare the body's length (a transfer coding, `Upgrade`).
        """
        line = _REQUEST_LINE.match(data)
        end = data.find(b"\r\n\r\n")
        if line is None or end < 0:
            return None
        lines = data[line.end() : end].split(b"\r\n")
        headers = {}
        for text in lines:
            name, _, value = text.partition(b":")
            headers[name.lower()] = value
        length = _LENGTH.fullmatch(headers.get(b"content-length", b"0"))
        if length is None or len(headers) != len(lines) or any(name in headers for name in _UNSUPPORTED_FRAMING):
            return None
        return cls(line, end + 4, int(length[1]), headers)

    @property
    def client_key(self) -> bytes:
        """The project key that the request names, unchecked."""
        if self._client_key is None:
            legacy_auth, authorization = self.headers.get(b"x-legacy-auth"), self.headers.get(b"authorization")
            self._client_key = client_key(
                _decode_header(legacy_auth), _decode_header(authorization), _decode_header(self._query) or ""
            )
        return self._client_key

    @property
    def has_project_id(self) -> bool:
        """Whether the query names a project besides the key."""
        try:
            return parse_query(_decode_header(self._query) or "").project_id is not None
        except ApiError:
            return True  # refused anyway, but not with a cached refusal

    @property
    def is_simple(self) -> bool:
        """Whether the head is well formed and has no header that needs the full application (`Expect`, `Origin`,
        `Connection: close`).
        """
        first = self._head.find(b"\r\n") + 2
        well_formed = _FIELDS.fullmatch(self._head, first) is not None
        last = b"close" in self.headers.get(b"connection", b"").lower()
        return well_formed and not last and not any(name in self.headers for name in _UNUSUAL)


class ConnectionAdmission:
    """Pre-parse admission of one connection. It knows where requests begin and end, as far as this is possible without
    parsing, and the slot of the current request.
    """

    __slots__ = (
        "_filters",
        "_is_first_piece",
        "_is_framing_known",
        "_remaining_bytes",
        "bytes_to_discard",
        "is_rejected",
        "slot",
    )

    def __init__(self, filters: Mapping[bytes, PreParseFilter]) -> None:
        self._filters = filters
        self._is_framing_known = True  # all requests so far ended where their heads declared
        self._is_first_piece = False  # the next bytes for the parser are the first of a request
        self._remaining_bytes = 0  # bytes of the request's body that are not received yet
        self.bytes_to_discard = 0  # the same for a refused request
        self.slot: Slot | None = None
        self.is_rejected = False  # `require_slot` refuses the request

    @property
    def remaining_bytes(self) -> int:
        """The bytes of the current body that are not received yet. 0 if the number is unknown."""
        return max(self._remaining_bytes, 0) if self._is_framing_known else 0

    def check(self, data: bytes, preview: RequestPreview | None) -> bytes | None:
        """Check the first piece of a request against the filter of its route. If the request is refused here, this
        returns the response, and `data` must not be parsed.
        """
        self._is_first_piece = True
        if not self._is_framing_known:
            preview = None
        remaining = -1 if preview is None else preview.content_length - (len(data) - preview.head_bytes)
        self._remaining_bytes, self._is_framing_known = remaining, remaining >= 0
        if preview is None or remaining < 0:
            return None
        pre_parse_filter = self._filters.get(preview.route)
        if pre_parse_filter is None:
            return None
        refusal = pre_parse_filter.cached_refusal(preview) if remaining <= MAX_DISCARDED_BYTES else None
        if refusal is not None:
            self._is_first_piece, self._remaining_bytes, self.bytes_to_discard = False, 0, remaining
            return refusal
        if self.try_acquire(pre_parse_filter, preview.client_key):
            return None
        if remaining > MAX_DISCARDED_BYTES or not preview.is_simple:
            self.is_rejected = True
            return None
        self._is_first_piece, self._remaining_bytes, self.bytes_to_discard = False, 0, remaining
        return pre_parse_filter.overload_response(preview)

    def discard(self, data: bytes) -> bytes:
        """The part of `data` after the body of a refused request."""
        kept = data[self.bytes_to_discard :]
        self.bytes_to_discard -= len(data) - len(kept)
        return kept

    def on_parsed(self, nbytes: int, *, heads: int, whole: bool) -> None:
        """Call after `nbytes` bytes were parsed. `heads`: number of heads in them. `whole`: the last body ends
        there.
        """
        if not self._is_first_piece:
            self._remaining_bytes -= nbytes
        if heads != self._is_first_piece or whole != (self._remaining_bytes == 0):
            self._is_framing_known = False  # a pipelined request, or the parser saw another end of the body
        self._is_first_piece = False
        if whole:
            self.on_body_received()

    def on_body_received(self) -> None:
        """Call when the body of the current request is complete."""
        if self.slot is not None:
            self.slot.on_body_received()

    def try_acquire(self, pre_parse_filter: PreParseFilter, client_key: bytes) -> bool:
        """Take a slot for the current request; False when there is none."""
        self.slot = pre_parse_filter.try_acquire(client_key)
        return self.slot is not None

    def release(self, *, succeeded: bool) -> None:
        """Free the slot of the current request, if it has one. `succeeded`: the response is not an error."""
        slot, self.slot, self.is_rejected = self.slot, None, False
        if slot is not None:
            slot.release(succeeded=succeeded)


def require_slot(request: web.Request, pre_parse_filter: PreParseFilter) -> None:
    """Raise ServiceUnavailable for a request that `ConnectionAdmission.check` rejected, or that could not be checked
    before parsing and for which no slot is free now.
    """
    admission: ConnectionAdmission = _connection(request).admission
    if admission.slot is None and not admission.is_rejected:
        admission.try_acquire(pre_parse_filter, client_key_of(request))
        if request.content.is_eof():
            admission.on_body_received()
    if admission.slot is not None:
        return
    error = pre_parse_filter.overload_error()
    error.close = (request.content_length or 0) > MAX_DISCARDED_BYTES or "Expect" in request.headers
    raise error


def _connection(request: web.Request) -> Any:
    return request.protocol  # an HttpConnection, which has an admission if there are filters


def client_key_of(request: web.Request) -> bytes:
    """The same as `RequestPreview.client_key`, for a parsed request."""
    headers = request.headers
    return client_key(headers.get("X-Legacy-Auth"), headers.get("Authorization"), request.raw_path.partition("?")[2])


def _decode_header(value: bytes | None) -> str | None:
    """The value of a header as the parser decodes it."""
    return None if value is None else value.strip(b" \t").decode("utf-8", "surrogateescape")
