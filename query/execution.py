"""One answer on its way: made once for all who ask for it, and in memory until the last of them has it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from query.sending import BufferedResponse


class Execution:
    """Begins at once. Who asks for the answer enters, and has left when his request's task ends, which is when aiohttp
    has written the answer or given it up. When nobody is left it is cancelled, or what it made is given back.
    `requests` is how many have entered and not left.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, BufferedResponse]) -> None:
        self.requests = 0
        self.task = asyncio.get_running_loop().create_task(coroutine)
        self.task.add_done_callback(self._on_done)

    def attach(self, request: asyncio.Task[Any]) -> None:
        """Count a request among those that want the answer, until its task ends."""
        self.requests += 1
        request.add_done_callback(self._on_request_done)

    async def result(self) -> BufferedResponse:
        """The answer, or what was raised instead; when this is cancelled the others still get it."""
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
