"""Progress of recovery, for `/metrics` and the log: batches of an earlier process that are not completed yet."""

import time
from types import TracebackType
from typing import Final, Self

from gateway.inserts.insert_context import InsertContext

LOG_INTERVAL_S: Final = 10.0  # between two log lines


class RecoveryProgress:
    """Unfinished batches of one journal, counted down while they are completed. Several journals may recover at once,
    so the metric is changed by differences.
    """

    def __init__(self, context: InsertContext, batches: int) -> None:
        self._metrics = context.metrics
        self._log = context.log
        self._batches = self._remaining = batches
        self._started_at = self._logged_at = time.monotonic()

    def __enter__(self) -> Self:
        self._metrics.recovery_batches.inc(self._remaining)
        self._log.info("recovery started", batches_total=self._batches, batches_left=self._remaining)
        return self

    def completed(self) -> None:
        """One more batch is stored or deferred; logs at most every LOG_INTERVAL_S."""
        self._remaining -= 1
        self._metrics.recovery_batches.dec()
        now = time.monotonic()
        if self._remaining and now - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = now
            self._log.info("recovery in progress", batches_total=self._batches, batches_left=self._remaining)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._metrics.recovery_batches.dec(self._remaining)
        if not self._remaining:
            seconds = round(time.monotonic() - self._started_at, 3)
            self._log.info("recovery finished", batches_total=self._batches, batches_left=0, seconds=seconds)
