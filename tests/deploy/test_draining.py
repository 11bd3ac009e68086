"""A gateway of two is restarted behind a proxy, under load: no export is refused, and every acknowledged span is
stored, once.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import clickhouse_connect
import pytest

from tests.deploy.load import Export, Load, over_grpc, over_http
from tests.deploy.proxies import Caddy, Envoy, Nginx, Proxy
from tests.e2e.product import Service, Sluice, eventually, set_up_apart
from tests.engine.process import Engine
from tests.ports import free_port
from tests.selection import scaled

RESTARTS: Final = scaled(1, 10)
_numbers = itertools.count(1)

Protocol = Callable[[Proxy, str], AbstractAsyncContextManager[Export]]


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
    grpc_port: int

    @property
    def pools(self) -> dict[str, list[str]]:
        """Of a proxy."""
        ports = {"gateway": self.instances[0].port, "grpc": self.grpc_port}
        return {name: [f"{each.host}:{port}" for each in self.instances] for name, port in ports.items()}

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
    port, grpc_port = free_port(), free_port()
    environment = {**sluice.services["gateway"].environment, "SLUICE_GRPC_PORT": str(grpc_port)}
    instances = [
        kind("gateway", tmp_path / "data", tmp_path / f"{kind.host}.log", environment, ("--host", kind.host), port)
        for kind in (Instance, Second)
    ]
    try:
        for instance in instances:
            instance.start()
        yield Pair(sluice, instances, clickhouse_url, grpc_port)
        for instance in instances:
            instance.stop()
    finally:
        for instance in instances:
            instance.kill()


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
@pytest.mark.parametrize("kind", [Nginx, *(pytest.param(kind, marks=pytest.mark.long) for kind in (Caddy, Envoy))])
@pytest.mark.parametrize("protocol", [over_http, pytest.param(over_grpc, marks=pytest.mark.long)])
async def test_a_gateway_restarts_and_no_export_is_refused(
    kind: type[Proxy], protocol: Protocol, pair: Pair, tmp_path: Path
) -> None:
    with Nginx(tmp_path, pair.pools, idle=scaled("1s", "5s")) if kind is Nginx else kind(tmp_path, pair.pools) as proxy:
        # nginx checks no health, and a server of gRPC cannot end a connection after an answer, as one of HTTP does.
        load = Load(patient=kind is Nginx and protocol is over_grpc)
        await load.run(protocol(proxy, pair.sluice.key), lambda: restart_in_turn(pair, load))
    assert Counter(load.failures) == Counter()
    sent = Counter(load.acknowledged)
    assert await asyncio.to_thread(pair.stored_at_least, sent) == sent
