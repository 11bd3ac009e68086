"""Answers outside the skeleton, whose requests have reached no handler: the error envelope under a fresh id."""

import asyncio
from typing import Final

import msgspec
from aiohttp import web

from chassis.errors import ApiError, ServiceUnavailable, envelope
from chassis.http.operation import JSON_TYPE
from chassis.http.preparse import date_line
from chassis.http.request_ids import resolve_request_id

SERVER: Final = "sluice"  # what such an answer says of its maker, as those inside do: no versions


def error_response(error: ApiError) -> web.Response:
    """What aiohttp is to send; it ends the connection."""
    rid = resolve_request_id("")
    answer = web.Response(
        status=error.status,
        body=msgspec.json.encode(envelope(error, rid)),
        headers={"X-Request-Id": rid, "Content-Type": JSON_TYPE, "Server": SERVER},
    )
    answer.force_close()
    return answer


def reject_connection(transport: asyncio.Transport) -> None:
    """503 on a new connection, without reading, parsing or scheduling anything."""
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
