"""Real Redis servers for tests, by the program of tests/programs.py; on loopback, with a password, keeping nothing.

Whoever stops, kills or pauses one takes one for himself (`running`); the session's is emptied for each test.
"""

import asyncio
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
import redis

from chassis.redis import breaker, client
from tests.accepting import accepting
from tests.ports import free_port
from tests.programs import program

PASSWORD: Final = "hu:sh@/?#%41 $'\\"
_DEADLINE_S: Final = 20.0


class RedisServer:
    """One server. After `stop` or `pause` it can come back on the same port, empty after `stop`."""

    def __init__(self, program: str, directory: Path) -> None:
        self.port = free_port()
        self._program = program
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """With its password."""
        return self.url_at(self.port)

    def url_at(self, port: int, password: str = PASSWORD) -> str:
        """The same server behind something else."""
        return f"redis://:{quote(password, safe='')}@127.0.0.1:{port}/0"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = {"port": self.port, "bind": "127.0.0.1", "requirepass": PASSWORD, "save": "", "appendonly": "no"}
        command = [self._program, "--dir", str(self._directory)]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        with (self._directory / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + _DEADLINE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Redis did not start:\n{(self._directory / 'redis.log').read_text()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End it, with everything that it held."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)  # one that a test left paused takes no other signal
        process.kill()
        process.wait(_DEADLINE_S)

    def pause(self) -> None:
        """Connections are accepted (by the kernel) and nothing ever answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._signal(signal.SIGCONT)

    def ask(self, *command: Any) -> Any:
        """One command, on a connection of its own."""
        with redis.Redis(port=self.port, password=PASSWORD, decode_responses=True) as client:
            return client.execute_command(*command)

    def flush(self) -> None:
        """Have it forget everything."""
        self.ask("FLUSHALL")

    def _signal(self, sent: signal.Signals) -> None:
        if self._process is None:
            raise AssertionError("it does not run")
        self._process.send_signal(sent)

    def _answers(self) -> bool:
        try:
            return bool(self.ask("PING"))
        except redis.RedisError:
            return False


@contextmanager
def running(directory: Path) -> Iterator[RedisServer]:
    """A server of one's own until the block ends."""
    server = RedisServer(program("redis-server"), directory)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def patience() -> Iterator[None]:
    """A machine under load is slow, and no Redis on it is away for that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(breaker, "CONNECT_S", _DEADLINE_S)
        patch.setattr(client, "SOCKET_TIMEOUT_S", _DEADLINE_S)
        yield


@pytest.fixture(scope="session")
def redis_of_the_session(patience: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Not to be stopped."""
    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_server(redis_of_the_session: RedisServer) -> RedisServer:
    """The session's, empty. It is not to be stopped."""
    redis_of_the_session.flush()
    return redis_of_the_session


@pytest.fixture
def own_redis(patience: None, tmp_path: Path) -> Iterator[RedisServer]:
    """A server to be stopped, paused and started again."""
    with running(tmp_path) as server:
        yield server


class Slow:
    """Where a server answers late. `delay_s` may be changed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.delay_s = 0.0


@asynccontextmanager
async def slow(server: RedisServer) -> AsyncIterator[Slow]:
    """A way to the server on which every answer takes `delay_s` longer."""

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # one side went; the other is told by the end of its connection
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", server.port)
            with closing(there_writer):
                await asyncio.gather(carry(reader, there_writer, late=False), carry(there_reader, writer, late=True))

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, *, late: bool) -> None:
        while piece := await source.read(65_536):
            if late:
                await asyncio.sleep(way.delay_s)
            target.write(piece)
        target.close()

    async with accepting(between) as port:
        way = Slow(port)
        yield way
