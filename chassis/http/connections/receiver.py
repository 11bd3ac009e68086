"""The receiving side of a connection: bytes become requests, one at a time.

The parser has no limit on a head as a whole, and keeps many times what it was given. So it gets heads whole, and one
request at a time: a head that is not whole, and what is behind a request under way, waits as it came (`inlet`), no more
of it than is read at once beyond the longest head. All that is held so by all connections has a limit (`holdings`).

A head that aiohttp cannot parse is refused without an echo of the input: by the skeleton, as its path refuses anything
else, when its first line can be read (`heads`), else in the error envelope. A request may be turned away before it is
parsed (`chassis.http.preparse`). A body that is under way when the process starts to drain is still received, where
aiohttp would drop the rest of it.
"""

import asyncio
from typing import Any, Final, cast

from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestPayloadError, _ErrInfo

from chassis.http.connections.bad_requests import (
    MAX_HEADERS,
    MEMORY_PER_HEAD_BYTE,
    HeadTooLong,
    MalformedRequest,
    bad_head_error,
    parse_request_line,
    parsed_head_memory_bytes,
    with_supported_version,
)
from chassis.http.connections.context import ConnectionContext
from chassis.http.connections.framing import BodyFrame, FramingLimitExceeded, build_body_frame
from chassis.http.connections.input_buffer import InputBuffer
from chassis.http.connections.timeout import Timeout
from chassis.http.preparse import ConnectionAdmission, RequestPreview

LINGER_S: Final = 1.0  # how long a refused body is discarded, so that the client gets to read the answer before a reset


class RequestReader(web.RequestHandler):
    """aiohttp's protocol, which gets each request apart, and no head that is too long."""

    __slots__ = (
        "_body",
        "_body_frame",
        "_broken",
        "_context",
        "_head_timeout",
        "_held_bytes",
        "_input",
        "_is_last_request",
        "_parsed_head_bytes",
        "_responses_sent",
        "admission",
        "is_authenticated",
        "malformed_request",
    )

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, context: ConnectionContext) -> None:
        settings = context.settings
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
        self._context = context
        self._responses_sent = 0  # that were sent; as many as there were heads while no request is under way
        self._input = InputBuffer()
        self._body: StreamReader | None = None  # of the last head that was parsed
        self._body_frame: BodyFrame | None = None  # of that body
        self._broken = False  # there was a fault: what comes behind cannot be read
        self._is_last_request = False  # no request comes behind the one under way
        self._parsed_head_bytes = 0  # bytes of memory that the head under way takes
        self._held_bytes = 0  # the same of all heads, as `holdings` knows it
        self._head_timeout = Timeout(loop, settings.header_timeout_s)
        self.admission = context.build_admission()
        self.malformed_request: MalformedRequest | None = None  # which request is to be refused for its head
        self.is_authenticated = False  # it has shown a good credential

    def close_for_memory(self) -> None:
        """Close at once, for the memory that is held."""
        self._context.count_head_memory_closed()
        self._input.clear()
        self._head_timeout.cancel()
        self.force_close()

    def evict(self) -> None:
        """Close at once, for a new connection."""
        self._context.count_evicted()
        self.force_close()

    def data_received(self, data: bytes) -> None:
        """Take what came request by request: of whole requests with a fault behind them in one piece aiohttp would
        forget all but the fault, and of many that do not wait for their answers it would keep all heads.
        """
        if data:
            self._input.append(data)
        elif not self._broken:  # aiohttp asks for what its parser has in store
            self._feed_parser(b"")
        self._process_input()

    def _process_input(self) -> None:
        """As far as can be with what is there."""
        while self._input and self._step():
            pass
        if self.transport is not None:
            self._update_held_bytes()

    def _step(self) -> bool:
        """Parse a head, a piece of a body, or drop it; False where more has to come, or an answer to go out, before."""
        inlet, doorway = self._input, self.admission
        if doorway is not None and doorway.bytes_to_discard:
            doorway.discard(inlet.take(doorway.bytes_to_discard))
            if not doorway.bytes_to_discard:
                self._head_timeout.cancel()
            return True
        if not self._broken and self._is_receiving():
            return self._receive_body()
        if self._broken or self._is_last_request or self._close or self._force_close or self.transport is None:
            inlet.clear()
            return False
        return self._request_count == self._responses_sent and self._take_next_head()

    def _receive_body(self) -> bool:
        """Give the parser what is there of the body under way."""
        data = self._input.take(len(self._input))
        try:
            count = len(data) if self._body_frame is None else self._body_frame.consume(data)
        except FramingLimitExceeded:
            self._broken = True
            if self._body is not None:
                self._fail_body(self._body, answered=self._responses_sent >= self._request_count)
            return False
        self._input.append(data[count:])
        if count:
            self._feed_parser(data[:count])
        return count > 0

    def _take_next_head(self) -> bool:
        """Let the request in front be parsed, with what is there of its body, unless it is turned away. What cannot
        become a head the parser gets as it is, and says why.
        """
        inlet, most = self._input, self._context.settings.max_head_bytes
        inlet.skip_blank_lines()
        end = inlet.head_end()
        if max(end, len(inlet) if end < 0 else 0) > most:
            self._reject_unparsed(inlet.take(most), HeadTooLong(most))
            inlet.clear()
            return False
        if end < 0 and (not inlet or inlet.may_become_head()):
            if inlet and not self._head_timeout.is_pending:
                self._head_timeout.start(self._on_head_timeout)
            return False
        size = end if end > 0 else len(inlet)
        glimpse = RequestPreview.parse(inlet.peek(size))
        piece = inlet.take(size if glimpse is None else glimpse.head_bytes + glimpse.content_length)
        if self.admission is None or not self._apply_preparse(piece, self.admission, glimpse):
            self._feed_parser(piece, size)
        return True

    def _feed_parser(self, data: bytes, head: int = 0) -> None:
        """Parse; with a head of so many bytes in front a request begins, and its deadline ends."""
        heads, body = self._request_count, self._body
        self._parse(data)
        if self._request_count > heads:
            self._context.registry.mark_busy(self)
            message, self._body = self._messages[-1]
            self._broken = not isinstance(message, RawRequestMessage)
            if self._broken and body is not None and not body.is_eof():
                self._fail_body(body, answered=self._responses_sent >= heads)
            elif self._broken:
                self._salvage_request_line(data, cast(_ErrInfo, message).exc)
            else:
                self._begin_request(cast(RawRequestMessage, message), data, head)
            self._head_timeout.cancel()
        elif head and self.transport is not None:
            self._reject_unparsed(data, BadHttpMessage("no end"))
        if self.admission is not None:
            self.admission.on_parsed(len(data), heads=self._request_count - heads, whole=not self._is_receiving())

    def _begin_request(self, message: RawRequestMessage, data: bytes, head: int) -> None:
        """A request is parsed whose head is the first bytes of `data`."""
        self._parsed_head_bytes = parsed_head_memory_bytes(data, head)
        self._reject_unsupported_version(message)
        self._body_frame = None
        if self._is_receiving():
            self._body_frame = build_body_frame(message, self._context.settings.max_head_bytes)
            self._body_frame.consume(data[head:])
        if self._upgraded:  # nothing else is spoken here: it is answered like any other, and the connection closed
            self._broken = True
            spoken = cast(Any, self._messages[-1][0])
            self._messages[-1] = spoken._replace(should_close=True), EMPTY_PAYLOAD

    def _update_held_bytes(self) -> None:
        """Say how much is held; of what is far from being parsed no more is read."""
        waiting = len(self._input)
        behind = self._body_frame.trailer_bytes if self._body_frame is not None and self._is_receiving() else 0
        held = waiting + self._parsed_head_bytes + behind * MEMORY_PER_HEAD_BYTE
        if held != self._held_bytes:
            self._held_bytes = held
            self._context.head_memory.set_held(self, held)
        if waiting > self._context.settings.max_head_bytes and not self._buffer_paused:
            self._pause_reading_for_buffer()
        elif self._buffer_paused:
            self._resume_reading_if_drained()

    def _resume_reading_if_drained(self) -> None:
        """As aiohttp, which asks when it has taken a request, and knows of no inlet."""
        if len(self._input) <= self._context.settings.max_head_bytes:
            self._resume_reading_for_buffer()

    def _apply_preparse(self, data: bytes, admission: ConnectionAdmission, preview: RequestPreview | None) -> bool:
        """Whether the request that `data` begins is answered here, and not parsed."""
        answer = admission.check(data, preview) if self._can_respond() else None
        if answer is None:
            return False
        cast(asyncio.Transport, self.transport).write(answer)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        self._context.registry.mark_idle(self)
        self._head_timeout.cancel()
        if admission.bytes_to_discard:
            self._head_timeout.start(self._on_head_timeout)
        return True

    def _can_respond(self) -> bool:
        """Whether what is written now goes out: the connection is not being closed, and its client reads."""
        return not (self._close or self._force_close or self._paused) and self.transport is not None

    def _parse(self, data: bytes) -> None:
        """As aiohttp does, which takes nothing once it closes, except that a body under way is received to its end."""
        closing = self._close, self._force_close
        if any(closing) and self._is_receiving():
            self._close = self._force_close = False
        super().data_received(data)
        self._close, self._force_close = self._close or closing[0], self._force_close or closing[1]

    def _reject_unparsed(self, head: bytes, fault: Exception) -> None:
        """Have a head refused that is not for the parser. What its client still sends is thrown away for a moment, so
        that it gets to read the answer.
        """
        self._broken = True
        self._context.registry.mark_busy(self)
        self._head_timeout.cancel()
        rest = StreamReader(self, self._read_bufsize, loop=self._loop)
        self._request_count += 1
        self._messages.append((_ErrInfo(400, fault, ""), rest))
        self._salvage_request_line(head, fault)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _salvage_request_line(self, data: bytes, fault: object) -> None:
        """Let the skeleton answer a head that could not be parsed, when its first line can be read."""
        head = parse_request_line(data)
        if head is not None:
            self._messages[-1] = with_supported_version(head), self._messages[-1][1]
            self._mark_malformed(head, fault)

    def _reject_unsupported_version(self, head: RawRequestMessage) -> None:
        """Have it refused if it is of an HTTP which the parser takes and nobody here speaks."""
        if (spoken := with_supported_version(head)) is not head:
            self._messages[-1] = spoken, self._messages[-1][1]
            self._mark_malformed(head, None)

    def _mark_malformed(self, head: RawRequestMessage, fault: object) -> None:
        """Have the skeleton refuse it, if there is reason to; the first one, behind which the connection closes."""
        error = bad_head_error(head, fault)
        if error is not None and self.malformed_request is None:
            self.malformed_request = MalformedRequest(head.headers, error)

    def _fail_body(self, body: StreamReader, *, answered: bool) -> None:
        """What cannot be parsed is the rest of a body: whoever reads that must not wait for it."""
        if answered:
            self._close_after(body)
            return
        error = RequestPayloadError("the body is not framed as its headers say")
        body.set_exception(error)
        # Of a reader who was just woken for data aiohttp forgets it: he would wait for more.
        self._loop.call_soon(body.set_exception, error)

    def _close_after(self, body: StreamReader) -> None:
        """Nothing more is received after this body, which is broken; its request is answered. aiohttp, which drains it,
        would take the exception for a fault of its own.
        """
        self._close = True
        body.feed_eof()

    def _is_receiving(self) -> bool:
        """In the middle of a body, on a connection that is not cut."""
        return self.transport is not None and self._body is not None and not self._body.is_eof()

    def _on_head_timeout(self) -> None:
        if self._current_request is None and not self._messages:
            self._context.count_head_timeout()
            self.force_close()
