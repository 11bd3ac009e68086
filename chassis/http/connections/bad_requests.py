"""Malformed request heads, and heads with an unsupported HTTP version.

If the parser rejects a head, `parse_request_line` reads as much of it as is needed to refuse the request in the error
format of its path. The parser itself accepts heads with an unsupported HTTP version.

`error_response` is the error envelope with a new request id, for requests that reach neither handler nor middlewares.
"""

import asyncio
import re
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import hdrs, web
from aiohttp.http import HttpVersion, HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import BadHttpMethod, LineTooLong
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from chassis.errors import JSON_TYPE, ApiError, BadRequest, ServiceUnavailable, envelope
from chassis.http.preparse import date_line
from chassis.http.request_ids import resolve_request_id

SERVER: Final = "sluice"  # the header Server of every response, without versions


def error_response(error: ApiError) -> web.Response:
    """An error response that aiohttp sends. The response closes the connection."""
    rid = resolve_request_id("")
    response = web.Response(
        status=error.status,
        body=msgspec.json.encode(envelope(error, rid)),
        headers={"X-Request-Id": rid, "Content-Type": JSON_TYPE, "Server": SERVER},
    )
    response.force_close()
    return response


def reject_connection(transport: asyncio.Transport) -> None:
    """Send 503 on a new connection and close it, without reading, parsing or scheduling anything."""
    error = ServiceUnavailable("Too many connections.")
    rid = resolve_request_id("")
    body = msgspec.json.encode(envelope(error, rid))
    head = (
        "HTTP/1.1 503 Service Unavailable\r\n"
        f"Content-Type: {JSON_TYPE}\r\nContent-Length: {len(body)}\r\nRetry-After: {error.retry_after}\r\n"
        f"X-Request-Id: {rid}\r\nServer: {SERVER}\r\nConnection: close\r\n"
    )
    transport.write(head.encode() + date_line() + b"\r\n" + body)
    transport.close()


# Memory of a parsed head. Each byte is stored as received and as text, in which one character beyond U+FFFF makes every
# character take four bytes. Each field also needs some objects. Measured: 2.0 (at most 5.0) bytes per byte of the head,
# and 205 bytes per field.
MEMORY_PER_HEAD_BYTE: Final = 5
MEMORY_PER_FIELD: Final = 256
USUAL_HEAD_MEMORY_BYTES: Final = 2**14  # a smaller head counts as 0, because its request takes as much anyway

METHODS: Final = frozenset(hdrs.METH_ALL)
MAX_HEADERS: Final = 128

_REQUEST_LINE: Final = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (/[!-~]{0,2048}) HTTP/([0-9])(?:\.([0-9]))?\r?\n"
)
_SUPPORTED_VERSIONS: Final = (HttpVersion11, HttpVersion10)
_CONTENT_TYPE: Final = re.compile(rb"\r?\nContent-Type:[ \t]*([!-~]{1,128})[ \t]*\r?\n", re.IGNORECASE)


class MalformedRequest(NamedTuple):
    """A request that must be refused because of its head. `headers` is the request's headers object, which identifies
    the request.
    """

    headers: object
    error: ApiError


class HeadTooLong(Exception):
    """A head exceeds the limit. The argument is the limit in bytes."""


def parsed_head_memory_bytes(data: bytes, head_bytes: int) -> int:
    """The bytes of memory that a parsed head takes. The head is the first `head_bytes` bytes of `data`. 0 for a head of
    usual size.
    """
    if head_bytes < USUAL_HEAD_MEMORY_BYTES // (MEMORY_PER_HEAD_BYTE + MEMORY_PER_FIELD // 4):
        return 0  # the shortest field has four bytes
    memory = head_bytes * MEMORY_PER_HEAD_BYTE + data.count(b"\n", 0, head_bytes) * MEMORY_PER_FIELD
    return memory if memory > USUAL_HEAD_MEMORY_BYTES else 0


def parse_failure_error(fault: object) -> ApiError:
    """The 400 for a head on which the parser raised `fault`. The message echoes nothing of the input."""
    if isinstance(fault, HeadTooLong):
        return BadRequest(f"The request head is longer than {fault.args[0]} bytes.", close=True)
    if isinstance(fault, LineTooLong):
        return BadRequest(f"A line of the request head is longer than {fault.args[1]} bytes.", close=True)
    if getattr(fault, "message", "") == "Too many headers received":
        return BadRequest(f"The request has more than {MAX_HEADERS} headers.", close=True)
    return BadRequest("The request head cannot be parsed.", close=True)


def bad_head_error(head: RawRequestMessage, fault: object) -> ApiError | None:
    """The 400 for a malformed head, or None. `fault` is the parser's exception, or None when the parser accepted the
    head. An unknown method is not an error here: it is refused later, like any method that the path does not have.
    """
    if head.version not in _SUPPORTED_VERSIONS:
        return BadRequest("The supported HTTP versions are 1.1 and 1.0.", close=True)
    if fault is None or (isinstance(fault, BadHttpMethod) and head.method not in METHODS):
        return None
    return parse_failure_error(fault)


def with_supported_version(head: RawRequestMessage) -> Any:
    """The head, with an unsupported HTTP version replaced with HTTP/1.1, so that a response can be written."""
    return head if head.version in _SUPPORTED_VERSIONS else head._replace(version=HttpVersion11)


def parse_request_line(data: bytes) -> RawRequestMessage | None:
    """The method, the path, the version and (if present) the media type of a head. None when `data` does not start with
    a valid request line.
    """
    line = _REQUEST_LINE.match(data)
    if line is None:
        return None
    method, path = line[1].decode(), line[2].decode()
    headers = CIMultiDict[str]()
    content_type = _CONTENT_TYPE.search(data)
    if content_type is not None:
        headers["Content-Type"] = content_type[1].decode()
    try:
        url = URL(path, encoded=True)
    except ValueError:
        return None
    return RawRequestMessage(
        method=method,
        path=path,
        version=HttpVersion(int(line[3]), int(line[4] or 0)),
        headers=CIMultiDictProxy(headers),
        raw_headers=(),
        should_close=True,
        compression=None,
        upgrade=False,
        chunked=False,
        url=url,
    )
