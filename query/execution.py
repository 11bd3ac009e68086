"""One query execution, shared by all requests that wait for its result; the response stays in memory until the last has
it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from query.send_buffer import BufferedResponse


class Execution:
    """Starts at once. A request attaches, and detaches when its task ends, which is when aiohttp has written the
    response or given up. When no request is left, the execution is cancelled, or its buffered response is released.
    `requests` is the number of attached requests.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, BufferedResponse]) -> None:
        self.requests = 0
        self.task = asyncio.get_running_loop().create_task(coroutine)
        self.task.add_done_callback(self._on_done)

    def attach(self, request: asyncio.Task[Any]) -> None:
        """Count a request as waiting for the result until its task ends."""
        self.requests += 1
        request.add_done_callback(self._on_request_done)

    async def result(self) -> BufferedResponse:
        """Return the response or raise its exception; cancelling one caller does not affect the others."""
        return await asyncio.shield(self.task)

    def _on_request_done(self, _request: asyncio.Task[Any]) -> None:
        self.requests -= 1
        if self.requests:
            return
        if self.task.done():
            self._release()
        else:
            self.task.cancel()

    def _on_done(self, _task: asyncio.Task[BufferedResponse]) -> None:
        if not self.requests:
            self._release()

    def _release(self) -> None:
        if not self.task.cancelled() and self.task.exception() is None:
            self.task.result().release()
