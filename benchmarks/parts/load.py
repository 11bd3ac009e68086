"""Requests over sockets at fixed times, however long the answers take: what waits is not sent later, but more of it."""

import asyncio
import time
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from tests.proto.otlp.realistic import request

DAY_NS: Final = 86_400 * 10**9
VARIANTS: Final = 20  # of a body; more would only be memory


class Stream(NamedTuple):
    """Requests of `spans` spans, `rate` a second, in turn by `projects`, in turn `days` ago."""

    name: str
    rate: float
    spans: int
    projects: range
    days: range = range(1)


class Sent(NamedTuple):
    """One request: when it was due, what became of it (0: the connection broke), and the seconds until its answer."""

    due: float
    status: int
    seconds: float


class Sender:
    """Sends a stream; answers gather in `sent`."""

    def __init__(self, stream: Stream, port: int, keys: Sequence[str]) -> None:
        self._stream = stream
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        random = Random(stream.name)
        self._bodies = [
            _message(keys[project], _body(random, stream.spans, day))
            for day in stream.days
            for project in stream.projects
            for _ in range(max(1, VARIANTS // len(stream.projects) // len(stream.days)))
        ]
        random.shuffle(self._bodies)
        self.sent: list[Sent] = []

    async def run(self, seconds: float) -> None:
        """Send for so long, then wait for the answers."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for number in range(int(seconds * self._stream.rate)):
            due = begin + number / self._stream.rate
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            task = loop.create_task(self._send(self._bodies[number % len(self._bodies)], due))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._tasks:
            await asyncio.wait(self._tasks)
        for _, writer in self._idle:
            writer.close()

    async def _send(self, message: bytes, due: float) -> None:
        try:
            reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            status = 0
        else:
            status = int(head.split(b" ", 2)[1])
            if b"connection: close" in head.lower():
                writer.close()
            else:
                self._idle.append((reader, writer))
        self.sent.append(Sent(due, status, asyncio.get_running_loop().time() - due))


def _body(random: Random, spans: int, days_ago: int) -> bytes:
    start_ns = time.time_ns() - days_ago * DAY_NS
    message = request("traces", spans, random.getrandbits(32))
    for resource_spans in message.resource_spans:  # type: ignore[union-attr]  # traces were asked for
        for span in resource_spans.scope_spans[0].spans:
            duration = span.end_time_unix_nano - span.start_time_unix_nano
            span.trace_id = random.randbytes(16)
            span.start_time_unix_nano = start_ns - random.randrange(60 * 10**9)
            span.end_time_unix_nano = span.start_time_unix_nano + duration
    return message.SerializeToString()


def _message(key: str, body: bytes) -> bytes:
    head = (
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
        f"X-Legacy-Auth: Legacy legacy_key={key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
