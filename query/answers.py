"""How many answers are in memory at once, and how many of them are one principal's. A read's limits end with the read;
its rows and JSON stay until they are sent.
"""

import asyncio

from aiohttp import web

from chassis.errors import ServiceUnavailable
from chassis.web import JSON_TYPE
from query.turns import Turns


class Answers:
    """`places` answers are made or sent at a time, `per_principal` of them for one principal (0: no limit of its own).

    `max_waiting` requests wait for a place, half of them of one principal when it has a limit, for `timeout_s` at most.
    """

    def __init__(self, places: int, per_principal: int, max_waiting: int, timeout_s: float) -> None:
        max_waiting_of_one = -(-max_waiting // 2) if per_principal else 0
        self._turns = Turns(places, per_principal, max_waiting, max_waiting_of_one)
        self._timeout_s = timeout_s

    async def take_place(self, principal: str) -> None:
        """Take a place until this request's task ends, which is when aiohttp has written the answer or given it up.

        ServiceUnavailable when too many wait already, of all or of `principal`, or for too long.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request runs in a task")
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._turns.take(principal)
        except TimeoutError as error:
            raise ServiceUnavailable(
                f"No place came free within {self._timeout_s:g} seconds; ask for less at once, or again later."
            ) from error
        task.add_done_callback(lambda _task: self._turns.give_back(principal))


def json_answer(body: bytes) -> web.Response:
    """A 200 of `body`."""
    answer = web.Response(body=body)
    answer.headers["Content-Type"] = JSON_TYPE
    return answer
