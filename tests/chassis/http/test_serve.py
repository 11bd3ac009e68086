"""A real process: how it stops, and what it says when it cannot start."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from chassis.errors import StartupError
from chassis.http import serve
from chassis.http.serve import bind
from chassis.http.web import build_app
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from tests.chassis.conftest import DEADLINE_S, read_all

Start = Callable[..., Awaitable[asyncio.subprocess.Process]]
SCRIPT = Path(__file__).with_name("serving.py")
SLOW = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
UPLOAD = b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf"
READY = b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start the serving process; it is gone when the test is."""
    started: list[asyncio.subprocess.Process] = []

    async def run(port: int = 0, delay_s: float = 0.0, timeout_s: float = 30.0) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(SCRIPT), str(port), str(delay_s), str(timeout_s)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PYTHONPATH": str(SCRIPT.parents[3])},
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        return (await process.stdout.readline()).decode().strip()


async def ended(process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(DEADLINE_S):
        return await process.wait()


async def until_refused(port: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return
            writer.close()
            await asyncio.sleep(0.01)


async def ask(port: int, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    answer = await read_all(reader)
    writer.close()
    return answer


async def test_a_signal_stops_new_connections_and_lets_requests_in_flight_finish(start: Start) -> None:
    process = await start()
    port = int(await said(process))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(SLOW)
    assert await said(process) == "entered"
    process.send_signal(signal.SIGINT)  # the tests below send SIGTERM
    await until_refused(port)
    assert process.returncode is None
    process.send_signal(signal.SIGUSR1)
    answer = await read_all(reader)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b'{"finished":true}')
    writer.close()
    assert await said(process) == "stopped"
    assert await ended(process) == 0


ARRIVING = [
    [b"Content-Length: 8\r\n\r\nhalf", b"re", b"st"],
    [b"Transfer-Encoding: chunked\r\n\r\n4\r\nha", b"lf\r\n4\r\nre", b"st\r\n0\r\n\r\n"],
    [b"Content-Length: 8\r\n\r\n", b"half", b"rest" + SLOW],  # what follows the body is not begun
]


async def test_bodies_that_are_arriving_when_the_drain_begins_are_received_and_answered(start: Start) -> None:
    process = await start()
    port = int(await said(process))
    idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
    uploads = [await asyncio.open_connection("127.0.0.1", port) for _ in ARRIVING]
    for (_, writer), (first, *_) in zip(uploads, ARRIVING, strict=True):
        writer.write(b"POST /upload HTTP/1.1\r\nHost: a\r\n" + first)
        assert await said(process) == "entered"
    process.send_signal(signal.SIGTERM)
    assert await read_all(idle) == b""  # idle connections are closed: the drain is under way
    idle_writer.close()
    for (reader, writer), (_, *rest) in zip(uploads, ARRIVING, strict=True):
        for piece in rest:
            writer.write(piece)
            await writer.drain()
        answer = await read_all(reader)
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b'{"bytes":8}')
        writer.close()
    assert await said(process) == "stopped"
    assert await ended(process) == 0


@pytest.mark.parametrize("sent", [SLOW, UPLOAD], ids=["an answer", "a body that never arrives"])
async def test_the_drain_is_bounded(start: Start, sent: bytes) -> None:
    process = await start(timeout_s=0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(await said(process)))
    writer.write(sent)
    assert await said(process) == "entered"
    process.send_signal(signal.SIGTERM)
    assert b"HTTP/1.1 200" not in await read_all(reader)
    writer.close()
    assert await said(process) == "stopped"
    assert await ended(process) == 0


async def test_readiness_says_no_while_load_balancers_take_note_until_a_second_signal(start: Start) -> None:
    process = await start(delay_s=60.0)
    port = int(await said(process))
    for length, status in ((60_000, b"200"), (70_000, b"400")):  # a request line may hold the longest filters
        answer = await ask(port, READY.replace(b"/readyz", b"/readyz?x=" + b"%F0" * (length // 3)))
        assert answer.split(b" ", 2)[1] == status
    assert (await ask(port, READY)).startswith(b"HTTP/1.1 200")
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(DEADLINE_S):
        while not (answer := await ask(port, READY)).startswith(b"HTTP/1.1 503"):
            await asyncio.sleep(0.01)
    message = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert message == "Not ready: the process is shutting down."
    ending = asyncio.ensure_future(ended(process))
    while not ending.done():  # one that comes at once is the first one, sent twice
        process.send_signal(signal.SIGTERM)
        await asyncio.wait([ending], timeout=0.2)
    assert await ending == -signal.SIGTERM


async def test_a_port_in_use_is_one_sentence_and_a_failure(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = await start(port=port)
        _, errors = await process.communicate()
    sentence = f"Port {port} on 127.0.0.1 is in use. Stop the other program or choose another port with --port."
    assert (process.returncode, errors.decode().strip()) == (1, sentence)


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("192.0.2.1", "192.0.2.1 is not an address of this machine."),
        ("nowhere.invalid", "The host 'nowhere.invalid' cannot be resolved: "),
    ],
)
def test_an_address_that_cannot_be_bound_is_one_sentence(host: str, sentence: str) -> None:
    with pytest.raises(StartupError) as caught:
        bind(host, 0)
    assert str(caught.value).startswith(sentence)


def test_two_processes_may_share_a_port_when_both_say_so() -> None:
    with bind("127.0.0.1", 0, reuse_port=True) as first:
        bind("127.0.0.1", first.getsockname()[1], reuse_port=True).close()


async def test_who_is_connected_when_the_drain_begins_is_answered_once_more_and_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kept connections, new ones, and those that the kernel has and nobody has accepted yet."""
    monkeypatch.setattr(serve, "DRAIN_GRACE_S", DEADLINE_S)
    settings, telemetry = ChassisSettings(), Telemetry("drain")
    app = build_app([], service="drain", settings=settings, telemetry=telemetry)
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    livez = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
    house = serve.listening(app, listener, settings, telemetry)
    await house.__aenter__()
    kept, kept_writer = await asyncio.open_connection("127.0.0.1", port)
    kept_writer.write(livez)
    assert b"Connection: close" not in await kept.readuntil(b"}")
    new, new_writer = await asyncio.open_connection("127.0.0.1", port)
    with socket.create_connection(("127.0.0.1", port)) as queued:  # the loop has no turn before the drain begins
        leaving = asyncio.ensure_future(house.__aexit__(None, None, None))
        await until_refused(port)
        for writer in (kept_writer, new_writer):
            writer.write(livez)
        queued.sendall(livez)
        answers = [await read_all(kept), await read_all(new), await asyncio.to_thread(queued.makefile("rb").read)]
    assert [answer.startswith(b"HTTP/1.1 200") for answer in answers] == [True] * 3
    assert all(b"Connection: close" in answer for answer in answers)
    await asyncio.wait_for(leaving, DEADLINE_S)
    for writer in (kept_writer, new_writer):
        writer.close()
