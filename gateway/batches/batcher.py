"""Requests become batches: one is sent when it is full, or when it has waited and an insert slot is free.

While all slots are busy the open batch goes on filling, so that a slow store gets larger blocks instead of more.
"""

import asyncio
from collections import deque
from typing import Final

import structlog

from chassis.errors import ServiceUnavailable
from gateway.batches.writer import AWAY, Pending, Writer
from gateway.settings import GatewaySettings
from proto.otlp.policy import Decoded

DRAIN_MARGIN_S: Final = 1.0

SHORTEST: Final = 0.05  # of the linger


class Batcher:
    """Collects decoded requests and answers each when its items are in ClickHouse."""

    def __init__(self, writer: Writer, settings: GatewaySettings, log: structlog.stdlib.BoundLogger) -> None:
        self._writer = writer
        self._log = log
        self._settings = settings
        self._open: list[Pending] = []
        self._items = 0
        self._bytes = 0
        self._linger: asyncio.TimerHandle | None = None
        self._ripe = False  # the open batch has waited long enough
        self._closed_at = float("-inf")  # when the last one was closed, by the loop's clock
        self._full: deque[list[Pending]] = deque()
        self._writing: set[asyncio.Task[None]] = set()

    async def store(self, decoded: Decoded, wire_bytes: int) -> None:
        """Returns once the spans and logs are in ClickHouse. ServiceUnavailable when they are not at the deadline (they
        may still arrive: the promise is at least once); InternalError when ClickHouse will never take them.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.ack_deadline_s
        request = Pending(decoded, wire_bytes, deadline, loop.create_future())
        expiry = loop.call_at(deadline, request.fail, ServiceUnavailable(AWAY))
        self._add(request)
        try:
            await request.done
        finally:
            expiry.cancel()
            self._forget(request)

    async def close(self) -> None:
        """Write what waits; every request has its answer afterwards. An insert that hangs longer than the deadline of
        the requests behind it is left alone: they were answered 503.
        """
        try:
            async with asyncio.timeout(self._settings.ack_deadline_s + DRAIN_MARGIN_S):
                while self._open or self._full or self._writing:
                    self._ripen()
                    if self._writing:  # not when all that waited had given up
                        await asyncio.wait(self._writing)
        except TimeoutError:
            self._log.warning("stopped with inserts under way", batches=len(self._writing))
        for task in self._writing:
            task.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)

    def _add(self, request: Pending) -> None:
        request.queue = self._open
        self._open.append(request)
        self._items += request.decoded.accepted
        self._bytes += request.decoded.nbytes
        if self._items >= self._settings.batch_rows or self._bytes >= self._settings.batch_bytes:
            self._full.append(self._take_open())
            self._pump()
        elif self._ripe:
            self._pump()
        elif self._linger is None:
            self._linger = asyncio.get_running_loop().call_later(self._wait_s(), self._ripen)

    def _wait_s(self) -> float:
        """How long a new batch stays open: one linger after the last one was closed, so that blocks stay few; but after
        a pause only long enough for what was sent together.
        """
        linger = self._settings.linger_s
        return max(linger * SHORTEST, linger - (asyncio.get_running_loop().time() - self._closed_at))

    def _forget(self, request: Pending) -> None:
        """Take an answered request out of the batch it waits in: its memory is no longer charged to anyone."""
        queue, request.queue = request.queue, None
        if queue is None:
            return
        queue.remove(request)
        if queue is self._open:
            self._items -= request.decoded.accepted
            self._bytes -= request.decoded.nbytes
            if not queue:
                self._ripe = False  # the next request begins a new batch

    def _ripen(self) -> None:
        self._linger = None
        self._ripe = True
        self._pump()

    def _take_open(self) -> list[Pending]:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        batch, self._open = self._open, []
        self._items = self._bytes = 0
        self._ripe = False
        self._closed_at = asyncio.get_running_loop().time()
        return batch

    def _pump(self) -> None:
        """Start writing while there is a slot and something to write."""
        while len(self._writing) < self._settings.max_batches:
            if self._full:
                batch = self._full.popleft()
            elif self._ripe and self._open:
                batch = self._take_open()
            else:
                return
            # A request that gave up waiting was answered 503: it is sent again, so its items stay out.
            waiting = [request for request in batch if not request.done.done()]
            for request in batch:
                request.queue = None
            if waiting:
                task = asyncio.get_running_loop().create_task(self._write(waiting))
                self._writing.add(task)
                task.add_done_callback(self._written)

    async def _write(self, batch: list[Pending]) -> None:
        try:
            await self._writer.write(batch, max(request.deadline for request in batch))
        except Exception:  # noqa: BLE001 (nothing a batch does may leave its requests without an answer)
            # Not foreseen, so perhaps passing: a 500 would make the senders throw the items away.
            self._log.exception("batch failed", requests=len(batch))
            for request in batch:
                request.fail(ServiceUnavailable(AWAY))

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._writing.discard(task)
        self._pump()
