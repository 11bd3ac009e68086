"""A PostgreSQL server that greets and then does not set the limits of a connection."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest

from chassis.db import postgresql as driver
from chassis.db.postgresql import AsyncPostgresConnection, PostgresConnection
from tests.accepting import accepting

DEADLINE_S = 30.0  # for anything that must happen; never a measure of speed
TIMEOUT_S = 0.3
_GREETING = b"R\0\0\0\x08\0\0\0\0" + b"S\0\0\0\x19client_encoding\0UTF8\0" + b"Z\0\0\0\x05I"
_FIELDS = b"SERROR\0C57P03\0Mnot now\0\0"
_REFUSAL = b"E" + struct.pack("!i", len(_FIELDS) + 4) + _FIELDS + b"Z\0\0\0\x05I"
Open = Callable[[int], Awaitable[object]]


async def opened_async(port: int) -> object:
    return await AsyncPostgresConnection.connect_with_timeouts(TIMEOUT_S, conninfo=conninfo(port))


async def opened_blocking(port: int) -> object:
    return await asyncio.to_thread(lambda: PostgresConnection.connect_with_timeouts(TIMEOUT_S, conninfo=conninfo(port)))


def conninfo(port: int) -> str:
    return f"host=127.0.0.1 port={port} user=u dbname=d sslmode=disable gssencmode=disable client_encoding=utf8"


@asynccontextmanager
async def greeting(answer: bytes) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """The port of a server that gives `answer` to whatever follows the greeting, and whether its client has left."""
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            (length,) = struct.unpack("!i", await reader.readexactly(4))
            await reader.readexactly(length - 4)
            writer.write(_GREETING)
            while await reader.read(65_536):
                writer.write(answer)
        except ConnectionError:
            pass  # it has left as well
        left.set()

    async with accepting(serve) as port:
        yield port, left


@pytest.mark.parametrize("open_", [opened_async, opened_blocking])
@pytest.mark.parametrize(
    ("answer", "told"), [(b"", "no response within 0.3 s"), (_REFUSAL, "not now")], ids=["silent", "refused"]
)
async def test_a_connection_whose_limits_cannot_be_set_is_closed(
    open_: Open, answer: bytes, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the time of any statement for them, which may be more than a look at an idle connection gets."""
    monkeypatch.setattr(driver, "PING_TIMEOUT_S", TIMEOUT_S / 10)
    async with asyncio.timeout(DEADLINE_S), greeting(answer) as (port, left):
        with pytest.raises(psycopg.OperationalError, match=told) as caught:
            await open_(port)
        await left.wait()  # while the error, and with it every frame and the connection, is still there
        assert caught.value is not None
