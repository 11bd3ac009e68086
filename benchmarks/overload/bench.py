"""A running deployment and the processes that send to it."""

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final

from benchmarks.gateway.bodies import ITEMS, Kind
from benchmarks.overload.deployment import Deployment
from benchmarks.overload.offering import Load, Outcome, exports, joined, offer
from benchmarks.report import quantile

_QUIET_S: Final = 3.0  # without an arrival, once nothing is missing
_GIVEN_UP_S: Final = 60.0  # without one, while something is
_QUANTILES: Final = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))


class Bench:
    """A deployment, and the processes that send to it."""

    def __init__(self, deployment: Deployment, senders: Executor, processes: int, kind: Kind) -> None:
        self.deployment = deployment
        self._senders = senders
        self._processes = processes
        self._kind = kind
        self.acknowledged = 0  # items

    def offer(self, rate: float, seconds: float, connections: int) -> Outcome:
        """So many requests a second from all processes together; 0: without a pause."""
        rate, connections = rate / self._processes, max(1, connections // self._processes)
        requests = exports(self._kind, *self.deployment.keys)
        load = Load(self.deployment.port, requests, rate, seconds, connections)
        outcome = joined(list(self._senders.map(offer, [load] * self._processes)))
        self.acknowledged += outcome.count(200) * ITEMS
        return outcome

    def missing(self) -> int:
        """Acknowledged items that are not at the endpoint, once nothing more comes: the journal may hold minutes."""
        while True:
            left, idle_s = self._left(), self.deployment.sink.arrived()["idle_s"]
            if idle_s >= (_QUIET_S if left <= 0 else _GIVEN_UP_S):
                return left
            time.sleep(0.2)

    def _left(self) -> int:
        return self.acknowledged - self.deployment.rows(self._kind.signal)


def times_of(times: Sequence[float]) -> str:
    """Their quantiles, in words."""
    return ", ".join(f"{name} {quantile(times, q) * 1e3:.0f} ms" for name, q in _QUANTILES)
