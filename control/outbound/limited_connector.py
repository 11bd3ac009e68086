"""Connections to other ends that may send without end: what comes back is bounded before anything looks at it.

`aiohttp` bounds one head and one line. It reads any number of 1xx answers in front of the one that counts, and an
extension of a chunk for as long as it goes on, all within one turn of the loop: a receiver could stop the process.
"""

from asyncio import AbstractEventLoop
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

MAX_RECEIVED: Final = 128 * 1024  # bytes of an answer: heads, body and whatever is around it


class LimitedConnector(aiohttp.TCPConnector):
    """For connections that are used for one request each."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        protocol: type[ResponseHandler] = _LimitedProtocol
        self._factory = partial(protocol, loop=self._loop)


class _LimitedProtocol(ResponseHandler):
    """Hands on the first bytes of a connection, and aborts it at the bound."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._remaining_bytes = MAX_RECEIVED

    def data_received(self, data: bytes) -> None:
        left, self._remaining_bytes = self._remaining_bytes, self._remaining_bytes - len(data)
        if left > 0:
            super().data_received(data[:left])
        transport = self.transport
        if self._remaining_bytes < 0 and transport is not None:
            transport.abort()
