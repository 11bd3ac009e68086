"""One connection: aiohttp's protocol with the deadlines and the cap that it lacks.

aiohttp has no time limit on a request head or on a client that does not read, and no limit on connections. Here a
connection that has not sent a whole head in time is closed (from its first byte on when it was kept alive), so is one
that takes too little of its answer (`taking`); over the cap one that waits gives way (`crowd`), or the new one is
answered 503 without a task being started for it; and a handler whose client went away is cancelled where its route says
so. A request may be turned away before it is parsed (`chassis.gate`). A head that aiohttp cannot parse is refused
without an echo of the input: by the skeleton, as its path refuses anything else, when its first line can be read
(`heads`), else in the error envelope. A body that is under way when the process starts to drain is still received,
where aiohttp would drop the rest of it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestPayloadError
from aiohttp.web_request import BaseRequest

from chassis.connections.deadline import Deadline
from chassis.connections.heads import MAX_HEADERS, Unreadable, answerable, fault_of, first_line, refusal_of
from chassis.connections.outside import bare, turn_away
from chassis.connections.plan import ConnectionPlan
from chassis.connections.taking import Taken, untaken
from chassis.errors import BadRequest, InternalError
from chassis.gate import Doorway, Glimpse
from chassis.web import CANCEL_ON_DISCONNECT

# Of a request line: 4 000 characters of filters are up to 48 000 bytes when each is percent-encoded.
MAX_LINE_BYTES: Final = 2**16
MAX_APART: Final = 32  # requests of one piece that are taken one by one; as many as aiohttp lets wait
LINGER_S: Final = 1.0  # how long a refused body is discarded, so that the client gets to read the answer before a reset


def connections(server: web.Server, plan: ConnectionPlan) -> Callable[[], "Connection"]:
    """Makes protocols for the loop that runs."""
    loop = asyncio.get_running_loop()
    return lambda: Connection(server, loop, plan)


class Connection(web.RequestHandler):
    """An HTTP/1.1 connection that cannot be held for nothing."""

    __slots__ = ("_answers", "_body", "_broken", "_head_due", "_plan", "_send_due", "_taken", "doorway", "unreadable")

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, plan: ConnectionPlan) -> None:
        settings = plan.settings
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=settings.keepalive_timeout_s,
            lingering_time=LINGER_S,
            max_line_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            auto_decompress=False,  # bodies are inflated by whoever knows their limits
            access_log=cast(Any, None),  # the skeleton writes one without queries
        )
        self._plan = plan
        self._answers = 0  # that were sent; as many as there were heads while no request is under way
        self._body: StreamReader | None = None  # of the last head that was parsed
        self._broken = False  # the parser has met a fault: what comes behind cannot be read
        self._head_due = Deadline(loop, settings.header_timeout_s)
        self._send_due = Deadline(loop, settings.send_timeout_s)
        self._taken = Taken(0, 0)  # of what is sent, when that deadline was set
        self.doorway = plan.doorway()
        self.unreadable: Unreadable | None = None  # which request is to be refused for its head

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
        begun, request, task = self._request_in_progress, self._current_request, self._task_handler
        if self.doorway is not None and not begun:
            self.doorway.leave(answered=False)
        super().connection_lost(exc)
        unwanted = request is not None and request.get(CANCEL_ON_DISCONNECT, False)
        if task is not None and (unwanted or not begun):
            task.cancel()

    def data_received(self, data: bytes) -> None:
        """Take what came request by request, as far as that can be told: of whole requests with a fault behind them in
        one piece aiohttp would forget all but the fault.
        """
        if data and self.doorway is not None and self.doorway.dropping:
            data = self._drop(data, self.doorway)
            if not data:
                return
        apart = MAX_APART - len(self._messages)
        while True:
            glimpse = None if self._is_receiving() else Glimpse.of(data)
            end = self._end_of_first(data, glimpse)
            if end >= len(data) or apart <= 0:
                break
            self._take(data[:end], glimpse)
            data, apart = data[end:], apart - 1
        self._take(data, glimpse)

    def _end_of_first(self, data: bytes, glimpse: Glimpse | None) -> int:
        """Where in `data` a request ends, if that is known and it does. Were it wrong, nothing but the pieces that the
        parser gets would be others.
        """
        if glimpse is not None:
            return glimpse.size + glimpse.length
        rest = self.doorway.rest if self.doorway is not None and self._is_receiving() else 0
        return rest or len(data)

    def _take(self, data: bytes, glimpse: Glimpse | None) -> None:
        """Parse, unless the request is turned away; a whole head ends its deadline, and the first piece of the next one
        starts another.
        """
        if self._broken:
            return
        if data and self.doorway is not None:  # without data aiohttp asks for what it has in store
            data = self._through_the_door(data, self.doorway, glimpse)
            if not data:
                return
        heads, body = self._request_count, self._body
        self._parse(data)
        if self._request_count > heads:
            self._plan.crowd.works(self)
            head, self._body = self._messages[-1]
            self._broken = not isinstance(head, RawRequestMessage)
            if self._broken and body is not None and not body.is_eof():
                self._break_off(body, answered=self._answers >= heads)
            elif self._broken:
                self._read_what_can_be(data, head)
            else:
                self._refuse_versions(self._request_count - heads)
            self._head_due.forget()
        elif data and not self._head_due.pending and self._is_idle():
            self._head_due.set(self._expire_head)
        if self.doorway is not None:
            self.doorway.parsed(len(data), heads=self._request_count - heads, whole=not self._is_receiving())

    def give_way(self) -> None:
        """Close at once, for a new connection."""
        self._plan.gave_way()
        self.force_close()

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
        if request.content.exception() is not None:
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
        return finished

    async def _handle_request(self, *arguments: Any) -> tuple[web.StreamResponse, bool]:
        """Handle and answer; whichever way that ends, the place is free then and not before: a client that hangs up
        does not take its work along.
        """
        try:
            return await super()._handle_request(*arguments)
        finally:
            if self.doorway is not None:
                self.doorway.leave(answered=False)  # unless it was said already

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

    def _drop(self, data: bytes, doorway: Doorway) -> bytes:
        """What of `data` is behind the body of a request that was turned away."""
        data = doorway.drop(data)
        if not doorway.dropping:
            self._head_due.forget()
        return data

    def _through_the_door(self, data: bytes, doorway: Doorway, glimpse: Glimpse | None) -> bytes:
        """What of `data` is for the parser: nothing of a request that is turned away."""
        if self._request_count > self._answers or self._is_receiving() or not self._can_answer():
            return data
        answer = doorway.knock(data, glimpse)
        if answer is None:
            return data
        cast(asyncio.Transport, self.transport).write(answer)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        self._plan.crowd.rests(self)
        self._head_due.forget()
        if doorway.dropping:
            self._head_due.set(self._expire_head)
        return b""

    def _can_answer(self) -> bool:
        """Whether what is written now goes out: the connection is not being closed, and its client reads."""
        return not (self._close or self._force_close or self._paused) and self.transport is not None

    def _parse(self, data: bytes) -> None:
        """As aiohttp does, which takes nothing once it closes, except that a body under way is received to its end."""
        closing = self._close, self._force_close
        if any(closing) and self._is_receiving():
            self._close = self._force_close = False
        super().data_received(data)
        self._close, self._force_close = self._close or closing[0], self._force_close or closing[1]

    def _read_what_can_be(self, data: bytes, fault: Any) -> None:
        """Let the skeleton answer a head that could not be parsed, when its first line can be read."""
        head = first_line(data)
        if head is not None:
            self._messages[-1] = answerable(head), EMPTY_PAYLOAD
            self._refuse(head, fault.exc)

    def _refuse_versions(self, heads: int) -> None:
        """Have those of the last heads refused that are of an HTTP which the parser takes and nobody here speaks."""
        for at in range(-heads, 0):
            head, body = self._messages[at]
            if isinstance(head, RawRequestMessage) and (spoken := answerable(head)) is not head:
                self._messages[at] = spoken, body
                self._refuse(head, None)

    def _refuse(self, head: RawRequestMessage, fault: object) -> None:
        """Have the skeleton refuse it, if there is reason to; the first one, behind which the connection closes."""
        error = refusal_of(head, fault)
        if error is not None and self.unreadable is None:
            self.unreadable = Unreadable(head.headers, error)

    def _break_off(self, body: StreamReader, *, answered: bool) -> None:
        """What cannot be parsed is the rest of a body: whoever reads that must not wait for it."""
        if answered:
            self._end_at(body)
        else:
            body.set_exception(RequestPayloadError("the body is not framed as its headers say"))

    def _end_at(self, body: StreamReader) -> None:
        """Nothing more is received after this body, which is broken; its request is answered. aiohttp, which drains it,
        would take the exception for a fault of its own.
        """
        self._close = True
        body.feed_eof()

    def _is_receiving(self) -> bool:
        """In the middle of a body, on a connection that is not cut."""
        return self.transport is not None and self._body is not None and not self._body.is_eof()

    def _is_idle(self) -> bool:
        """Waiting for a head, with nothing of the last request left to do."""
        return self._waiter is not None and not self._messages

    def _expire_head(self) -> None:
        if self._current_request is None and not self._messages:
            self._plan.head_expired()
            self.force_close()

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
