"""Rounds: each rival in turn gets the same load for the same time, and is charged until the last item has arrived."""

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

from benchmarks.gateway.bodies import Kind
from benchmarks.gateway.load import Sent, send
from benchmarks.gateway.rivals import Endpoint, Rival

QUIET_S: Final = 3.0  # without an insert: what is derived from the items (two seconds behind them) has arrived as well
_ARRIVAL_S: Final = 60.0


class Void(Exception):
    """What was measured cannot be compared: something was refused, or did not arrive."""


class Round(NamedTuple):
    """One rival under one kind of load: CPU microseconds an item, items a second, and seconds to each answer."""

    cpu_us: float
    rate: float
    latencies: Sequence[float]


def measure(rival: Rival, kind: Kind, sink: Endpoint, senders: Executor, connections: int, seconds: float) -> Round:
    """One round. Raises Void."""
    table = rival.tables.get(kind.signal)
    rows, cpu_s = sink.rows(table) if table else 0, rival.cpu_s()
    sent = senders.submit(send, rival.target, kind, connections, seconds).result()
    if sent.refused:
        raise Void(f"{rival.name} refused requests, by status: {sent.refused}; take fewer connections")
    if table:
        _all_arrived(rival, table, rows, sent, sink)
    return Round((rival.cpu_s() - cpu_s) * 1e6 / sent.items, sent.items / sent.seconds, sent.latencies)


def _all_arrived(rival: Rival, table: str, before: int, sent: Sent, sink: Endpoint) -> None:
    """Wait until every accepted item is a row, and until nothing else comes."""
    deadline = time.monotonic() + _ARRIVAL_S
    while sink.rows(table) - before < sent.items or sink.arrived()["idle_s"] < QUIET_S:
        if time.monotonic() > deadline:
            raise Void(f"{rival.name} accepted {sent.items} items, {sink.rows(table) - before} arrived")
        time.sleep(0.1)
    arrived = sink.rows(table) - before
    if arrived != sent.items:
        raise Void(f"{rival.name} accepted {sent.items} items, {arrived} arrived")
