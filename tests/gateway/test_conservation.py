"""Every item is in exactly one account at /metrics, whenever it is asked, whatever is under way and goes wrong.

received = accepted + rejected + refused + unanswered
accepted + recovered = stored + pending + quarantined + lost
"""

import asyncio
import re
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp
import pytest

from chassis.clickhouse import StoreError, StoreRejected, StoreUnavailable
from gateway.journal.storage.files import Files
from tests.gateway.conftest import Gateway, Insert, RecordingStore, StartGateway, eventually
from tests.gateway.otlp import DAY_NS, JSON, NOW_NS, PROTOBUF, log, logs, span, traces, traces_json

DEADLINE_S: Final = 60.0
PAUSE_S: Final = 0.02  # between two looks, which cost as much as some exports
AT_ONCE: Final = 24  # requests
DISPOSED: Final = re.compile(r'^sluice_gateway_items_total\{outcome="(\w+)".*\} ([\d.e+]+)$', re.MULTILINE)


class Faulty(RecordingStore):
    """Inserts take their time, a few fail, and they are refused for good where a span is poison."""

    def __init__(self, random: Random) -> None:
        super().__init__(refuse=self._refused)
        self._random = random
        self._outages = 6  # each closes the door for longer

    async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
        for _ in range(self._random.randrange(20)):
            await asyncio.sleep(0)
        await super().insert(table, columns, pieces, token=token)

    async def query(self, sql: str, parameters: Mapping[str, Any], **_limits: object) -> list[tuple[object, ...]]:
        """Which batches have rows in a table and day."""
        table = sql.split("FROM ", 1)[1].split(" ", 1)[0] if "batch_id" in sql else ""
        there = {insert.token for insert in self.taken}
        return [(one,) for one in parameters.get("ids", ()) if f"{one}:{table}:{parameters.get('day')}" in there]

    def _refused(self, insert: Insert) -> StoreError | None:
        if insert.table == "spans" and b"poison" in insert.body:
            return StoreRejected("no such value")
        if self._outages and self._random.random() < 0.1:
            self._outages -= 1
            return StoreUnavailable("away for a moment")
        return None


class Accounts:
    """What /metrics said last, and which accounts ever had something in them."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.now: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.samples = 0

    async def look(self) -> None:
        """Ask, and hold the answer to the equations."""
        text = (await self._gateway.request("GET", "/metrics")).body.decode()
        now: Counter[str] = Counter()
        for name, value in re.findall(r"^sluice_gateway_(\w+)_items(?:_total)?(?:\{.*\})? (\S+)$", text, re.MULTILINE):
            now[name] += int(float(value))
        for outcome, value in DISPOSED.findall(text):
            now[outcome] += int(float(value))
        assert now["received"] == now["accepted"] + now["rejected"] + now["refused"] + now["unanswered"], now
        after = now["stored"] + now["pending"] + now["quarantined"] + now["lost"]
        assert now["accepted"] + now["recovered"] == after, now
        self.now = now
        self.seen |= {name for name, value in now.items() if value}
        self.samples += 1


@asynccontextmanager
async def audited(gateway: Gateway) -> AsyncIterator[Accounts]:
    """Look again and again, for as long as the block runs, and once when it is over."""
    accounts, over = Accounts(gateway), asyncio.Event()

    async def audit() -> None:
        while not over.is_set():
            await accounts.look()
            await asyncio.sleep(PAUSE_S)

    auditing = asyncio.create_task(audit())
    try:
        yield accounts
    finally:
        over.set()
        await auditing
    await accounts.look()


class Senders:
    """Requests of every kind."""

    def __init__(self, gateway: Gateway, random: Random) -> None:
        self._gateway = gateway
        self._random = random
        self._number = self._poisons = 0

    async def round(self) -> None:
        """Many at once, in any order."""
        kinds = [self._good, self._good, self._partly, self._poison, self._json, self._logs, self._old, self._bad]
        kinds += [self._unknown, self._gone]
        chosen = [kinds[number % len(kinds)] for number in range(AT_ONCE)]
        self._random.shuffle(chosen)
        await asyncio.gather(*(send() for send in chosen))

    def _spans(self, count: int, **options: Any) -> list[Any]:
        self._number += count
        return [span(self._number - one, **options) for one in range(count)]

    async def _post(self, body: bytes, path: str = "/v1/traces", **headers: str) -> None:
        await self._gateway.post(path, body, headers, project=self._random.randrange(2))

    async def _good(self) -> None:
        await self._post(traces(*self._spans(self._random.randrange(1, 30))))

    async def _partly(self) -> None:
        await self._post(traces(*self._spans(3), *self._spans(2, trace_id=b"")))

    async def _poison(self) -> None:
        self._poisons += 1
        await self._post(traces(*self._spans(2, name="work" if self._poisons % 8 else "poison")))

    async def _json(self) -> None:
        await self._post(traces_json(*self._spans(4)), **{"Content-Type": JSON})

    async def _logs(self) -> None:
        await self._post(logs(*(log(number) for number in range(5))), "/v1/logs")

    async def _old(self) -> None:
        await self._post(traces(*self._spans(2, start_ns=NOW_NS - 9 * DAY_NS)))

    async def _bad(self) -> None:
        await self._post(b"\xff\xff")

    async def _unknown(self) -> None:
        await self._post(traces(*self._spans(1)), **{"X-Legacy-Auth": "Legacy legacy_key=nobody"})

    async def _gone(self) -> None:
        """Sent, and nobody waits for the answer."""
        key = self._gateway.projects[0].key
        headers = {"Content-Type": PROTOBUF, "X-Legacy-Auth": f"Legacy legacy_key={key}"}
        url = f"http://127.0.0.1:{self._gateway.port}/v1/traces"
        async with aiohttp.ClientSession() as client:
            sending = asyncio.create_task(client.post(url, data=traces(*self._spans(3)), headers=headers))
            for _ in range(self._random.randrange(10)):
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def sent_until(condition: Callable[[], bool], senders: Senders) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await senders.round()


@pytest.fixture(autouse=True)
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync takes long enough for requests to be seen that wait for it; a stop does not wait for a store."""
    sync = Files.sync

    def slow(self: Files, fd: int) -> None:
        time.sleep(0.003)
        sync(self, fd)

    monkeypatch.setattr(Files, "sync", slow)
    monkeypatch.setattr("gateway.ingest.journaled.DRAIN_S", 0.5)
    monkeypatch.setattr("gateway.ingest.wiring.DRAIN_DERIVED_S", 0.1)
    monkeypatch.setattr("gateway.ingest.wiring.DRAIN_RETRY_QUEUE_S", 0.1)


OPTIONS: Final = {
    "linger_s": 0.01,
    "journal_linger_s": 0.01,
    "slow_linger_s": 0.02,
    "max_inflight_items": 150,  # less than a round: some are refused though they were decoded
    "pending_bytes": 2**14,  # of memory: in mode journal the rest is read again
}
ALWAYS: Final = frozenset({"received", "accepted", "rejected", "stored"})
WAITING: Final = {"unanswered", "refused"}  # where an answer takes its time, others wait, and there is no room for more


@pytest.mark.parametrize(
    ("mode", "others"),
    [("journal", WAITING | {"pending", "quarantined"}), ("memory", {"pending", "lost"}), ("store", WAITING)],
    ids=["journal", "memory", "store"],
)
async def test_every_item_is_in_one_account(start_gateway: StartGateway, mode: str, others: set[str]) -> None:
    random = Random(5)
    gateway = await start_gateway(Faulty(random), durability=mode, ack_deadline_s=2.0, **OPTIONS)
    async with audited(gateway) as accounts:
        senders = Senders(gateway, random)
        await sent_until(lambda: accounts.samples > 20 and accounts.seen >= ALWAYS | others, senders)
        await eventually(lambda: not accounts.now["pending"] + accounts.now["unanswered"])


async def test_what_a_killed_process_left_is_recovered_and_accounted_for(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    random = Random(7)
    away = RecordingStore(away=StoreUnavailable("away"))
    first = await start_gateway(away, journal_dir=str(tmp_path / "a"), **OPTIONS)
    await Senders(first, random).round()
    left = int(first.metric("pending_items"))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    gateway = await start_gateway(Faulty(random), journal_dir=str(tmp_path / "b"), **OPTIONS)
    async with audited(gateway) as accounts:
        senders = Senders(gateway, random)
        await sent_until(lambda: accounts.now["recovered"] == left and accounts.now["stored"] > left, senders)
        await eventually(lambda: not accounts.now["pending"] + accounts.now["unanswered"])
    assert left > 50
