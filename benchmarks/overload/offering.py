"""Requests at fixed times, however long the answers take: what waits is not sent later, but more of it.

Meant for processes of their own (`offer` blocks). A connection that waits for no answer is used again; where all wait
another one is made, and where there are as many as permitted, the request waits here. Its time counts from when it was
due, so that no wait is left out. A refused request is not sent again.
"""

import asyncio
import itertools
import random
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, cast

import uvloop

from benchmarks.gateway.bodies import Kind, bodies, message
from benchmarks.report import quantile

BROKEN: Final = 0  # in the place of a status: the connection ended without an answer
UNSENT: Final = -1  # still waiting for a connection when time was up
_REPEATING: Final = 8  # connections of `repeat`
_TICK_S: Final = 0.001
_ANSWER_S: Final = 30.0  # how long the last answers are waited for


class Load(NamedTuple):
    """Requests that are made where they are sent, `rate` a second; 0: over all connections without a pause."""

    port: int
    requests: Callable[[], Iterator[bytes]]
    rate: float
    seconds: float
    connections: int


class Outcome(NamedTuple):
    """What a load came to. `seconds` from when a request was due to its answer, by status; the same of `accepted` ones
    by the second in which they were due; `late_s` how far behind its times the sender was, in the 99th percentile; its
    own CPU.
    """

    seconds: dict[int, Sequence[float]]
    accepted: Sequence[Sequence[float]]
    late_s: float
    cpu_s: float
    elapsed_s: float

    def count(self, status: int) -> int:
        """Requests with this outcome."""
        return len(self.seconds.get(status, ()))

    @property
    def statuses(self) -> dict[int, int]:
        """Requests by outcome."""
        return {status: len(times) for status, times in self.seconds.items()}

    @property
    def answered(self) -> int:
        """Requests with any answer."""
        return sum(count for status, count in self.statuses.items() if status > 0)


def offer(load: Load) -> Outcome:
    """Send it and wait for the last answers."""
    return uvloop.run(_Sender(load).run())


def exports(kind: Kind, *keys: str) -> Callable[[], Iterator[bytes]]:
    """Requests of one kind by projects in turn; each sender has every body."""
    return partial(_exports, kind, keys)


def repeat(port: int, message: bytes, seconds: float) -> Outcome:
    """Send one request on a few connections, again after every response. Connect again if a connection was closed."""
    return offer(Load(port, partial(itertools.repeat, message), 0, seconds, _REPEATING))


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """What several senders at the same time came to."""
    seconds: dict[int, array[float]] = {}
    for outcome in outcomes:
        for status, times in outcome.seconds.items():
            seconds.setdefault(status, array("d")).extend(times)
    accepted = [
        [time for each in parts for time in each] for parts in zip(*(one.accepted for one in outcomes), strict=True)
    ]
    return Outcome(
        cast(dict[int, Sequence[float]], seconds),
        accepted,
        max(outcome.late_s for outcome in outcomes),
        sum(outcome.cpu_s for outcome in outcomes),
        max(outcome.elapsed_s for outcome in outcomes),
    )


class _Sender:
    """One process's part of a load."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.loop: asyncio.AbstractEventLoop
        self.begin = 0.0
        self.idle: list[_Connection] = []
        self.open = 0
        self._backlog: deque[float] = deque()  # when each was due
        self._under_way = 0
        self._ended: asyncio.Future[None] | None = None  # of the last that is under way
        self._messages = load.requests()
        self._seconds: dict[int, array[float]] = {}
        self._accepted = [array("d") for _ in range(int(load.seconds) + 1)]
        self._late = array("d")
        self._making: set[asyncio.Task[None]] = set()

    async def run(self) -> Outcome:
        self.loop = asyncio.get_running_loop()
        cpu_s, self.begin = time.process_time(), self.loop.time()
        if self.load.rate:
            await self._at_fixed_times()
        else:
            for _ in range(self.load.connections):
                self._send(self.loop.time())
            await asyncio.sleep(self.load.seconds)
        await self._rest()
        late_s = quantile(self._late, 0.99) if self._late else 0.0
        elapsed_s = self.loop.time() - self.begin
        seconds = cast(dict[int, Sequence[float]], self._seconds)
        return Outcome(seconds, self._accepted, late_s, time.process_time() - cpu_s, elapsed_s)

    async def _at_fixed_times(self) -> None:
        total, sent = int(self.load.rate * self.load.seconds), 0
        while sent < total:
            now = self.loop.time()
            self._late.append(max(0.0, now - self.begin - sent / self.load.rate))
            due = min(total, int((now - self.begin) * self.load.rate) + 1)
            for number in range(sent, due):
                self._send(self.begin + number / self.load.rate)
            sent = due
            await asyncio.sleep(_TICK_S)

    async def _rest(self) -> None:
        if self._under_way:
            self._ended = self.loop.create_future()
            await asyncio.wait([self._ended], timeout=_ANSWER_S)
        for due in self._backlog:
            self._count(UNSENT, due)
        for connection in self.idle:
            connection.close()

    def _send(self, due: float) -> None:
        self._under_way += 1
        if self.idle:
            self.idle.pop().send(next(self._messages), due)
        elif self.open < self.load.connections:
            self.open += 1
            task = self.loop.create_task(self._connect(due))
            self._making.add(task)
            task.add_done_callback(self._making.discard)
        else:
            self._backlog.append(due)

    async def _connect(self, due: float) -> None:
        try:
            _, made = await self.loop.create_connection(lambda: _Connection(self), "127.0.0.1", self.load.port)
        except OSError:
            self.open -= 1
            self._count(BROKEN, due)
        else:
            made.send(next(self._messages), due)

    def answered(self, connection: "_Connection", status: int, due: float, *, closes: bool) -> None:
        """A request is over; the connection takes the next."""
        self._count(status, due)
        if closes:
            self.open -= 1
            connection.close()
        else:
            self.idle.append(connection)
        if self._backlog:
            self._under_way -= 1
            self._send(self._backlog.popleft())
        elif not self.load.rate and self.loop.time() - self.begin < self.load.seconds:
            self._send(self.loop.time())

    def lost(self, connection: "_Connection") -> None:
        """An idle connection was closed from the other end."""
        if connection in self.idle:
            self.idle.remove(connection)
            self.open -= 1

    def _count(self, status: int, due: float) -> None:
        now = self.loop.time()
        self._under_way -= 1
        if self._ended is not None and not self._under_way and not self._ended.done():
            self._ended.set_result(None)
        self._seconds.setdefault(status, array("d")).append(now - due)
        if status == 200:
            self._accepted[min(len(self._accepted) - 1, int(due - self.begin))].append(now - due)


class _Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, sender: _Sender) -> None:
        self._sender = sender
        self._transport: asyncio.Transport | None = None
        self._due: float | None = None
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, message: bytes, due: float) -> None:
        """Send a request that was due then."""
        self._due = due
        if self._transport is not None:
            self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end:
            return
        lower = head.lower()
        if len(body) < int(lower.partition(b"content-length:")[2].partition(b"\r\n")[0] or b"0"):
            return
        self._answer = b""
        self._over(int(head[9:12]), closes=b"connection: close" in lower)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's signature)
        self._transport = None
        if self._due is None:
            self._sender.lost(self)
        else:
            self._over(BROKEN, closes=True)

    def close(self) -> None:
        """End it."""
        if self._transport is not None:
            self._transport.close()

    def _over(self, status: int, *, closes: bool) -> None:
        due, self._due = self._due, None
        if due is not None:
            self._sender.answered(self, status, due, closes=closes)


def _exports(kind: Kind, keys: Sequence[str]) -> Iterator[bytes]:
    shuffled = [message(kind, key, body) for key in keys for body in bodies(kind)]
    random.Random(0).shuffle(shuffled)
    return itertools.cycle(shuffled)
