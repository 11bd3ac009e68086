"""A client's connection and its connection to gRPC's core. Bytes are forwarded in both directions once their frames are
checked.


    ClientConnection.connection_made     registers the connection, or closes it at a limit
                    .data_received       checks the frames; with the preface complete, connects to the core
                    ._on_timer           disconnects a client that does not complete a frame or message in time
    CoreConnection                       forwards the bytes of the core; a client that reads too slowly is disconnected

Each side stops reading while the other side does not accept its data.
"""

import asyncio
from typing import Final, cast

from chassis.http.connections.timeouts import SendProgress, Timeout, unacknowledged_bytes
from gateway.grpc.connections import Connections
from gateway.grpc.framing import ConnectionFraming, Fault, goaway

CLOSE_S: Final = 5.0  # to send the remaining bytes when a connection ends

_NO_ERROR: Final = 0
_ENHANCE_YOUR_CALM: Final = 11
SLOW: Final = Fault("slow", _ENHANCE_YOUR_CALM)
EVICTED: Final = Fault("idle", _NO_ERROR)
LIMIT: Final = "limit"
UNREAD: Final = "unread"
CORE: Final = "core"


class ClientConnection(asyncio.Protocol):
    """The side of the client."""

    def __init__(self, shared: Connections) -> None:
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self._framing = ConnectionFraming(self._loop.time())
        self._transport: asyncio.Transport | None = None
        self._core: CoreConnection | None = None
        self._is_connecting = False
        self._received: list[bytes] = []  # until there is a connection to the core: at most the preface and one read
        self._is_busy = False
        self._is_paused = False  # reading from the client is paused
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None  # for the frame or header block that the client has begun
        self._unit = -1  # number of the frame or header block that the client has begun
        self._sent_bytes = 0
        self._send_timeout = Timeout(self._loop, shared.settings.send_timeout_s)
        self._send_checkpoint = SendProgress(0, 0)
        self.peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, or close it if there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        self.peer = _address(self._transport)
        if not self._shared.registry.add(self, self.peer):
            self._shared.count_closed(LIMIT)
            self._transport.abort()
            self._transport = None
            return
        self._expect(self._loop.time(), 0)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the connection to the core as well, which cancels its calls."""
        del exc
        self._transport = None
        self._deadline = None
        self._received.clear()
        self._send_timeout.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._core is not None:
            self._core.close()
        self._shared.registry.remove(self)

    def data_received(self, data: bytes) -> None:
        """Check the frames and pass them on."""
        now = self._loop.time()
        fault = self._framing.from_client(data, now)
        if fault is not None:
            self.close_for(fault)
            return
        if self._core is not None:
            self._core.write(data)
        else:
            self._hold(data)
        if self._framing.owes_bytes:
            self._expect(now, len(data))
        else:
            self._deadline = None
        self.update_busy()

    def pause_writing(self) -> None:
        """The client does not read fast enough: pause the core, and require that the client reads at the minimum
        rate."""
        if self._core is not None:
            self._core.pause_reading()
        if not self._send_timeout.is_pending:
            self._start_send_timeout()

    def resume_writing(self) -> None:
        """The client has read enough: resume the core."""
        self._send_timeout.cancel()
        if self._core is not None:
            self._core.resume_reading()

    def evict(self) -> None:
        """Close at once, in favour of a new connection."""
        transport = self._transport
        is_unread = transport is not None and transport.get_write_buffer_size() > 0
        self.close_for(EVICTED)
        if transport is not None and is_unread:  # the client would not read the GOAWAY
            transport.abort()

    def close_for(self, fault: Fault) -> None:
        """Close, and say why to the client."""
        if self._transport is None or self._transport.is_closing():
            return
        self._shared.count_closed(fault.reason)
        if self._framing.has_preface and self._framing.core_is_between_frames:
            self._transport.write(goaway(self._framing.last_stream, fault.code))
        self.close()

    def close(self) -> None:
        """Close once everything is sent, within CLOSE_S."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._deadline = None
        self._received.clear()
        transport.close()
        if self._core is not None:
            self._core.close()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(CLOSE_S, transport.abort)

    def from_core(self, data: bytes) -> None:
        """Forward data from the core to the client."""
        self._framing.from_core(data)
        if self._transport is not None and not self._transport.is_closing():
            self._sent_bytes += len(data)
            self._transport.write(data)
        self.update_busy()

    def update_busy(self) -> None:
        """Mark the connection as busy while it has calls: busy connections are not closed to make room for new ones. A
        call counts once its headers are complete."""
        is_busy = bool(self._framing.streams)
        if is_busy != self._is_busy and not self._framing.is_inside_headers and self._transport is not None:
            self._is_busy = is_busy
            registry = self._shared.registry
            (registry.mark_busy if is_busy else registry.mark_idle)(self)

    def pause_reading(self) -> None:
        """Stop reading from the client, because the core does not accept more data."""
        self._is_paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the client again. Its timeout starts again."""
        self._is_paused, self._unit = False, -1
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            if self._framing.owes_bytes:
                self._expect(self._loop.time(), 0)

    def _hold(self, data: bytes) -> None:
        """Keep the data until there is a connection to the core. It is opened once the client has shown that it speaks
        HTTP/2."""
        self._received.append(data)
        if self._framing.has_preface and not self._is_connecting:
            self._is_connecting = True
            self.pause_reading()
            self._shared.start(self._connect())

    async def _connect(self) -> None:
        try:
            connection = await self._shared.connect(self.peer)
            core = CoreConnection(self)
            await self._loop.create_unix_connection(lambda: core, sock=connection)
        except OSError:
            self._shared.count_closed(CORE)
            self.close()
            return
        self._core = core
        if self._transport is None or self._transport.is_closing():
            core.close()
            return
        core.write(b"".join(self._received))
        self._received.clear()
        self.resume_reading()

    def _expect(self, now: float, nbytes: int) -> None:
        """Set the deadline of a client that has sent `nbytes` of an incomplete unit. Message data has the timeout of a
        body, which bytes at the minimum rate prolong, as over HTTP. Anything else has the timeout of a head.
        """
        settings, unit = self._shared.settings, self._framing.unit
        timeout_s = settings.body_timeout_s if self._framing.is_inside_data else settings.header_timeout_s
        if self._deadline is None or unit != self._unit:
            self._deadline, self._unit = now + timeout_s, unit
        elif self._framing.is_inside_data and settings.body_min_rate:
            self._deadline = min(now + timeout_s, self._deadline + nbytes / settings.body_min_rate)
        if self._timer is not None and self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._on_timer)

    def _on_timer(self) -> None:
        """Close the connection at its deadline; if the deadline has moved since the timer was set, set the timer
        again."""
        self._timer = None
        if self._deadline is None or self._is_paused:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._on_timer)
        else:
            self.close_for(SLOW)

    def _start_send_timeout(self) -> None:
        self._send_checkpoint = self._send_progress()
        self._send_timeout.start(self._on_send_timeout)

    def _send_progress(self) -> SendProgress:
        return SendProgress(0, self._sent_bytes - unacknowledged_bytes(cast(asyncio.Transport, self._transport)))

    def _on_send_timeout(self) -> None:
        if self._transport is None:
            return
        settings = self._shared.settings
        least = settings.send_timeout_s * settings.send_min_rate
        if self._send_progress().has_advanced_from(self._send_checkpoint, least):
            self._start_send_timeout()
        else:
            self._shared.count_closed(UNREAD)
            self._transport.abort()


class CoreConnection(asyncio.Protocol):
    """The side of the core."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Close the client's connection, too."""
        del exc
        self._transport = None
        self._client.close()

    def data_received(self, data: bytes) -> None:
        """Forward the data to the client."""
        self._client.from_core(data)

    def pause_writing(self) -> None:
        """The core does not read: stop reading from the client."""
        self._client.pause_reading()

    def resume_writing(self) -> None:
        """It does."""
        self._client.resume_reading()

    def write(self, data: bytes) -> None:
        """Send to the core."""
        if self._transport is not None:
            self._transport.write(data)

    def pause_reading(self) -> None:
        """The client does not read."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """It does."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close once everything is sent, which is soon: the core reads at once."""
        if self._transport is not None:
            self._transport.close()


def _address(transport: asyncio.Transport) -> str:
    """The IP address of the client, with IPv4-mapped IPv6 addresses as IPv4."""
    peer = transport.get_extra_info("peername")
    address = peer[0] if isinstance(peer, tuple) else ""
    return address.removeprefix("::ffff:") if "." in address else address
