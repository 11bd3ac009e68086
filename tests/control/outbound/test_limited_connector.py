"""Answers that do not end."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from control.outbound.limited_connector import MAX_RECEIVED
from tests.accepting import accepting
from tests.control.identity.sso.authority import issue
from tests.control.outbound.going_out import failure, opened, speaking


@asynccontextmanager
async def flooding(begin: bytes, again: bytes) -> AsyncIterator[tuple[int, list[int]]]:
    """A server that says `begin` and then `again` for as long as it is listened to. Its port; how many bytes it said,
    as the one item of a list.
    """
    said = [0]

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(begin)
        with contextlib.suppress(OSError):
            while said[0] < 100 * MAX_RECEIVED:
                writer.write(again)
                await writer.drain()
                said[0] += len(again)
        writer.transport.abort()

    async with accepting(speak) as port:
        yield port, said


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_answers_before_the_answer_are_not_read_without_end() -> None:
    async with flooding(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000) as (port, said), opened() as egress:
        lost = await failure(egress, f"http://127.0.0.1:{port}/")
    assert (lost.detail, lost.permanent) == ("The connection was lost.", False)
    assert said[0] < 100 * MAX_RECEIVED


async def test_what_surrounds_an_answer_is_not_read_without_end() -> None:
    """The status has come and counts."""
    for begin, again in (
        (CHUNKED + b"1;", b"a" * 10_000),
        (CHUNKED, b"1;" + b"a" * 5_000 + b"\r\nx\r\n"),
        (CHUNKED, b"1\r\nx\r\n" * 2_000),
    ):
        async with flooding(begin, again) as (port, said), opened() as egress:
            assert (await egress.post(f"http://127.0.0.1:{port}/", b"", {})).status == 200
        assert said[0] < 100 * MAX_RECEIVED


async def test_an_interim_answer_is_passed_over() -> None:
    answer = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"
    async with speaking(answer) as port, opened() as egress:
        reply = await egress.post(f"http://127.0.0.1:{port}/", b"", {})
    assert (reply.status, reply.body) == (201, b"ok")


async def test_a_connection_does_not_wait_for_the_end_of_tls(tmp_path: Path) -> None:
    """A peer that confirms no end of TLS would keep the socket for half a minute."""
    authority, ended = issue(tmp_path), threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def speak() -> None:
        plain, _ = listener.accept()
        with authority.server_context().wrap_socket(plain, server_side=True) as tls:
            tls.recv(4_096)
            tls.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            with socket.socket(fileno=tls.detach()) as silent:  # knows nothing of TLS any more
                silent.settimeout(10)
                with contextlib.suppress(ConnectionError):
                    while silent.recv(4_096):
                        pass
                ended.set()

    peer = threading.Thread(target=speak, daemon=True)
    peer.start()
    async with opened(tls=authority.client_context()) as egress:
        reply = await egress.post(f"https://127.0.0.1:{listener.getsockname()[1]}/", b"", {})
        assert reply.status == 204
        assert await asyncio.to_thread(ended.wait, 15)
    peer.join()
    listener.close()
