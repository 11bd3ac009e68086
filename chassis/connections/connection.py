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

from chassis.access import GRANT, PROJECT
from chassis.connections.deadline import Deadline
from chassis.connections.heads import fault_of
from chassis.connections.outside import bare, turn_away
from chassis.connections.plan import ConnectionPlan
from chassis.connections.receiver import Receiver
from chassis.connections.taking import Taken, untaken
from chassis.errors import BadRequest, InternalError
from chassis.web import CANCEL_ON_DISCONNECT


def connections(server: web.Server, plan: ConnectionPlan) -> Callable[[], "Connection"]:
    """Makes protocols for the loop that runs."""
    loop = asyncio.get_running_loop()
    return lambda: Connection(server, loop, plan)


class Connection(Receiver):
    """An HTTP/1.1 connection that cannot be held for nothing."""

    __slots__ = ("_send_due", "_taken")

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, plan: ConnectionPlan) -> None:
        super().__init__(server, loop, plan)
        self._send_due = Deadline(loop, plan.settings.send_timeout_s)
        self._taken = Taken(0, 0)  # of what is sent, when that deadline was set

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the connection and its first deadline, or turn it away."""
        if not self._plan.admit(self, transport):
            turn_away(cast(asyncio.Transport, transport))
            self._manager = None  # makes connection_lost of the base class a no-op: it never started
            self._force_close = True
            return
        super().connection_made(transport)
        self._head_due.set(self._expire_head)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count it no more; begin nothing, and cancel the handler whose answer nobody waits for any more. One that goes
        on keeps its place at the gate.
        """
        self._head_due.forget()
        self._send_due.forget()
        self._plan.crowd.leave(self)
        self._inlet.clear()
        self._plan.holdings.release(self)
        begun, request, task = self._request_in_progress, self._current_request, self._task_handler
        if self.doorway is not None and not begun:
            self.doorway.leave(answered=False)
        super().connection_lost(exc)
        unwanted = request is not None and request.get(CANCEL_ON_DISCONNECT, False)
        if task is not None and (unwanted or not begun):
            task.cancel()

    def pause_writing(self) -> None:
        """The client does not take what is sent as fast as it comes; until the deadline it has to take enough."""
        super().pause_writing()
        if not self._send_due.pending:
            self._watch_taking()

    async def finish_response(
        self, request: BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Answer; then, when this ends the connection with a body unread, say at once that nothing more is coming."""
        if isinstance(resp, web.HTTPException):  # raised by aiohttp outside the skeleton
            resp = bare(BadRequest("The request cannot be understood."))
        if request.content.exception() is not None or self._plan.leaving():
            resp.force_close()
        finished = await super().finish_response(request, resp, start_time)
        self._answers += 1
        self._plan.crowd.rests(self)
        if self.doorway is not None:
            self.doorway.leave(answered=resp.status < 400)
        transport = self.transport
        if not resp.keep_alive and not request.content.is_eof() and transport is not None and transport.can_write_eof():
            transport.write_eof()
        if request.content.exception() is not None:
            self._end_at(request.content)
        self._parsed = 0
        self._last = self._last or not resp.keep_alive
        self.vouched = self.vouched or GRANT in request or PROJECT in request
        return finished

    async def _handle_request(self, *arguments: Any) -> tuple[web.StreamResponse, bool]:
        """Handle and answer; whichever way that ends, the place is free then and not before: a client that hangs up
        does not take its work along. The next request may be there already.
        """
        try:
            return await super()._handle_request(*arguments)
        finally:
            if self.doorway is not None:
                self.doorway.leave(answered=False)  # unless it was said already
            self._go_on()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp's signature
    ) -> web.StreamResponse:
        """A head that cannot be parsed, or a fault outside the skeleton; closes the connection, echoes nothing."""
        if status < 500:
            return bare(fault_of(exc))
        self.log_exception("connection failed", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("a response was begun already")
        return bare(InternalError())

    def _watch_taking(self) -> None:
        self._taken = self._taking()
        self._send_due.set(self._expire_send)

    def _taking(self) -> Taken:
        """How far the client is; it may have come to the next answer, or to none."""
        request = self._current_request
        sent = 0 if request is None else request.writer.output_size
        return Taken(self._answers, sent - untaken(cast(asyncio.Transport, self.transport)))

    def _expire_send(self) -> None:
        """Cut a client that has taken less than it must; one that reads slowly and steadily has until the next time."""
        if self.transport is None or not self._paused:
            return
        settings = self._plan.settings
        if self._taking().goes_on_from(self._taken, settings.send_timeout_s * settings.send_min_rate):
            self._watch_taking()
        else:
            self._plan.send_expired()
            self.transport.abort()
