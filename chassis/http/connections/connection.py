"""One connection: aiohttp's protocol with the deadlines and the cap that it lacks.

aiohttp has no time limit on a request head or on a client that does not read, and no limit on connections. Here a
connection that has not sent a whole head in time is closed (from its first byte on when it was kept alive), so is one
that takes too little of its answer (`taking`); over the cap one that waits gives way (`crowd`), or the new one is
answered 503 without a task being started for it; and a handler whose client went away is cancelled where its route
says so. What its client sends becomes requests in `receiver`.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp import web
from aiohttp.web_request import BaseRequest

from chassis.errors import BadRequest, InternalError
from chassis.http.access import AUTHENTICATED_CREDENTIAL, PROJECT
from chassis.http.connections.bad_requests import parse_failure_error
from chassis.http.connections.context import CANCEL_ON_DISCONNECT, ConnectionContext
from chassis.http.connections.raw_responses import error_response, reject_connection
from chassis.http.connections.receiver import RequestReader
from chassis.http.connections.send_progress import SendProgress, unacknowledged_bytes
from chassis.http.connections.timeout import Timeout


def connection_factory(server: web.Server, context: ConnectionContext) -> Callable[[], "HttpConnection"]:
    """Makes protocols for the loop that runs."""
    loop = asyncio.get_running_loop()
    return lambda: HttpConnection(server, loop, context)


class HttpConnection(RequestReader):
    """An HTTP/1.1 connection that cannot be held for nothing."""

    __slots__ = ("_send_checkpoint", "_send_timeout")

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, context: ConnectionContext) -> None:
        super().__init__(server, loop, context)
        self._send_timeout = Timeout(loop, context.settings.send_timeout_s)
        self._send_checkpoint = SendProgress(0, 0)  # of what is sent, when that deadline was set

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the connection and its first deadline, or turn it away."""
        if not self._context.admit(self, transport):
            reject_connection(cast(asyncio.Transport, transport))
            self._manager = None  # makes connection_lost of the base class a no-op: it never started
            self._force_close = True
            return
        super().connection_made(transport)
        self._head_timeout.start(self._on_head_timeout)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count it no more; begin nothing, and cancel the handler whose answer nobody waits for any more. One that goes
        on keeps its place at the gate.
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
        unwanted = request is not None and request.get(CANCEL_ON_DISCONNECT, False)
        if task is not None and (unwanted or not begun):
            task.cancel()

    def pause_writing(self) -> None:
        """The client does not take what is sent as fast as it comes; until the deadline it has to take enough."""
        super().pause_writing()
        if not self._send_timeout.is_pending:
            self._start_send_timeout()

    async def finish_response(
        self, request: BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Answer; then, when this ends the connection with a body unread, say at once that nothing more is coming."""
        if isinstance(resp, web.HTTPException):  # raised by aiohttp outside the skeleton
            resp = error_response(BadRequest("The request cannot be understood."))
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
        """Handle and answer; whichever way that ends, the place is free then and not before: a client that hangs up
        does not take its work along. The next request may be there already.
        """
        try:
            return await super()._handle_request(*arguments)
        finally:
            if self.admission is not None:
                self.admission.release(succeeded=False)  # unless it was said already
            self._process_input()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp's signature
    ) -> web.StreamResponse:
        """A head that cannot be parsed, or a fault outside the skeleton; closes the connection, echoes nothing."""
        if status < 500:
            return error_response(parse_failure_error(exc))
        self.log_exception("connection failed", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("a response was begun already")
        return error_response(InternalError())

    def _start_send_timeout(self) -> None:
        self._send_checkpoint = self._send_progress()
        self._send_timeout.start(self._on_send_timeout)

    def _send_progress(self) -> SendProgress:
        """How far the client is; it may have come to the next answer, or to none."""
        request = self._current_request
        sent = 0 if request is None else request.writer.output_size
        return SendProgress(self._responses_sent, sent - unacknowledged_bytes(cast(asyncio.Transport, self.transport)))

    def _on_send_timeout(self) -> None:
        """Cut a client that has taken less than it must; one that reads slowly and steadily has until the next time."""
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
