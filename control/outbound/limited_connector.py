"""Connections to peers that may send without end: bounds received bytes before anything parses them.

`aiohttp` bounds one head and one line. But it reads any number of 1xx responses before the final one, and a chunk
extension of any length, all within one iteration of the event loop: a receiver could block the process.
"""

from asyncio import AbstractEventLoop
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

MAX_RECEIVED: Final = 128 * 1024  # bytes of a response: heads, body and framing


class LimitedConnector(aiohttp.TCPConnector):
    """A connector whose connections are used for one request each (`force_close`)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        protocol: type[ResponseHandler] = _LimitedProtocol
        self._factory = partial(protocol, loop=self._loop)


class _LimitedProtocol(ResponseHandler):
    """Passes on the first MAX_RECEIVED bytes of a connection, and aborts the connection when more arrive."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._remaining_bytes = MAX_RECEIVED

    def close(self) -> None:
        """Close the connection at once. A TLS connection would wait up to 30 s for the peer's confirmation, outside the
        connector's limit of connections and even after the connector is closed.
        """
        self.abort()

    def data_received(self, data: bytes) -> None:
        remaining, self._remaining_bytes = self._remaining_bytes, self._remaining_bytes - len(data)
        if remaining > 0:
            super().data_received(data[:remaining])
        transport = self.transport
        if self._remaining_bytes < 0 and transport is not None:
            transport.abort()
