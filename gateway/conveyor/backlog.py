"""How much of what an earlier process left half done is still to be completed, for `/metrics` and the log."""

import time
from types import TracebackType
from typing import Final, Self

from gateway.conveyor.sink import Sink

TELL_S: Final = 10.0  # between two lines in the log


class Backlog:
    """Batches of one journal, while they are completed. Several journals may have some at once."""

    def __init__(self, sink: Sink, batches: int) -> None:
        self._metrics = sink.metrics
        self._log = sink.log
        self._batches = self._left = batches
        self._began = self._told = time.monotonic()

    def __enter__(self) -> Self:
        self._metrics.recovery_batches.inc(self._left)
        self._log.info("recovery started", batches_total=self._batches, batches_left=self._left)
        return self

    def completed(self) -> None:
        """One more is stored, or put off."""
        self._left -= 1
        self._metrics.recovery_batches.dec()
        now = time.monotonic()
        if self._left and now - self._told >= TELL_S:
            self._told = now
            self._log.info("recovery goes on", batches_total=self._batches, batches_left=self._left)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._metrics.recovery_batches.dec(self._left)
        if not self._left:
            seconds = round(time.monotonic() - self._began, 3)
            self._log.info("recovery finished", batches_total=self._batches, batches_left=0, seconds=seconds)
