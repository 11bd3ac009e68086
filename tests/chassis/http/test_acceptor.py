"""Accepting on both loops: nobody waits behind others; without file descriptors nothing breaks and nothing spins."""

import asyncio
import re
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from chassis.http.serve import PAUSE_S, Acceptor, bind
from chassis.runtime.telemetry import Telemetry
from tests.chassis.conftest import DEADLINE_S

PROGRAM = """if True:
    import asyncio, os, resource, sys, time
    from aiohttp import web
    from chassis.http.serve import bind, serve
    from chassis.runtime.settings import ChassisSettings
    from chassis.runtime.telemetry import Telemetry
    from chassis.http.web import Route, build_app, json_response, public

    async def x(request):
        time.sleep(float(request.query.get("busy", 0)))  # the loop
        return json_response({})

    async def main(spare):
        settings, telemetry = ChassisSettings(), Telemetry("accepting")
        app = build_app([Route("GET", "/x", x, public())], service="a", settings=settings, telemetry=telemetry)
        listener = bind("127.0.0.1", 0)

        def listening():
            if spare:
                most = len(os.listdir("/dev/fd")) + spare
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            print(listener.getsockname()[1], flush=True)

        await serve(app, listener, settings, telemetry, listening)

    loop = None
    if sys.argv[1] == "uvloop":
        import uvloop
        loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main(int(sys.argv[2])))
"""
REQUEST = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass
class Client:
    """A connection to the program."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def of(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def get(self, path: str) -> bytes:
        """The body of the answer."""
        self.writer.write(REQUEST % path.encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        return await self.reader.readexactly(int(re.search(rb"Content-Length: (\d+)", head)[1]))  # type: ignore[index]

    async def metric(self, name: str) -> float:
        found = re.search(rb"^%s (\S+)$" % name.encode(), await self.get("/metrics"), re.MULTILINE)
        return float(found[1]) if found else 0.0

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


Start = Callable[..., Awaitable[int]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start the program on a loop; with `spare` descriptors left, if that is not 0."""
    processes = []

    async def started(loop: str, spare: int = 0) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, loop, str(spare), stdout=asyncio.subprocess.PIPE
        )
        processes.append(process)
        assert process.stdout is not None
        return int(await asyncio.wait_for(process.stdout.readline(), 60))

    yield started
    for process in processes:
        process.terminate()
        assert await process.wait() == 0


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_many_that_wait_are_accepted_at_once(start: Start, loop: str) -> None:
    """While requests keep the loop busy: one connection each time around would take as many of them as there are."""
    port = await start(loop)
    busy = await Client.of(port)
    async with asyncio.timeout(DEADLINE_S * 3):
        busy.writer.write(REQUEST % b"/x?busy=0.2")
        late = [await Client.of(port) for _ in range(50)]
        busy.writer.write(REQUEST % b"/x?busy=0.2" * 30)
        await asyncio.gather(*(client.get("/x") for client in late))
        for _ in range(3):
            await busy.reader.readuntil(b"{}")
    answered = busy.reader._buffer.count(b"{}")  # type: ignore[attr-defined]  # what has come since
    assert answered < 20
    for client in (busy, *late):
        await client.close()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_without_descriptors_accepting_pauses_and_goes_on(start: Start, loop: str) -> None:
    port = await start(loop, spare=8)
    async with asyncio.timeout(DEADLINE_S * 3):
        known = await Client.of(port)
        assert await known.get("/x") == b"{}"
        clients = [await Client.of(port) for _ in range(30)]
        answers = [asyncio.ensure_future(client.get("/x")) for client in clients]
        while await known.metric("sluice_http_accept_pauses_total") < 1:
            await asyncio.sleep(0.05)
        cpu_s, pauses = await known.metric("process_cpu_seconds_total"), 1.0
        while pauses < 4:
            await asyncio.sleep(PAUSE_S / 2)
            pauses = await known.metric("sluice_http_accept_pauses_total")
        assert await known.metric("process_cpu_seconds_total") - cpu_s < PAUSE_S  # it does not spin
        assert not all(answer.done() for answer in answers)
        for answer in asyncio.as_completed(answers):
            assert await answer == b"{}"
            for client, one in zip(clients, answers, strict=True):
                if one.done():
                    await client.close()  # which makes room for the next
    await known.close()


async def test_what_connects_while_the_queue_is_emptied_is_accepted_as_well() -> None:
    """The kernel resets what is in the queue when the listener is closed, which is right after."""
    listener = bind("127.0.0.1", 0)
    clients = [socket.socket() for _ in range(3)]
    accepted: list[asyncio.Protocol] = []

    def protocol() -> asyncio.Protocol:
        if len(accepted) < 2:
            clients[len(accepted) + 1].connect(listener.getsockname())
        accepted.append(asyncio.Protocol())
        return accepted[-1]

    acceptor = Acceptor(listener, protocol, Telemetry("test"))
    acceptor.start()
    clients[0].connect(listener.getsockname())
    await acceptor.close()
    listener.close()
    assert len(accepted) == 3
    for client in clients:
        client.settimeout(0)
        with pytest.raises(BlockingIOError):  # neither closed nor reset
            client.recv(1)
        client.close()
    await asyncio.sleep(0)
