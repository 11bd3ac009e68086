"""A gateway of two is restarted behind a proxy, under load: no export is refused, and every acknowledged span is
stored, once.
"""

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import clickhouse_connect
import grpc
import pytest
from grpc import aio

from tests.deploy.proxies import Caddy, Envoy, Nginx, Proxy
from tests.e2e.product import Service, Sluice, eventually, set_up_apart
from tests.engine.process import Engine
from tests.gateway.otlp import PROTOBUF, span, traces
from tests.ports import free_port
from tests.selection import scaled

SENDERS: Final = 16
EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
RESTARTS: Final = scaled(1, 10)
_numbers = itertools.count(1)

Export = Callable[[bytes], Awaitable[None]]
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


class Failed(Exception):
    """An export that was not acknowledged. `again`: by OTLP, its client sends it again."""

    def __init__(self, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.again = again


@asynccontextmanager
async def over_http(proxy: Proxy, key: str) -> AsyncIterator[Export]:
    """Connections are kept."""
    headers = {"X-Legacy-Auth": f"Legacy legacy_key={key}", "Content-Type": PROTOBUF}
    connector = aiohttp.TCPConnector(limit=0, ssl=proxy.tls() or True)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:

        async def export(body: bytes) -> None:
            try:
                async with session.post(f"{proxy.url}/v1/traces", data=body) as answer:
                    if answer.status != 200:
                        raise Failed(f"{answer.status} {await answer.text()}")
            except aiohttp.ClientError as error:
                raise Failed(repr(error)) from error

        yield export


@asynccontextmanager
async def over_grpc(proxy: Proxy, key: str) -> AsyncIterator[Export]:
    """One connection, as a client has it. It does not try again by itself."""
    target = proxy.url.partition("://")[2]
    options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
    authorities = proxy.authorities()
    if authorities is None:
        channel = aio.insecure_channel(target, options)
    else:
        channel = aio.secure_channel(target, grpc.ssl_channel_credentials(authorities), options)
    async with channel:
        call: Any = channel.unary_unary(EXPORT)

        async def export(body: bytes) -> None:
            try:
                await call(body, metadata=[("x-legacy-auth", f"Legacy legacy_key={key}")], timeout=30)
            except aio.AioRpcError as error:
                again = error.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
                raise Failed(f"{error.code()} {error.details()}", again=again) from error

        yield export


@dataclass
class Load:
    """Senders that wait for each answer. `patient`: they send again what OTLP says, as every SDK does."""

    patient: bool
    acknowledged: list[bytes] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _stopping: bool = False

    async def run(self, exports: AbstractAsyncContextManager[Export], work: Callable[[], None]) -> None:
        """Send while `work` runs in a thread, and as long as it does."""
        async with exports as export, asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(self._send(export))
            try:
                await asyncio.to_thread(work)
            finally:
                self._stopping = True

    async def _send(self, export: Export) -> None:
        trace_id = os.urandom(16)
        while not self._stopping:
            try:
                await export(traces(span(trace_id=trace_id)))
                self.acknowledged.append(trace_id)
            except Failed as failure:
                if self.patient and failure.again:
                    continue
                self.failures.append(str(failure))
            trace_id = os.urandom(16)


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
