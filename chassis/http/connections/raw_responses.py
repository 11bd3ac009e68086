"""Responses outside the middlewares, to requests that reached no handler: the error envelope with a new request id."""

import asyncio
from typing import Final

import msgspec
from aiohttp import web

from chassis.errors import ApiError, ServiceUnavailable, envelope
from chassis.http.operation import JSON_TYPE
from chassis.http.preparse import date_line
from chassis.http.request_ids import resolve_request_id

SERVER: Final = "sluice"  # the header Server, as of every response: without versions


def error_response(error: ApiError) -> web.Response:
    """An error response for aiohttp to send; it closes the connection."""
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
