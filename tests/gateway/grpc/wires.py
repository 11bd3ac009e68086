"""Connections to the gRPC port on which tests write frames themselves."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from grpc import StatusCode

from benchmarks.gateway.grpc_load import header_block
from tests.gateway.grpc.conftest import DEADLINE_S, TRACES, Client
from tests.gateway.grpc.frames import END_HEADERS, HEADERS, PREFACE, SETTINGS, frame
from tests.gateway.otlp import span, traces

PREFIX = PREFACE + frame(SETTINGS, 0, 0)  # what a client sends first


class Wire:
    """A connection on which a test writes frames itself (RFC 9113)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        self.writer.write(frame(kind, flags, stream, payload))

    def begin(self, client: Client, stream: int = 1, *, key: bool = True) -> None:
        """The headers of an export."""
        fields = [(name, value) for name, value in client.key()] if key else []
        self.send(HEADERS, END_HEADERS, stream, header_block(TRACES, fields))

    async def frame(self) -> tuple[int, bytes]:
        """Kind and payload of the next frame."""
        head = await self.reader.readexactly(9)
        return head[3], await self.reader.readexactly(int.from_bytes(head[:3], "big"))

    async def until(self, kind: int) -> bytes:
        """The payload of the next frame of this kind."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found, payload = await self.frame()
                if found == kind:
                    return payload

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    async def closed(self) -> bytes:
        """What came until the server has closed the connection."""
        received = b""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(ConnectionError):
                while piece := await self.reader.read(2**16):
                    received += piece
        return received


Open = Callable[..., Awaitable[Wire]]


def prefixed(message: bytes) -> bytes:
    return struct.pack(">BI", 0, len(message)) + message


def connections(client: Client) -> float | None:
    """How many are open."""
    return client.gateway.telemetry.registry.get_sample_value("sluice_grpc_connections")


def closed_connections(client: Client) -> dict[str, float]:
    """How many were closed for which reasons."""
    return {
        sample.labels["reason"]: sample.value
        for family in client.gateway.telemetry.registry.collect()
        for sample in family.samples
        if sample.name == "sluice_grpc_connections_closed_total"
    }


async def works(client: Client) -> None:
    """Other calls are answered."""
    assert (await client.call(TRACES, traces(span()), client.key(1))).code is StatusCode.OK


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096
