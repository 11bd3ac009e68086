"""Decides which requests take the slow lane: those whose blocks cost much more than others of their size."""

from collections.abc import Callable

from proto.otlp.policy import NANOS_PER_DAY, DecodedPayload


class SlowLaneRule:
    """Matches requests with an item of a day that ended at least `after_days` ago, or with at least `after_symbols`
    distinct keys and names (docs/adr/004-slow-lane.md). 0 disables either. `clock` gives nanoseconds since 1970.
    """

    def __init__(self, after_days: int, after_symbols: int, clock: Callable[[], int]) -> None:
        self._after_days = after_days
        self._after_symbols = after_symbols
        self._clock = clock

    def matches(self, decoded: DecodedPayload) -> bool:
        """Whether the request takes the slow lane, with all of its items."""
        if 0 < self._after_symbols <= decoded.symbols:
            return True
        days = self._after_days
        return days > 0 and decoded.days[0] < self._clock() // NANOS_PER_DAY - days
