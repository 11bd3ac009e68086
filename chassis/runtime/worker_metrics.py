"""What several processes behind one port tell one another and their supervisor: their metrics, whether they are ready.

Each listens on a socket of its own, in Linux's abstract namespace, where the supervisor bound it; who connects says
what it wants to know. The one that gets `GET /metrics` asks the others and answers with all of them, every sample with
the label `worker`. One that does not answer in time is said to be away (`sluice_worker_up` 0). To the supervisor each
worker is something it cannot work without (`Worker`).
"""

import asyncio
import os
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

import structlog
from aiohttp import web

from chassis.runtime.health import HEALTH, Health, NotReady

ANSWER_S: Final = 1.0  # a worker whose loop stands still must not take the scrape of all with it
MAX_EXPOSITION: Final = 16 * 2**20  # bytes
_CREDENTIALS: Final = struct.Struct("3i")  # of a peer: process, user, group

METRICS: Final = b"metrics\n"
READY: Final = b"ready\n"  # the answer is a line that says why not, or an empty one

_NAME: Final = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_UP: Final = b"# HELP sluice_worker_up Whether a worker of this port answered.\n# TYPE sluice_worker_up gauge\n"

log = structlog.get_logger(__name__)


class WorkerMetrics:
    """This process among those of its port. `own` is its number; `listener` its socket; `names` those of all. Their
    supervisor has neither number nor socket.
    """

    def __init__(self, own_number: int | None, listener: socket.socket | None, names: Sequence[bytes]) -> None:
        self._own_number = own_number
        self._listener = listener
        self._names = names

    async def serve(self, exposition: Callable[[], bytes], app: web.Application) -> AsyncIterator[None]:
        """A resource: tells the siblings what `exposition` gives, and the supervisor whether this process is ready."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                if _is_same_user(writer):
                    async with asyncio.timeout(ANSWER_S):
                        question = await reader.readline()
                    writer.write(await _readiness(app[HEALTH]) if question == READY else exposition())
                    await writer.drain()
            except (OSError, TimeoutError, ValueError):
                pass  # who asked is gone, or asked nothing
            finally:
                writer.close()

        if self._listener is None:
            yield
            return
        server = await asyncio.start_unix_server(answer, sock=self._listener)
        yield
        server.close()

    async def collect(self, exposition: bytes) -> bytes:
        """The metrics of all, this process's being `exposition`, if it is one of them."""
        others = [number for number in range(len(self._names)) if number != self._own_number]
        answers = await asyncio.gather(*(self._fetch_exposition(number) for number in others))
        found = dict(zip(others, answers, strict=True)) | (
            {} if self._own_number is None else {self._own_number: exposition}
        )
        return merge_expositions({number: found[number] for number in sorted(found)})

    async def _fetch_exposition(self, number: int) -> bytes:
        """Nothing when it does not answer in time."""
        try:
            async with asyncio.timeout(ANSWER_S):
                return await _query_worker(self._names[number], METRICS)
        except (OSError, TimeoutError) as error:
            log.warning("worker does not tell its metrics", worker=number, error=str(error) or "no answer in time")
            return b""


class WorkerDependency:
    """One of the processes, as its supervisor sees it: away when it does not answer, or says that it is not ready."""

    def __init__(self, number: int, name: bytes) -> None:
        self.name = f"worker {number}"
        self._socket = name

    async def probe(self) -> None:
        """Raises Unready with what the worker says; OSError when it does not answer."""
        answer = await _query_worker(self._socket, READY)
        if answer != b"\n":
            raise NotReady(answer.decode().strip())


async def _readiness(health: Health) -> bytes:
    return f"{health.not_ready_reason(await health.probes()) or ''}\n".encode()


async def _query_worker(name: bytes, question: bytes) -> bytes:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, name)
        reader, writer = await asyncio.open_unix_connection(sock=connection)
    except BaseException:
        connection.close()
        raise
    try:
        if not _is_same_user(writer):
            raise PermissionError("a process of another user answers")
        writer.write(question)
        found = b""
        while part := await reader.read(2**16):
            found += part
            if len(found) > MAX_EXPOSITION:
                raise OSError("too long an answer")
        if not found.endswith(b"\n"):
            raise ConnectionError("the answer was cut off")
        return found
    finally:
        writer.close()


def _is_same_user(writer: asyncio.StreamWriter) -> bool:
    """Whether a process of this user is at the other end: names of this namespace are open to everyone."""
    credentials = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())


def bind_worker_socket() -> socket.socket:
    """A socket that listens under a free name, which the system chooses (unix(7), autobind)."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("")
    listener.listen()
    return listener


def merge_expositions(expositions: Mapping[int, bytes]) -> bytes:
    """Expositions of several workers as one. Empty is one that did not answer."""
    families: dict[bytes, list[bytes]] = {}
    for worker, text in expositions.items():
        label = b'worker="%d"' % worker
        lines: list[bytes] = []
        for line in text.splitlines(keepends=True):
            if line.startswith((b"# HELP ", b"# TYPE ")):
                lines = families.setdefault(line.split(b" ", 3)[2], [])
                if line not in lines[:2]:
                    lines.append(line)
            else:
                lines.append(_with_label(line, label))
    up = [b'sluice_worker_up{worker="%d"} %d\n' % (worker, bool(text)) for worker, text in expositions.items()]
    return b"".join([line for lines in families.values() for line in lines] + [_UP, *up])


def _with_label(sample: bytes, label: bytes) -> bytes:
    """A line of a sample with one label more, the first."""
    name = _NAME.match(sample)
    if name is None:
        return sample
    rest = sample[name.end() :]
    if rest.startswith(b"{}"):
        rest = rest[2:]
    if rest.startswith(b"{"):
        return b"%s{%s,%s" % (name[0], label, rest[1:])
    return b"%s{%s}%s" % (name[0], label, rest)
