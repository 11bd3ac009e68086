"""The receiving side of a connection: bytes become requests, one at a time.

The parser has no limit on the size of a head, and needs several times as much memory as the bytes that it is given. So
the parser gets only complete heads, and one request at a time. An incomplete head, and the bytes after the current
request, are kept as received (`framing.InputBuffer`), up to the longest permitted head plus one read. The bytes that
all connections hold in this way have a limit (`registry.HeadMemoryLimit`).

A head that aiohttp cannot parse is refused without an echo of the input. If its request line can be read
(`bad_requests`), the refusal passes the middlewares and has the error format of its path. Otherwise the refusal is the
error envelope. A request may be refused before it is parsed (`chassis.http.preparse`). If the process starts to drain
while a body is in transit, the rest of the body is still received. aiohttp alone would drop it.
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
from chassis.http.connections.framing import BodyFrame, FramingLimitExceeded, InputBuffer, build_body_frame
from chassis.http.connections.registry import ConnectionContext
from chassis.http.connections.timeouts import Timeout
from chassis.http.preparse import ConnectionAdmission, RequestPreview

LINGER_S: Final = 1.0  # how long a refused body is discarded, so that the client can read the response before a reset


class RequestReader(web.RequestHandler):
    """aiohttp's protocol, which gets one request at a time and no head longer than `max_head_bytes`."""

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
            auto_decompress=False,  # handlers inflate bodies, because they know the limits
            access_log=cast(Any, None),  # the access-log middleware writes an access log without query strings
        )
        self._context = context
        self._responses_sent = 0  # equals `_request_count` while no request is in progress
        self._input = InputBuffer()
        self._body: StreamReader | None = None  # of the last parsed head
        self._body_frame: BodyFrame | None = None  # the frame of that body
        self._broken = False  # true after an error: the following bytes cannot be parsed
        self._is_last_request = False  # no request follows the current one
        self._parsed_head_bytes = 0  # memory of the current head
        self._held_bytes = 0  # the bytes that `head_memory` has recorded for this connection
        self._head_timeout = Timeout(loop, settings.header_timeout_s)
        self.admission = context.build_admission()
        self.malformed_request: MalformedRequest | None = None  # the request that is refused because of its head
        self.is_authenticated = False  # the client has presented a valid credential

    def close_for_memory(self) -> None:
        """Close immediately and drop the received bytes, because request heads take too much memory."""
        self._context.count_head_memory_closed()
        self._input.clear()
        self._head_timeout.cancel()
        self.force_close()

    def evict(self) -> None:
        """Close immediately, in favour of a new connection."""
        self._context.count_evicted()
        self.force_close()

    def data_received(self, data: bytes) -> None:
        """Buffer the bytes and parse them request by request. If one piece contained complete requests and then an
        error, aiohttp would drop the requests. aiohttp would also keep the heads of all pipelined requests in memory.
        """
        if data:
            self._input.append(data)
        elif not self._broken:  # aiohttp fetches the bytes that its parser has buffered
            self._feed_parser(b"")
        self._process_input()

    def _process_input(self) -> None:
        """Process the received bytes as far as possible, and account for the rest."""
        while self._input and self._step():
            pass
        if self.transport is not None:
            self._update_held_bytes()

    def _step(self) -> bool:
        """Parse a head or a piece of a body, or discard bytes. False when nothing can be done before more bytes arrive
        or a response ends.
        """
        received, admission = self._input, self.admission
        if admission is not None and admission.bytes_to_discard:
            admission.discard(received.take(admission.bytes_to_discard))
            if not admission.bytes_to_discard:
                self._head_timeout.cancel()
            return True
        if not self._broken and self._is_receiving():
            return self._receive_body()
        if self._broken or self._is_last_request or self._close or self._force_close or self.transport is None:
            received.clear()
            return False
        return self._request_count == self._responses_sent and self._take_next_head()

    def _receive_body(self) -> bool:
        """Feed the parser the received part of the current body. False if nothing was received, or if the body exceeds
        a framing limit.
        """
        data = self._input.take(len(self._input))
        try:
            count = len(data) if self._body_frame is None else self._body_frame.consume(data)
        except FramingLimitExceeded:
            self._broken = True
            if self._body is not None:
                self._fail_body(self._body, responded=self._responses_sent >= self._request_count)
            return False
        self._input.append(data[count:])
        if count:
            self._feed_parser(data[:count])
        return count > 0

    def _take_next_head(self) -> bool:
        """Parse the next request with the received part of its body, unless the request is refused. Bytes that cannot
        become a head are passed to the parser, which reports the error. False when the head is incomplete or too long.
        """
        received, max_head_bytes = self._input, self._context.settings.max_head_bytes
        received.skip_blank_lines()
        end = received.head_end()
        if max(end, len(received) if end < 0 else 0) > max_head_bytes:
            self._reject_unparsed(received.take(max_head_bytes), HeadTooLong(max_head_bytes))
            received.clear()
            return False
        if end < 0 and (not received or received.may_become_head()):
            if received and not self._head_timeout.is_pending:
                self._head_timeout.start(self._on_head_timeout)
            return False
        size = end if end > 0 else len(received)
        head = received.peek(size)
        # An empty line without a carriage return ends a head for some implementations and not for others. The parser
        # refuses such a head, whether it arrives in one piece or in several.
        is_broken = head.find(b"\n\n", 0, size) >= 0
        preview = None if is_broken else RequestPreview.parse(head)
        piece = received.take(size if preview is None else preview.head_bytes + preview.content_length)
        if self.admission is None or is_broken or not self._apply_preparse(piece, self.admission, preview):
            self._feed_parser(piece, size)
        return True

    def _feed_parser(self, data: bytes, head: int = 0) -> None:
        """Parse `data`, whose first `head` bytes are a head (0: no head). A head begins a request and ends the head
        timeout.
        """
        heads, body = self._request_count, self._body
        self._parse(data)
        if self._request_count > heads:
            self._context.registry.mark_busy(self)
            message, self._body = self._messages[-1]
            self._broken = not isinstance(message, RawRequestMessage)
            if self._broken and body is not None and not body.is_eof():
                self._fail_body(body, responded=self._responses_sent >= heads)
            elif self._broken:
                self._salvage_request_line(data, cast(_ErrInfo, message).exc)
            else:
                self._begin_request(cast(RawRequestMessage, message), data, head)
            self._head_timeout.cancel()
        elif head and self.transport is not None:
            self._reject_unparsed(data, BadHttpMessage("the head is incomplete"))
        if self.admission is not None:
            self.admission.on_parsed(len(data), heads=self._request_count - heads, whole=not self._is_receiving())

    def _begin_request(self, message: RawRequestMessage, data: bytes, head: int) -> None:
        """Record the memory and the body frame of a parsed request, whose head is the first `head` bytes of `data`."""
        self._parsed_head_bytes = parsed_head_memory_bytes(data, head)
        self._reject_unsupported_version(message)
        self._body_frame = None
        if self._is_receiving():
            self._body_frame = build_body_frame(message, self._context.settings.max_head_bytes)
            self._body_frame.consume(data[head:])
        if self._upgraded:  # no other protocol is supported: handle the request normally, then close
            self._broken = True
            head_message = cast(Any, self._messages[-1][0])
            self._messages[-1] = head_message._replace(should_close=True), EMPTY_PAYLOAD

    def _update_held_bytes(self) -> None:
        """Record the held bytes. Stop reading while more than `max_head_bytes` bytes wait to be parsed."""
        waiting = len(self._input)
        trailer = self._body_frame.trailer_bytes if self._body_frame is not None and self._is_receiving() else 0
        held = waiting + self._parsed_head_bytes + trailer * MEMORY_PER_HEAD_BYTE
        if held != self._held_bytes:
            self._held_bytes = held
            self._context.head_memory.set_held(self, held)
        if waiting > self._context.settings.max_head_bytes and not self._buffer_paused:
            self._pause_reading_for_buffer()
        elif self._buffer_paused:
            self._resume_reading_if_drained()

    def _resume_reading_if_drained(self) -> None:
        """Override aiohttp's check, which runs after it has taken a request, and which ignores the input buffer."""
        if len(self._input) <= self._context.settings.max_head_bytes:
            self._resume_reading_for_buffer()

    def _apply_preparse(self, data: bytes, admission: ConnectionAdmission, preview: RequestPreview | None) -> bool:
        """If the request at the start of `data` is refused before parsing, write the response and return True."""
        response = admission.check(data, preview) if self._can_respond() else None
        if response is None:
            return False
        cast(asyncio.Transport, self.transport).write(response)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        self._context.registry.mark_idle(self)
        self._head_timeout.cancel()
        if admission.bytes_to_discard:
            self._head_timeout.start(self._on_head_timeout)
        return True

    def _can_respond(self) -> bool:
        """Whether a response can reach the client now: the connection is not closing, and the client reads."""
        return not (self._close or self._force_close or self._paused) and self.transport is not None

    def _parse(self, data: bytes) -> None:
        """Parse as aiohttp does. aiohttp ignores input once it closes, but here a body in transit is received to its
        end.
        """
        closing = self._close, self._force_close
        if any(closing) and self._is_receiving():
            self._close = self._force_close = False
        super().data_received(data)
        self._close, self._force_close = self._close or closing[0], self._force_close or closing[1]

    def _reject_unparsed(self, head: bytes, fault: Exception) -> None:
        """Queue the refusal of a head that is not passed to the parser. Input is then discarded for LINGER_S, so that
        the client can read the response.
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
        """Let the middlewares respond to a head that could not be parsed, if its request line can be read."""
        head = parse_request_line(data)
        if head is not None:
            self._messages[-1] = with_supported_version(head), self._messages[-1][1]
            self._mark_malformed(head, fault)

    def _reject_unsupported_version(self, head: RawRequestMessage) -> None:
        """Mark a head with an unsupported HTTP version for refusal, because the parser accepts it."""
        if (supported := with_supported_version(head)) is not head:
            self._messages[-1] = supported, self._messages[-1][1]
            self._mark_malformed(head, None)

    def _mark_malformed(self, head: RawRequestMessage, fault: object) -> None:
        """If the head is malformed, let `reject_malformed` refuse it. Only the first malformed head is marked, because
        the connection closes after it.
        """
        error = bad_head_error(head, fault)
        if error is not None and self.malformed_request is None:
            self.malformed_request = MalformedRequest(head.headers, error)

    def _fail_body(self, body: StreamReader, *, responded: bool) -> None:
        """Make the reader of a body fail whose rest cannot be parsed, so that the reader does not wait for it."""
        if responded:
            self._close_after(body)
            return
        error = RequestPayloadError("the body does not match its framing headers")
        body.set_exception(error)
        # aiohttp drops the exception for a reader that was just woken for data, which would then wait for more data.
        self._loop.call_soon(body.set_exception, error)

    def _close_after(self, body: StreamReader) -> None:
        """End a broken body whose request was already answered, and receive nothing after it. aiohttp reads the rest of
        the body, and would handle an exception of the body as its own error.
        """
        self._close = True
        body.feed_eof()

    def _is_receiving(self) -> bool:
        """Whether the connection is open and a body is incomplete."""
        return self.transport is not None and self._body is not None and not self._body.is_eof()

    def _on_head_timeout(self) -> None:
        if self._current_request is None and not self._messages:
            self._context.count_head_timeout()
            self.force_close()
