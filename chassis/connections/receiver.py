"""The receiving side of a connection: bytes become requests, one at a time.

The parser has no limit on a head as a whole, and keeps many times what it was given. So it gets heads whole, and one
request at a time: a head that is not whole, and what is behind a request under way, waits as it came (`inlet`), no more
of it than is read at once beyond the longest head. All that is held so by all connections has a limit (`holdings`).

A head that aiohttp cannot parse is refused without an echo of the input: by the skeleton, as its path refuses anything
else, when its first line can be read (`heads`), else in the error envelope. A request may be turned away before it is
parsed (`chassis.gate`). A body that is under way when the process starts to drain is still received, where aiohttp
would drop the rest of it.
"""

import asyncio
from typing import Any, Final, cast

from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestPayloadError, _ErrInfo

from chassis.connections.deadline import Deadline
from chassis.connections.framing import Frame, Unbounded, frame_of
from chassis.connections.heads import (
    BYTES_A_BYTE,
    MAX_HEADERS,
    TooLong,
    Unreadable,
    answerable,
    first_line,
    memory_of,
    refusal_of,
)
from chassis.connections.inlet import Inlet
from chassis.connections.plan import ConnectionPlan
from chassis.gate import Doorway, Glimpse

LINGER_S: Final = 1.0  # how long a refused body is discarded, so that the client gets to read the answer before a reset


class Receiver(web.RequestHandler):
    """aiohttp's protocol, which gets each request apart, and no head that is too long."""

    __slots__ = (
        "_answers",
        "_body",
        "_broken",
        "_frame",
        "_head_due",
        "_held",
        "_inlet",
        "_last",
        "_parsed",
        "_plan",
        "doorway",
        "unreadable",
        "vouched",
    )

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, plan: ConnectionPlan) -> None:
        settings = plan.settings
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=settings.keepalive_timeout_s,
            lingering_time=LINGER_S,
            max_line_size=settings.max_head_bytes,
            max_headers=MAX_HEADERS,
            auto_decompress=False,  # bodies are inflated by whoever knows their limits
            access_log=cast(Any, None),  # the skeleton writes one without queries
        )
        self._plan = plan
        self._answers = 0  # that were sent; as many as there were heads while no request is under way
        self._inlet = Inlet()
        self._body: StreamReader | None = None  # of the last head that was parsed
        self._frame: Frame | None = None  # of that body
        self._broken = False  # there was a fault: what comes behind cannot be read
        self._last = False  # no request comes behind the one under way
        self._parsed = 0  # bytes of memory that the head under way takes
        self._held = 0  # the same of all heads, as `holdings` knows it
        self._head_due = Deadline(loop, settings.header_timeout_s)
        self.doorway = plan.doorway()
        self.unreadable: Unreadable | None = None  # which request is to be refused for its head
        self.vouched = False  # it has shown a good credential

    def shed(self) -> None:
        """Close at once, for the memory that is held."""
        self._plan.heads_shed()
        self._inlet.clear()
        self._head_due.forget()
        self.force_close()

    def give_way(self) -> None:
        """Close at once, for a new connection."""
        self._plan.gave_way()
        self.force_close()

    def data_received(self, data: bytes) -> None:
        """Take what came request by request: of whole requests with a fault behind them in one piece aiohttp would
        forget all but the fault, and of many that do not wait for their answers it would keep all heads.
        """
        if data:
            self._inlet.add(data)
        elif not self._broken:  # aiohttp asks for what its parser has in store
            self._feed(b"")
        self._go_on()

    def _go_on(self) -> None:
        """As far as can be with what is there."""
        while self._inlet and self._step():
            pass
        if self.transport is not None:
            self._account()

    def _step(self) -> bool:
        """Parse a head, a piece of a body, or drop it; False where more has to come, or an answer to go out, before."""
        inlet, doorway = self._inlet, self.doorway
        if doorway is not None and doorway.dropping:
            doorway.drop(inlet.take(doorway.dropping))
            if not doorway.dropping:
                self._head_due.forget()
            return True
        if not self._broken and self._is_receiving():
            return self._receive()
        if self._broken or self._last or self._close or self._force_close or self.transport is None:
            inlet.clear()
            return False
        return self._request_count == self._answers and self._take_head()

    def _receive(self) -> bool:
        """Give the parser what is there of the body under way."""
        data = self._inlet.take(len(self._inlet))
        try:
            count = len(data) if self._frame is None else self._frame.extent(data)
        except Unbounded:
            self._broken = True
            if self._body is not None:
                self._break_off(self._body, answered=self._answers >= self._request_count)
            return False
        self._inlet.add(data[count:])
        if count:
            self._feed(data[:count])
        return count > 0

    def _take_head(self) -> bool:
        """Let the request in front be parsed, with what is there of its body, unless it is turned away. What cannot
        become a head the parser gets as it is, and says why.
        """
        inlet, most = self._inlet, self._plan.settings.max_head_bytes
        inlet.skip_blank_lines()
        end = inlet.head_end()
        if max(end, len(inlet) if end < 0 else 0) > most:
            self._refuse_unparsed(inlet.take(most), TooLong(most))
            inlet.clear()
            return False
        if end < 0 and (not inlet or inlet.keeps_head()):
            if inlet and not self._head_due.pending:
                self._head_due.set(self._expire_head)
            return False
        size = end if end > 0 else len(inlet)
        glimpse = Glimpse.of(inlet.front(size))
        piece = inlet.take(size if glimpse is None else glimpse.size + glimpse.length)
        if self.doorway is None or not self._is_turned_away(piece, self.doorway, glimpse):
            self._feed(piece, size)
        return True

    def _feed(self, data: bytes, head: int = 0) -> None:
        """Parse; with a head of so many bytes in front a request begins, and its deadline ends."""
        heads, body = self._request_count, self._body
        self._parse(data)
        if self._request_count > heads:
            self._plan.crowd.works(self)
            message, self._body = self._messages[-1]
            self._broken = not isinstance(message, RawRequestMessage)
            if self._broken and body is not None and not body.is_eof():
                self._break_off(body, answered=self._answers >= heads)
            elif self._broken:
                self._read_what_can_be(data, cast(_ErrInfo, message).exc)
            else:
                self._begin(cast(RawRequestMessage, message), data, head)
            self._head_due.forget()
        elif head and self.transport is not None:
            self._refuse_unparsed(data, BadHttpMessage("no end"))
        if self.doorway is not None:
            self.doorway.parsed(len(data), heads=self._request_count - heads, whole=not self._is_receiving())

    def _begin(self, message: RawRequestMessage, data: bytes, head: int) -> None:
        """A request is parsed whose head is the first bytes of `data`."""
        self._parsed = memory_of(data, head)
        self._refuse_version(message)
        self._frame = None
        if self._is_receiving():
            self._frame = frame_of(message, self._plan.settings.max_head_bytes)
            self._frame.extent(data[head:])
        if self._upgraded:  # nothing else is spoken here: it is answered like any other, and the connection closed
            self._broken = True
            spoken = cast(Any, self._messages[-1][0])
            self._messages[-1] = spoken._replace(should_close=True), EMPTY_PAYLOAD

    def _account(self) -> None:
        """Say how much is held; of what is far from being parsed no more is read."""
        waiting = len(self._inlet)
        behind = self._frame.held if self._frame is not None and self._is_receiving() else 0
        held = waiting + self._parsed + behind * BYTES_A_BYTE
        if held != self._held:
            self._held = held
            self._plan.holdings.hold(self, held)
        if waiting > self._plan.settings.max_head_bytes and not self._buffer_paused:
            self._pause_reading_for_buffer()
        elif self._buffer_paused:
            self._resume_reading_if_drained()

    def _resume_reading_if_drained(self) -> None:
        """As aiohttp, which asks when it has taken a request, and knows of no inlet."""
        if len(self._inlet) <= self._plan.settings.max_head_bytes:
            self._resume_reading_for_buffer()

    def _is_turned_away(self, data: bytes, doorway: Doorway, glimpse: Glimpse | None) -> bool:
        """Whether the request that `data` begins is answered here, and not parsed."""
        answer = doorway.knock(data, glimpse) if self._can_answer() else None
        if answer is None:
            return False
        cast(asyncio.Transport, self.transport).write(answer)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        self._plan.crowd.rests(self)
        self._head_due.forget()
        if doorway.dropping:
            self._head_due.set(self._expire_head)
        return True

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

    def _refuse_unparsed(self, head: bytes, fault: Exception) -> None:
        """Have a head refused that is not for the parser. What its client still sends is thrown away for a moment, so
        that it gets to read the answer.
        """
        self._broken = True
        self._plan.crowd.works(self)
        self._head_due.forget()
        rest = StreamReader(self, self._read_bufsize, loop=self._loop)
        self._request_count += 1
        self._messages.append((_ErrInfo(400, fault, ""), rest))
        self._read_what_can_be(head, fault)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _read_what_can_be(self, data: bytes, fault: object) -> None:
        """Let the skeleton answer a head that could not be parsed, when its first line can be read."""
        head = first_line(data)
        if head is not None:
            self._messages[-1] = answerable(head), self._messages[-1][1]
            self._refuse(head, fault)

    def _refuse_version(self, head: RawRequestMessage) -> None:
        """Have it refused if it is of an HTTP which the parser takes and nobody here speaks."""
        if (spoken := answerable(head)) is not head:
            self._messages[-1] = spoken, self._messages[-1][1]
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
            return
        error = RequestPayloadError("the body is not framed as its headers say")
        body.set_exception(error)
        # Of a reader who was just woken for data aiohttp forgets it: he would wait for more.
        self._loop.call_soon(body.set_exception, error)

    def _end_at(self, body: StreamReader) -> None:
        """Nothing more is received after this body, which is broken; its request is answered. aiohttp, which drains it,
        would take the exception for a fault of its own.
        """
        self._close = True
        body.feed_eof()

    def _is_receiving(self) -> bool:
        """In the middle of a body, on a connection that is not cut."""
        return self.transport is not None and self._body is not None and not self._body.is_eof()

    def _expire_head(self) -> None:
        if self._current_request is None and not self._messages:
            self._plan.head_expired()
            self.force_close()
