"""A gateway of two is restarted behind a proxy, under load: no export is refused, and every acknowledged span is
stored, once.
"""

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import clickhouse_connect
import pytest

from tests.deploy.proxies import Caddy, Nginx, Proxy
from tests.e2e.product import Service, Sluice, eventually, set_up_apart
from tests.engine.process import Engine
from tests.gateway.otlp import PROTOBUF, span, traces
from tests.ports import free_port
from tests.selection import scaled

SENDERS: Final = 16
RESTARTS: Final = scaled(1, 10)
_numbers = itertools.count(1)


class Instance(Service):
    """A gateway on an address of loopback, as sluice-gateway@N."""

    host = "127.0.0.1"

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


class Second(Instance):
    """Beside the first one, on the same port."""

    host = "127.0.0.2"


@dataclass
class Pair:
    """Two gateways with one data directory, over one engine."""

    sluice: Sluice
    instances: list[Instance]
    table_url: str

    @property
    def addresses(self) -> list[str]:
        return [instance.url.removeprefix("http://") for instance in self.instances]

    def stored(self) -> Counter[bytes]:
        """How often each span is stored."""
        client = clickhouse_connect.get_client(dsn=self.table_url, autogenerate_session_id=False)
        try:
            rows = client.query("SELECT trace_id, count() FROM spans GROUP BY trace_id").result_rows
        finally:
            client.close()
        return Counter({bytes(trace_id): int(count) for trace_id, count in rows})

    def stored_at_least(self, spans: Counter[bytes]) -> Counter[bytes]:
        """The same, once these are among them."""
        eventually(lambda: self.stored() >= spans, "all is stored", 60)
        return self.stored()


@pytest.fixture
def pair(engine: Engine, tmp_path: Path) -> Iterator[Pair]:
    """Running."""
    clickhouse_url = f"{engine.url}/draining_{next(_numbers)}"
    database_url = f"sqlite:///{tmp_path / 'shared.db'}"
    # Longer than connections idle in the pool of the proxy.
    sluice = set_up_apart(tmp_path, clickhouse_url, database_url, SLUICE_DRAIN_DELAY_S=scaled("3", "7"))
    environment, port = sluice.services["gateway"].environment, free_port()
    instances = [
        kind("gateway", tmp_path / "data", tmp_path / f"{kind.host}.log", environment, ("--host", kind.host), port)
        for kind in (Instance, Second)
    ]
    try:
        for instance in instances:
            instance.start()
        yield Pair(sluice, instances, clickhouse_url)
        for instance in instances:
            instance.stop()
    finally:
        for instance in instances:
            instance.kill()


@dataclass
class Load:
    """Senders that wait for each answer, on connections that they keep."""

    proxy: Proxy
    key: str
    acknowledged: list[bytes] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _stopping: bool = False

    async def run(self, work: Any) -> None:
        """Send while `work` runs in a thread, and as long as it does."""
        headers = {"X-Legacy-Auth": f"Legacy legacy_key={self.key}", "Content-Type": PROTOBUF}
        tls = self.proxy.tls()
        connector = aiohttp.TCPConnector(limit=0, ssl=True if tls is None else tls)
        async with aiohttp.ClientSession(headers=headers, connector=connector) as session, asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(self._send(session))
            try:
                await asyncio.to_thread(work)
            finally:
                self._stopping = True

    async def _send(self, session: aiohttp.ClientSession) -> None:
        while not self._stopping:
            trace_id = os.urandom(16)
            body = traces(span(trace_id=trace_id))
            try:
                async with session.post(f"{self.proxy.url}/v1/traces", data=body) as answer:
                    if answer.status == 200:
                        self.acknowledged.append(trace_id)
                    else:
                        self.failures.append(f"{answer.status} {await answer.text()}")
            except aiohttp.ClientError as error:
                self.failures.append(repr(error))


def restart_in_turn(pair: Pair, load: Load) -> None:
    """Each gateway, by SIGTERM, once some exports went by."""
    for number in range(RESTARTS):
        instance = pair.instances[number % 2]
        enough = len(load.acknowledged) + 200
        eventually(partial(_has_gone_by, load, enough), "exports go by", 60)
        instance.stop()
        instance.start()


def _has_gone_by(load: Load, exports: int) -> bool:
    return len(load.acknowledged) >= exports or bool(load.failures)


@pytest.mark.sized
@pytest.mark.parametrize("kind", [Nginx, pytest.param(Caddy, marks=pytest.mark.long)])
async def test_a_gateway_restarts_and_no_export_is_refused(kind: type[Proxy], pair: Pair, tmp_path: Path) -> None:
    pools = {"gateway": pair.addresses}
    with Nginx(tmp_path, pools, idle=scaled("1s", "5s")) if kind is Nginx else kind(tmp_path, pools) as proxy:
        load = Load(proxy, pair.sluice.key)
        await load.run(lambda: restart_in_turn(pair, load))
    assert load.failures == []
    sent = Counter(load.acknowledged)
    assert await asyncio.to_thread(pair.stored_at_least, sent) == sent
