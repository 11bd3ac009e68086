"""Read a request body with a size limit and a time limit, and check its media type (RFC 9110 8.3).

aiohttp has no time limit on a body and answers `Expect: 100-continue` before any check. Here the interim response is
sent when a handler starts to read, after the access check, and the rest of a body over the size limit is never read.
Received bytes extend the deadline, so a body that arrives at one byte per second is cut off early, and a long body over
a slow line completes.
"""

import asyncio
import re
from collections.abc import Callable, Collection
from typing import Final

from aiohttp import HttpVersion11, web
from aiohttp.web_protocol import RequestPayloadError

from chassis.errors import (
    ApiError,
    BadRequest,
    PayloadTooLarge,
    ServiceUnavailable,
    Unimplemented,
    UnsupportedMediaType,
)
from chassis.http.connections.bad_requests import MalformedRequest

_PARAMETER: Final = re.compile(r';\s*([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;]*)')
_UTF_8: Final = frozenset({"utf-8", "utf8"})


def require_media_type(request: web.Request, accepted: Collection[str]) -> str:
    """The media type of an uncompressed body. Raises UnsupportedMediaType, which closes the connection, for a media
    type that is not accepted, for a charset other than UTF-8, and for a compressed body.
    """
    if request.content_type not in accepted:
        raise UnsupportedMediaType(f"The body must be {' or '.join(accepted)}.", close=True)
    if not is_utf_8(request.headers.get("Content-Type", "")):
        raise UnsupportedMediaType("Send UTF-8: omit `charset` in Content-Type or set it to utf-8.", close=True)
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("The body must not be compressed.", close=True)
    return request.content_type


def is_utf_8(content_type: str) -> bool:
    """Whether a Content-Type names no charset other than UTF-8. Its other parameters are ignored."""
    return ";" not in content_type or all(
        value.strip('"').lower() in _UTF_8
        for name, value in _PARAMETER.findall(content_type)
        if name.lower() == "charset"
    )


_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def delay_100_continue(request: web.Request) -> None:
    """The Expect handler of every route. It sends nothing: `read_body` sends the interim response when a handler
    reads.
    """


def reject_malformed(request: web.Request) -> None:
    """Raise BadRequest for a malformed head, which the connection recorded (`MalformedRequest`), and Unimplemented for
    a body in a transfer coding other than chunked, which aiohttp would pass on still encoded.
    """
    malformed: MalformedRequest | None = getattr(request.protocol, "malformed_request", None)
    if malformed is not None and malformed.headers is request.headers:
        raise malformed.error
    codings = request.headers.getall("Transfer-Encoding", None)
    if codings is not None and [coding.strip().lower() for coding in codings] != ["chunked"]:
        raise Unimplemented("The only supported Transfer-Encoding is chunked.", close=True)


async def read_body(
    request: web.Request,
    max_bytes: int,
    timeout_s: float,
    on_growth: Callable[[int], None] | None = None,
    *,
    min_rate: int = 0,
) -> bytes:
    """Read the body as received (still encoded), at most `max_bytes` bytes, within `timeout_s` seconds. Each `min_rate`
    received bytes extend the deadline by one second (0: no extension), to at most `timeout_s` from the time of their
    receipt.

    `on_growth` is called after each piece with the number of bytes held. An ApiError that it raises ends the reading
    and closes the connection.

    Raises PayloadTooLarge (for the Content-Length before a byte is read, or while reading), ServiceUnavailable when the
    body does not arrive in time, and BadRequest when the body ends early or its framing is wrong. All of these errors
    close the connection.
    """
    _reject_declared_length(request, max_bytes)
    if request.content.is_eof() and request.content.exception() is None:
        return _received_body(request.content.read_nowait(), max_bytes, on_growth)
    try:
        async with asyncio.timeout(timeout_s) as limit:
            await _send_100_continue(request)
            return await _read_at_most(request, max_bytes, on_growth, _BodyRateLimit(limit, timeout_s, min_rate))
    except TimeoutError as error:
        raise ServiceUnavailable("The body was not received in time.", close=True) from error
    except (RequestPayloadError, web.HTTPBadRequest) as error:
        raise BadRequest("The body does not match its Content-Length or Transfer-Encoding.", close=True) from error


def _reject_declared_length(request: web.Request, max_bytes: int) -> None:
    if request.content_length is not None and request.content_length > max_bytes:
        raise _too_large(max_bytes)


async def _send_100_continue(request: web.Request) -> None:
    if request.version >= HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(_CONTINUE)
        request.writer.output_size = 0  # the interim response is not the start of the final one


class _BodyRateLimit:
    """A deadline that received bytes extend, by one second per `bytes_per_s` bytes. The deadline is at most `timeout_s`
    in the future, so a fast start gives no extra time to a client that then stops sending.
    """

    def __init__(self, limit: asyncio.Timeout, timeout_s: float, bytes_per_s: int) -> None:
        self._limit = limit
        self._timeout_s = timeout_s
        self._bytes_per_s = bytes_per_s

    def extend_deadline(self, nbytes: int) -> None:
        deadline = self._limit.when()
        if self._bytes_per_s and deadline is not None:
            latest = asyncio.get_running_loop().time() + self._timeout_s
            self._limit.reschedule(min(latest, deadline + nbytes / self._bytes_per_s))


async def _read_at_most(
    request: web.Request, max_bytes: int, on_growth: Callable[[int], None] | None, rate_limit: _BodyRateLimit
) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        piece = await request.content.readany()
        if not piece:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        size += len(piece)
        if size > max_bytes:
            raise _too_large(max_bytes)
        if not request.content.is_eof():
            rate_limit.extend_deadline(len(piece))
        if on_growth is not None:
            _report_growth(on_growth, size)
        pieces.append(piece)


def _received_body(body: bytes, max_bytes: int, on_growth: Callable[[int], None] | None) -> bytes:
    """The body, if it is already received completely, as most bodies are. It needs no timeout and no interim
    response.
    """
    if len(body) > max_bytes:
        raise _too_large(max_bytes)
    if on_growth is not None:
        _report_growth(on_growth, len(body))
    return body


def _report_growth(on_growth: Callable[[int], None], size: int) -> None:
    try:
        on_growth(size)
    except ApiError as error:
        error.close = True  # the rest of the body is not read
        raise


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is larger than {max_bytes} bytes.")
