"""A follower of the tables, while gateways and ClickHouse are killed under load, reads every row once."""

import asyncio
import random
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from chassis.clickhouse import ClickHouse, StoreError
from chassis.clickhouse.storage_order import Checkpoint, OrderedTable, Position, StorageOrderReader
from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Gateway, Site
from tests.proto.otlp.sent import attributes, pair, request, span, string
from tests.selection import scaled

SPANS = 2_000  # of a request
DAY_NS = 86_400 * 10**9
UNHURRIED = {  # as in production, and room for the load
    "SLUICE_GATEWAY_JOURNAL_SEGMENT_BYTES": str(64 * 2**20),
    "SLUICE_GATEWAY_JOURNAL_HOLD_S": "60",
}


def body(age_ns: int) -> bytes:
    at = time.time_ns() - age_ns
    return request(*(span(attributes(9, pair("k", string("v"))), start=at, end=at + 1) for _ in range(SPANS)))


@contextmanager
def sending(gateways: Sequence[Gateway], key: str, rate: float) -> Iterator[list[int]]:
    """Send to each gateway in turn, together `rate` spans a second, and what is late now and then; failures are of no
    interest here. Yields the number of spans that were acknowledged.
    """
    bodies = [body(age_ns) for age_ns in (0, 0, 0, 0, 0, DAY_NS, 0, 0, 9 * DAY_NS)]
    acknowledged, over = [0], threading.Event()

    def send(gateway: Gateway, pause_s: float) -> None:
        chance = random.Random(gateway.port)
        due = time.monotonic()
        while not over.is_set():
            due = max(due + pause_s, time.monotonic() - 1)
            over.wait(max(0.0, due - time.monotonic()))
            headers = {"Content-Type": "application/x-protobuf", "X-Legacy-Auth": f"Legacy legacy_key={key}"}
            post = urllib.request.Request(f"{gateway.url}/v1/traces", chance.choice(bodies), headers)
            try:
                with urllib.request.urlopen(post, timeout=10) as answer:
                    acknowledged[0] += SPANS * (answer.status == 200)
            except OSError:
                time.sleep(0.05)

    senders = [
        threading.Thread(target=send, args=(gateway, 2 * len(gateways) * SPANS / rate))
        for gateway in gateways
        for _ in range(2)
    ]
    for sender in senders:
        sender.start()
    try:
        yield acknowledged
    finally:
        over.set()
        for sender in senders:
            sender.join()


class Follower:
    """Reads the table of spans in a thread of its own, and is begun anew from its checkpoint now and then."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._follow()))
        self._last = Position(0, 0, 0)
        self._blocks: dict[tuple[int, int], int] = {}
        self.rows, self.sum, self.error = 0, 0, ""

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Read what is left, to the end."""
        self._over.set()
        self._thread.join(120)
        assert not self._thread.is_alive()

    async def _follow(self) -> None:
        clickhouse, checkpoint, chance = ClickHouse(self._url), Checkpoint().encode(), random.Random(7)
        table = OrderedTable(clickhouse, "spans", ["cityHash64(batch_id, row)"])
        reader, last_read = StorageOrderReader(table), 0.0
        while not self.error:
            is_over = self._over.is_set()
            try:
                page = await reader.read(Checkpoint.decode(checkpoint))
            except StoreError:
                await asyncio.sleep(0.1)
                continue
            self._see(page.rows)
            checkpoint = page.checkpoint.encode()
            if chance.random() < 0.05:
                reader = StorageOrderReader(table)
            if page.is_last:
                last_read = last_read if is_over and last_read else time.monotonic() if is_over else 0.0
                if is_over and time.monotonic() - last_read > 2:
                    break
                await asyncio.sleep(0.25)
        await clickhouse.close()

    def _see(self, rows: Sequence[Any]) -> None:
        for row in rows:
            block = (row.position.batch_id, row.day)
            if row.position <= self._last:
                self.error = f"{row.position} comes after {self._last}"
            elif row.position.row <= self._blocks.get(block, -1):
                self.error = f"{row.position} comes twice"
            self._last, self._blocks[block] = row.position, row.position.row
            self.rows += 1
            self.sum = (self.sum + row.values[0]) % 2**64


@pytest.mark.sized
def test_a_follower_misses_nothing_and_reads_nothing_twice(make_gateway: MakeGateway, site: Site) -> None:
    gateways = [make_gateway(settings=UNHURRIED, layered=False) for _ in range(2)]
    for gateway in gateways:
        gateway.start()
    before = int(site.tables.ask("SELECT count() FROM spans WHERE stored_time > 0")[0][0])
    follower = Follower(site.clickhouse_url())
    follower.start()
    with sending(gateways, site.key, scaled(2_000.0, 100_000.0)) as acknowledged:
        for kill in range(scaled(2, 50)):
            time.sleep(random.uniform(0.5, scaled(1.0, 3.0)))
            if kill % 5 == 1:
                site.engine.kill()
                site.engine.start()
            else:
                gateway = gateways[kill % 2]
                gateway.kill()
                gateway.start()
    for gateway in gateways:
        gateway.wait_until_settled()
    count, total = site.tables.ask("SELECT toString(count()), toString(sum(cityHash64(batch_id, row))) FROM spans")[0]
    follower.finish()
    assert follower.error == ""
    assert (follower.rows, follower.sum) == (int(count), int(total))
    assert int(count) - before >= acknowledged[0] > 0
    assert not any("clock has jumped back" in gateway.log for gateway in gateways)
    print(f"{acknowledged[0]} spans acknowledged, {count} stored and followed")  # noqa: T201
