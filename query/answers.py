"""How many answers are in memory at once, and how many of them are one principal's. A read's limits end with the read;
its rows and JSON stay until they are sent.
"""

import asyncio
from collections import Counter
from typing import NamedTuple

from aiohttp import web

from chassis.errors import ServiceUnavailable
from chassis.web import JSON_TYPE


class _Waiter(NamedTuple):
    """A request that waits; `turn` is done when it has been given its place."""

    principal: str
    turn: asyncio.Future[None]


class Answers:
    """`places` answers are made or sent at a time, `per_principal` of them for one principal (0: no limit of its own).

    `max_waiting` requests wait for a place, half of them of one principal when it has a limit, for `timeout_s` at most.
    The first goes first whose principal is below its limit; so whoever has used up his share is passed by the others.
    """

    def __init__(self, places: int, per_principal: int, max_waiting: int, timeout_s: float) -> None:
        self._free = places
        self._per_principal = per_principal or places
        self._held = Counter[str]()
        self._waiting: list[_Waiter] = []  # none of them could start: whenever one can, it is taken out
        self._max_waiting = max_waiting
        self._max_waiting_of_one = -(-max_waiting // 2) if per_principal else max_waiting
        self._timeout_s = timeout_s

    async def take_place(self, principal: str) -> None:
        """Take a place until this request's task ends, which is when aiohttp has written the answer or given it up.

        ServiceUnavailable when too many wait already, of all or of `principal`, or for too long.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request runs in a task")
        if self._may_start(principal):
            self._start(principal)
        else:
            await self._wait(principal)
        task.add_done_callback(lambda _task: self._release(principal))

    def _may_start(self, principal: str) -> bool:
        return self._free > 0 and self._held[principal] < self._per_principal

    def _start(self, principal: str) -> None:
        self._free -= 1
        self._held[principal] += 1

    def _release(self, principal: str) -> None:
        self._free += 1
        self._held[principal] -= 1
        if not self._held[principal]:
            del self._held[principal]
        self._call_next()

    def _call_next(self) -> None:
        """Give the place to the first that may have it. One that is being cancelled leaves by itself."""
        for waiter in self._waiting:
            if self._may_start(waiter.principal) and not waiter.turn.done():
                self._waiting.remove(waiter)
                self._start(waiter.principal)
                waiter.turn.set_result(None)
                return

    async def _wait(self, principal: str) -> None:
        self._refuse_beyond_bounds(principal)
        waiter = _Waiter(principal, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(self._timeout_s):
                await waiter.turn
        except TimeoutError as error:
            self._leave(waiter)
            raise ServiceUnavailable("Too many answers are being read or sent.") from error
        except asyncio.CancelledError:
            self._leave(waiter)
            raise

    def _refuse_beyond_bounds(self, principal: str) -> None:
        if len(self._waiting) >= self._max_waiting:
            raise ServiceUnavailable("Too many answers are being read or sent.")
        if sum(waiter.principal == principal for waiter in self._waiting) >= self._max_waiting_of_one:
            raise ServiceUnavailable("Too many requests of this principal are waiting.")

    def _leave(self, waiter: _Waiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        else:
            self._release(waiter.principal)  # its turn came while it was giving up


def json_answer(body: bytes) -> web.Response:
    """A 200 of `body`."""
    answer = web.Response(body=body)
    answer.headers["Content-Type"] = JSON_TYPE
    return answer
