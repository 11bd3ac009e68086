"""Ways out for tests, servers of a few bytes, and what cannot be reached."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from control.outbound.egress import Egress, EgressError
from control.outbound.egress_policy import EgressPolicy
from tests.accepting import accepting

LOOPBACK = ipaddress.ip_network("127.0.0.0/8")
HERE = EgressPolicy((LOOPBACK,), allow_http=True)


@asynccontextmanager
async def opened(policy: EgressPolicy = HERE, **options: Any) -> AsyncIterator[Egress]:
    egress = Egress(policy, **options)
    running = egress.running()
    await anext(running)
    yield egress
    await anext(running, None)


@asynccontextmanager
async def speaking(answer: bytes | None, *, hang: bool = False) -> AsyncIterator[int]:
    """A server that says `answer` to whatever comes, and closes; or hangs. Its port."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(1)
            if answer is not None:
                writer.write(answer)
                await writer.drain()
            await asyncio.sleep(60 if hang else 0)
        finally:
            writer.transport.abort() if hang else writer.close()

    async with accepting(speak) as port:
        yield port


async def failure(egress: Egress, url: str) -> EgressError:
    with pytest.raises(EgressError) as raised:
        await egress.post(url, b"x", {})
    return raised.value
