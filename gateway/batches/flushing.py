"""Counts of requests that belong to no batch, stored now and then."""

from collections.abc import Callable

import structlog

from chassis.rounds import Rounds
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
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._ledger = ledger
        self._gatherer = gatherer
        self._availability = availability
        self._clock = clock
        self._rounds = Rounds(self._flush_now_and_then, every_s, log, "outcomes are not handed over")

    def start(self) -> None:
        """Begin to flush."""
        self._rounds.start()

    async def close(self) -> None:
        """Stop, and hand over what is left."""
        await self._rounds.close()
        self._flush()

    async def _flush_now_and_then(self) -> None:
        # While ClickHouse is away the sums go on growing in place instead of becoming a queue of blocks.
        if self._availability.up:
            self._flush()

    def _flush(self) -> None:
        batch_id = new_batch_id()
        block = self._ledger.take(batch_id, self._clock() // 10**6)
        if block is not None:
            self._gatherer.add([Sealed(batch_id, block)])
