"""Stores, periodically, the outcome counts of requests that belong to no batch."""

from collections.abc import Callable

import structlog

from chassis.runtime.periodic import PeriodicTask
from gateway.inserts.derived_coalescer import DerivedCoalescer
from gateway.inserts.insert_block import InsertBlock, new_batch_id
from gateway.inserts.insert_breaker import InsertBreaker
from gateway.outcomes import OutcomeCounters


class OutcomeFlusher:
    """Drains the pending sums of `OutcomeCounters` every `interval_s`, and once more on shutdown."""

    def __init__(
        self,
        outcomes: OutcomeCounters,
        coalescer: DerivedCoalescer,
        breaker: InsertBreaker,
        interval_s: float,
        clock: Callable[[], int],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._outcomes = outcomes
        self._coalescer = coalescer
        self._breaker = breaker
        self._clock = clock
        self._periodic_task = PeriodicTask(self._flush_if_up, interval_s, log, "flushing outcome counts failed")

    def start(self) -> None:
        """Start flushing."""
        self._periodic_task.start()

    async def close(self) -> None:
        """Stop, and pass the remaining sums to the coalescer."""
        await self._periodic_task.close()
        self.flush()

    async def _flush_if_up(self) -> None:
        # While ClickHouse is unavailable the sums keep growing, instead of becoming a queue of blocks.
        if self._breaker.is_up:
            self.flush()

    def flush(self) -> None:
        """Pass the pending sums to the coalescer."""
        batch_id = new_batch_id()
        block = self._outcomes.drain(batch_id, self._clock() // 10**6)
        if block is not None:
            self._coalescer.add([InsertBlock(batch_id, block)])
