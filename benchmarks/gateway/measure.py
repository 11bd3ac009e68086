"""Rounds: each rival in turn gets the same load for the same time, and is charged until the last item has arrived."""

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import NamedTuple

from benchmarks.gateway.bodies import Kind
from benchmarks.gateway.load import send
from benchmarks.gateway.rivals import Endpoint, Rival
from benchmarks.report import Void


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
        sink.wait_until_arrived({table: rows + sent.items})
    return Round((rival.cpu_s() - cpu_s) * 1e6 / sent.items, sent.items / sent.seconds, sent.latencies)
