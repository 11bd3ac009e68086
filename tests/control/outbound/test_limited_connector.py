"""Answers that do not end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from control.outbound.limited_connector import MAX_RECEIVED
from tests.accepting import accepting
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


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (CHUNKED + b"1;", b"a" * 10_000),
        (CHUNKED, b"1;" + b"a" * 5_000 + b"\r\nx\r\n"),
        (CHUNKED, b"1\r\nx\r\n" * 2_000),
    ],
)
async def test_what_surrounds_an_answer_is_not_read_without_end(begin: bytes, again: bytes) -> None:
    """The status has come and counts."""
    async with flooding(begin, again) as (port, said), opened() as egress:
        assert (await egress.post(f"http://127.0.0.1:{port}/", b"", {})).status == 200
    assert said[0] < 100 * MAX_RECEIVED


async def test_an_interim_answer_is_passed_over() -> None:
    answer = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"
    async with speaking(answer) as port, opened() as egress:
        reply = await egress.post(f"http://127.0.0.1:{port}/", b"", {})
    assert (reply.status, reply.body) == (201, b"ok")
