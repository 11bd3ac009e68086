"""How many answers are in memory at once. A read's limits end with the read; its rows and JSON stay until they are
sent.
"""

import asyncio

from aiohttp import web

from chassis.errors import ServiceUnavailable
from chassis.web import JSON_TYPE


class Answers:
    """`places` answers are made or sent at a time; `max_waiting` requests wait for a place, for `timeout_s` at most."""

    def __init__(self, places: int, max_waiting: int, timeout_s: float) -> None:
        self._places = asyncio.Semaphore(places)
        self._waiting = 0
        self._max_waiting = max_waiting
        self._timeout_s = timeout_s

    async def take_place(self) -> None:
        """Take a place until this request's task ends, which is when aiohttp has written the answer or given it up.

        ServiceUnavailable when too many wait already, or for too long.
        """
        if self._places.locked() and self._waiting >= self._max_waiting:
            raise ServiceUnavailable("Too many answers are being read or sent.")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._places.acquire()
        except TimeoutError as error:
            raise ServiceUnavailable("Too many answers are being read or sent.") from error
        finally:
            self._waiting -= 1
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request runs in a task")
        task.add_done_callback(lambda _task: self._places.release())


def json_answer(body: bytes) -> web.Response:
    """A 200 of `body`."""
    answer = web.Response(body=body)
    answer.headers["Content-Type"] = JSON_TYPE
    return answer
