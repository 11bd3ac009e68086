"""One connection: aiohttp's protocol with the timeouts and the connection limit that it lacks.

aiohttp has no time limit for a request head or for a client that does not read, and no limit on connections. Here a
connection is closed if it does not send a complete head in time. For a kept-alive connection the time begins with the
first byte of the head. A connection is also closed if its client reads the response too slowly (`_send_progress`). At
the connection limit, an idle connection is evicted (`registry`), or the new connection gets a 503 without a task. If
the client disconnects, the handler is cancelled if its route says so. `receiver` turns received bytes into requests.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp import web
from aiohttp.web_request import BaseRequest

from chassis.errors import BadRequest, InternalError
from chassis.http.access import AUTHENTICATED_CREDENTIAL, PROJECT
from chassis.http.connections.bad_requests import error_response, parse_failure_error, reject_connection
from chassis.http.connections.receiver import RequestReader
from chassis.http.connections.registry import CANCEL_ON_DISCONNECT, ConnectionContext
from chassis.http.connections.timeouts import SendProgress, Timeout, unacknowledged_bytes


def connection_factory(server: web.Server, context: ConnectionContext) -> Callable[[], "HttpConnection"]:
    """A factory of protocols for the running loop."""
    loop = asyncio.get_running_loop()
    return lambda: HttpConnection(server, loop, context)


class HttpConnection(RequestReader):
    """An HTTP/1.1 connection that is closed if the client does not use it."""

    __slots__ = ("_send_checkpoint", "_send_timeout")

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, context: ConnectionContext) -> None:
        super().__init__(server, loop, context)
        self._send_timeout = Timeout(loop, context.settings.send_timeout_s)
        self._send_checkpoint = SendProgress(0, 0)  # when the send timeout was started

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the connection and its head timeout, or reject it."""
        if not self._context.admit(self, transport):
            reject_connection(cast(asyncio.Transport, transport))
            self._manager = None  # makes connection_lost of the base class a no-op
            self._force_close = True
            return
        super().connection_made(transport)
        self._head_timeout.start(self._on_head_timeout)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove the connection from the registry and start no further request. Cancel the handler's task if the route
        says so or if no request is in progress. A handler that continues keeps its slot.
        """
        self._head_timeout.cancel()
        self._send_timeout.cancel()
        self._context.registry.remove(self)
        self._input.clear()
        self._context.head_memory.release(self)
        begun, request, task = self._request_in_progress, self._current_request, self._task_handler
        if self.admission is not None and not begun:
            self.admission.release(succeeded=False)
        super().connection_lost(exc)
        cancel_on_disconnect = request is not None and request.get(CANCEL_ON_DISCONNECT, False)
        if task is not None and (cancel_on_disconnect or not begun):
            task.cancel()

    def pause_writing(self) -> None:
        """The client reads more slowly than the response is written: start the send timeout, unless it is running."""
        super().pause_writing()
        if not self._send_timeout.is_pending:
            self._start_send_timeout()

    async def finish_response(
        self, request: BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the response. If it is the connection's last response and the body is unread, send EOF immediately."""
        if isinstance(resp, web.HTTPException):  # raised by aiohttp outside the middlewares
            resp = error_response(BadRequest("The request is malformed."))
        if request.content.exception() is not None or self._context.is_draining():
            resp.force_close()
        finished = await super().finish_response(request, resp, start_time)
        self._responses_sent += 1
        self._context.registry.mark_idle(self)
        if self.admission is not None:
            self.admission.release(succeeded=resp.status < 400)
        transport = self.transport
        if not resp.keep_alive and not request.content.is_eof() and transport is not None and transport.can_write_eof():
            transport.write_eof()
        if request.content.exception() is not None:
            self._close_after(request.content)
        self._parsed_head_bytes = 0
        self._is_last_request = self._is_last_request or not resp.keep_alive
        self.is_authenticated = self.is_authenticated or AUTHENTICATED_CREDENTIAL in request or PROJECT in request
        return finished

    async def _handle_request(self, *arguments: Any) -> tuple[web.StreamResponse, bool]:
        """Handle the request and send its response. The slot is freed only when both have ended, because a handler may
        continue to work after its client disconnects. Then process the next request, which may already be received.
        """
        try:
            return await super()._handle_request(*arguments)
        finally:
            if self.admission is not None:
                self.admission.release(succeeded=False)  # no effect if released already
            self._process_input()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp's signature
    ) -> web.StreamResponse:
        """The response to a head that cannot be parsed, or to an error outside the middlewares. The response closes the
        connection and echoes nothing of the input.
        """
        if status < 500:
            return error_response(parse_failure_error(exc))
        self.log_exception("connection failed", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the response has already started")
        return error_response(InternalError())

    def _start_send_timeout(self) -> None:
        self._send_checkpoint = self._send_progress()
        self._send_timeout.start(self._on_send_timeout)

    def _send_progress(self) -> SendProgress:
        """The progress of the client in the current response. 0 sent bytes when no request is in progress."""
        request = self._current_request
        sent = 0 if request is None else request.writer.output_size
        return SendProgress(self._responses_sent, sent - unacknowledged_bytes(cast(asyncio.Transport, self.transport)))

    def _on_send_timeout(self) -> None:
        """Abort the connection of a client that has read less than the minimum since the timeout was started. Otherwise
        start the timeout again.
        """
        if self.transport is None or not self._paused:
            return
        settings = self._context.settings
        if self._send_progress().has_advanced_from(
            self._send_checkpoint, settings.send_timeout_s * settings.send_min_rate
        ):
            self._start_send_timeout()
        else:
            self._context.count_send_timeout()
            self.transport.abort()
