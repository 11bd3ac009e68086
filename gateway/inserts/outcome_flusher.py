"""Counts of requests that belong to no batch, stored now and then."""

from collections.abc import Callable

import structlog

from chassis.runtime.periodic import PeriodicTask
from gateway.inserts.clickhouse_health import Availability
from gateway.inserts.derived_coalescer import DerivedCoalescer
from gateway.inserts.insert_block import InsertBlock, new_batch_id
from gateway.outcomes import OutcomeCounters


class OutcomeFlusher:
    """Takes the ledger's pending sums every `every_s` seconds, and once more at the end."""

    def __init__(
        self,
        outcomes: OutcomeCounters,
        coalescer: DerivedCoalescer,
        availability: Availability,
        interval_s: float,
        clock: Callable[[], int],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._outcomes = outcomes
        self._coalescer = coalescer
        self._availability = availability
        self._clock = clock
        self._periodic_task = PeriodicTask(self._flush_if_up, interval_s, log, "outcomes are not handed over")

    def start(self) -> None:
        """Begin to flush."""
        self._periodic_task.start()

    async def close(self) -> None:
        """Stop, and hand over what is left."""
        await self._periodic_task.close()
        self._flush()

    async def _flush_if_up(self) -> None:
        # While ClickHouse is away the sums go on growing in place instead of becoming a queue of blocks.
        if self._availability.is_up:
            self._flush()

    def _flush(self) -> None:
        batch_id = new_batch_id()
        block = self._outcomes.drain(batch_id, self._clock() // 10**6)
        if block is not None:
            self._coalescer.add([InsertBlock(batch_id, block)])
