"""Counts of requests that belong to no batch, stored now and then."""

import asyncio
from collections.abc import Callable

from gateway.batches.availability import Availability
from gateway.batches.gathering import Gatherer
from gateway.batches.insert import Sealed, new_batch_id
from gateway.outcomes import Ledger


class OutcomeFlusher:
    """Takes the ledger's pending sums every `every_s` seconds, and once more at the end."""

    def __init__(
        self,
        ledger: Ledger,
        gatherer: Gatherer,
        availability: Availability,
        every_s: float,
        clock: Callable[[], int],
    ) -> None:
        self._ledger = ledger
        self._gatherer = gatherer
        self._availability = availability
        self._every_s = every_s
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to flush."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Stop, and hand over what is left."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._flush()

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            # While ClickHouse is away the sums go on growing in place instead of becoming a queue of blocks.
            if self._availability.up:
                self._flush()

    def _flush(self) -> None:
        batch_id = new_batch_id()
        block = self._ledger.take(batch_id, self._clock() // 10**6)
        if block is not None:
            self._gatherer.add([Sealed(batch_id, block)])
