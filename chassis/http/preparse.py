"""A gate in front of the parser: whoever is too much is turned away for a small part of what a request costs.

A route may have a gate (`Route.gate`). It is asked as soon as the head of a request is there:

    spent         a limit of its sender's own is known to be used up: turned away
    admitted      it holds a place until its handler is done and it is answered, and is parsed and handled as ever
    turned away   by an answer in bytes; its body is dropped as it comes, unparsed, and the connection goes on. To close
                  instead would cost both sides a new connection, which is more

What is unusual is turned away by the skeleton instead, like any other refusal: a chunked body, one so long that a new
connection is cheaper, `Expect`, a browser's page, a client that wants the connection closed (it costs both sides a new
one in any case), a request that does not wait for the answer to the one before.
"""

import re
import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from typing import Any, Final, Protocol

from aiohttp import web

from chassis.errors import ServiceUnavailable
from chassis.http.client_key import extract_client_key, has_project_id

MAX_DISCARDED_BYTES: Final = (
    2**20
)  # bytes of a body that are still to come; reading these takes as long as a new connection

PRE_PARSE_FILTERS: Final = web.AppKey("gates", Mapping[bytes, "PreParseFilter"])  # by method and path

_REQUEST_LINE: Final = re.compile(rb"([A-Z]{3,7} /[^ ?\r\n]{0,256})(?:\?([^ \r\n]*))? HTTP/1\.1\r\n")
_FIELDS: Final = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\r\n\0]*+\r\n)*+")
_LENGTH: Final = re.compile(rb"[ \t]*([0-9]{1,15})[ \t]*")
_UNSUPPORTED_FRAMING: Final = (b"transfer-encoding", b"upgrade")
_UNUSUAL: Final = (b"expect", b"origin")


def date_line() -> bytes:
    """The header Date, which aiohttp adds to answers of its own, with its line end."""
    return _date_line(int(time.time()))


@lru_cache(1)
def _date_line(second: int) -> bytes:
    return b"Date: %s\r\n" % formatdate(second, usegmt=True).encode()


class Slot(Protocol):
    """Held by a request from its head to its answer."""

    def on_body_received(self) -> None:
        """The body is whole; from here on it is we who take the time. To say it again has no effect."""

    def release(self, *, succeeded: bool) -> None:
        """The request is over; `answered` when it got what it came for. Called once."""


class PreParseFilter(Protocol):
    """Lets requests in, or not."""

    def cached_refusal(self, preview: "RequestPreview") -> bytes | None:
        """The whole answer for a request whose sender is known to have used up what is his alone; None for others. It
        keeps the connection.
        """

    def try_acquire(self, client_key: bytes) -> Slot | None:
        """A place for a request of `sender` (`chassis.http.client_key`); None when there is none."""

    def overload_response(self, preview: "RequestPreview") -> bytes:
        """The whole answer for a request that got no place. It keeps the connection."""

    def overload_error(self) -> ServiceUnavailable:
        """The same for the skeleton to render."""


class RequestPreview:
    """What the first bytes of a request say, without its being parsed.

    `route`: method and path. `size`: bytes of the head. `length`: of the body, as it says; `came`: what of it is there.
    `headers`: by name in lower case.
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
        """`line`: the first, found in what came."""
        self.route, self._query = line[1], line[2]
        self.head_bytes = size
        self.content_length = length
        self.received_body_bytes = min(length, len(line.string) - size)
        self.headers = headers
        self._head = line.string[: size - 2]
        self._client_key: bytes | None = None  # until somebody asks

    @classmethod
    def parse(cls, data: bytes) -> "RequestPreview | None":
        """None when the head is not whole, or does not say how long the body is, or says it twice."""
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
        """Whose it is, unchecked."""
        if self._client_key is None:
            legacy_auth, authorization = self.headers.get(b"x-legacy-auth"), self.headers.get(b"authorization")
            self._client_key = extract_client_key(
                _decode_header(legacy_auth), _decode_header(authorization), _decode_header(self._query) or ""
            )
        return self._client_key

    @property
    def has_project_id(self) -> bool:
        """Whether it says more of its project than the key does."""
        return bool(self._query) and has_project_id(_decode_header(self._query) or "")

    @property
    def is_simple(self) -> bool:
        """Whether it is well formed, and nothing in it asks for more than a status."""
        first = self._head.find(b"\r\n") + 2
        well_formed = _FIELDS.fullmatch(self._head, first) is not None
        last = b"close" in self.headers.get(b"connection", b"").lower()
        return well_formed and not last and not any(name in self.headers for name in _UNUSUAL)


class ConnectionAdmission:
    """One connection before the gates: where its requests begin and end, as far as that can be told without parsing,
    and the place of the request that is under way.
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
        self._is_framing_known = True  # all requests so far ended where they said they would
        self._is_first_piece = False  # what is parsed next is the first piece of a request
        self._remaining_bytes = 0  # bytes of its body that are still to come
        self.bytes_to_discard = 0  # the same, of a request that was turned away
        self.slot: Slot | None = None
        self.is_rejected = False  # the skeleton is to say so

    @property
    def remaining_bytes(self) -> int:
        """Bytes of the body under way that are still to come; 0 where that is not known."""
        return max(self._remaining_bytes, 0) if self._is_framing_known else 0

    def check(self, data: bytes, preview: RequestPreview | None) -> bytes | None:
        """The first piece of a request, and what it says. The answer, if it is turned away here; then `data` is not for
        the parser.
        """
        self._is_first_piece = True
        if not self._is_framing_known:
            preview = None
        rest = -1 if preview is None else preview.content_length - (len(data) - preview.head_bytes)
        self._remaining_bytes, self._is_framing_known = rest, rest >= 0
        if preview is None or rest < 0:
            return None
        gate = self._filters.get(preview.route)
        if gate is None:
            return None
        spent = gate.cached_refusal(preview) if rest <= MAX_DISCARDED_BYTES else None
        if spent is not None:
            self._is_first_piece, self._remaining_bytes, self.bytes_to_discard = False, 0, rest
            return spent
        if self.try_acquire(gate, preview.client_key):
            return None
        if rest > MAX_DISCARDED_BYTES or not preview.is_simple:
            self.is_rejected = True
            return None
        self._is_first_piece, self._remaining_bytes, self.bytes_to_discard = False, 0, rest
        return gate.overload_response(preview)

    def discard(self, data: bytes) -> bytes:
        """What is left of `data` without the rest of a body that was turned away."""
        kept = data[self.bytes_to_discard :]
        self.bytes_to_discard -= len(data) - len(kept)
        return kept

    def on_parsed(self, nbytes: int, *, heads: int, whole: bool) -> None:
        """The parser has had `nbytes` and found so many heads in them; `whole`: the last body ends there."""
        if not self._is_first_piece:
            self._remaining_bytes -= nbytes
        if heads != self._is_first_piece or whole != (self._remaining_bytes == 0):
            self._is_framing_known = False  # pipelined, or the parser sees it otherwise
        self._is_first_piece = False
        if whole:
            self.on_body_received()

    def on_body_received(self) -> None:
        """The body of the request under way is whole."""
        if self.slot is not None:
            self.slot.on_body_received()

    def try_acquire(self, pre_parse_filter: PreParseFilter, client_key: bytes) -> bool:
        """Take a place for the request under way; whether there was one."""
        self.slot = pre_parse_filter.try_acquire(client_key)
        return self.slot is not None

    def release(self, *, succeeded: bool) -> None:
        """The request under way is over."""
        place, self.slot, self.is_rejected = self.slot, None, False
        if place is not None:
            place.release(succeeded=succeeded)


def require_slot(request: web.Request, pre_parse_filter: PreParseFilter) -> None:
    """For the skeleton: refuse a request that was turned away, or could not be looked at before it was parsed and finds
    no place now.
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
    return request.protocol  # of `chassis.http.connections`, which has an admission where there are filters


def client_key_of(request: web.Request) -> bytes:
    """As `Glimpse.sender`, of a request that was parsed."""
    headers = request.headers
    query = request.raw_path.partition("?")[2]
    return extract_client_key(headers.get("X-Legacy-Auth"), headers.get("Authorization"), query)


def _decode_header(value: bytes | None) -> str | None:
    """As the parser reads it."""
    return None if value is None else value.strip(b" \t").decode("utf-8", "surrogateescape")
