"""The query service as it is served, with its connections, over an engine that counts and may be made to wait."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.http.serve import bind, listening
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from query.settings import QuerySettings
from tests.query.conftest import NOW, PATH, UNLIMITED, application

DEADLINE_S: Final = 60.0  # for anything that must happen; never a measure of speed
_PAUSE_S: Final = 0.01


class Counted(ClickHouse):
    """The engine, its reads counted; each waits until reads may go on."""

    def __init__(self, url: str, database: str) -> None:
        super().__init__(url, database=database, handles=4)
        self.reads = 0
        self.cancelled = 0
        self.priorities: list[int] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def query(
        self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits
    ) -> list[tuple[object, ...]]:
        self.reads += 1
        self.priorities.append(limits.priority)
        try:
            await self.may_go_on.wait()
            return await super().query(sql, parameters, limits=limits)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class Client:
    """Asks the service over as many connections as it takes."""

    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self.port = port
        self._session = session

    async def get(self, path: str, *, token: str = "mine", base: str = PATH) -> tuple[int, bytes]:
        """Status and body."""
        async with self._session.get(f"{base}{path}", headers=_authorized(token)) as answer:
            return answer.status, await answer.read()

    async def post(
        self, path: str, body: Mapping[str, Any], *, token: str = "mine", base: str = PATH
    ) -> tuple[int, bytes]:
        """The same of a POST."""
        async with self._session.post(f"{base}{path}", json=body, headers=_authorized(token)) as answer:
            return answer.status, await answer.read()

    async def open(self, path: str, token: str) -> socket.socket:
        """A connection with little room for an answer, which has asked and has read nothing."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, ("127.0.0.1", self.port))
        head = f"GET {PATH}{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        await loop.sock_sendall(connection, head.encode())
        return connection

    async def metric(self, sample: str) -> float:
        """What a sample is at now: its name as in the exposition, after `sluice_query_`."""
        async with self._session.get("/metrics") as answer:
            found = re.search(rf"^sluice_query_{re.escape(sample)} (\S+)$", await answer.text(), re.MULTILINE)
        assert found, sample
        return float(found[1])

    async def until(self, sample: str, holds: Callable[[float], bool]) -> None:
        """Wait until a sample is as it is to be."""
        await until(lambda: self.metric(sample), holds)


async def until(look: Callable[[], Awaitable[float]], holds: Callable[[float], bool]) -> None:
    """Wait until what is looked at is as it is to be."""
    value = float("nan")
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not holds(value := await look()):
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        raise AssertionError(f"it stayed at {value}") from None


@asynccontextmanager
async def listened(
    store: ClickHouse, settings: QuerySettings, clock: list[int] | None = None, chassis: ChassisSettings = UNLIMITED
) -> AsyncIterator[Client]:
    """The service on a socket of its own, with the connections that it has in a process."""
    app, listener = application(store, settings, [NOW] if clock is None else clock, chassis), bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    async with (
        listening(app, listener, chassis, Telemetry("query")),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}", connector=aiohttp.TCPConnector(limit=0)) as session,
        asyncio.timeout(DEADLINE_S),
    ):
        yield Client(port, session)


def _authorized(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}
