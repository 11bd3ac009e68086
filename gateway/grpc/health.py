"""The health service of gRPC (grpc.health.v1): SERVING while `/readyz` is 200."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import grpc

from chassis.runtime.health import REUSE_S, Health
from gateway.grpc.status import Context
from proto.otlp.protobuf_writer import varint_field

CHECK: Final = "/grpc.health.v1.Health/Check"
WATCH: Final = "/grpc.health.v1.Health/Watch"
MAX_WATCHES: Final = 64  # at once, each of which keeps a connection open that nobody authenticated

SERVING: Final = varint_field(1, 1)  # of HealthCheckResponse
NOT_SERVING: Final = varint_field(1, 2)


class HealthService:
    """`Health/Check` and `Health/Watch`: the state of the process, whichever service is asked for. The request, which
    needs no key, is not received.
    """

    def __init__(self, health: Health) -> None:
        self._health = health
        self._watches = 0
        self._ended = asyncio.Event()

    async def check(self, _messages: AsyncIterator[bytes], _context: Context) -> bytes:
        """NOT_SERVING from SIGTERM on, while calls are still accepted."""
        return await self._state()

    async def watch(self, _messages: AsyncIterator[bytes], context: Context) -> None:
        """Write the state at first and whenever it has changed, until `end_watches`. Beyond MAX_WATCHES UNIMPLEMENTED:
        clients then take the server to be healthy, as the protocol says, and do not try again.
        """
        if self._watches >= MAX_WATCHES:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"More than {MAX_WATCHES} watch the process already.")
        self._watches += 1
        try:
            await self._write_changes(context)
        finally:
            self._watches -= 1

    def end_watches(self) -> None:
        """A server that stops would wait for them."""
        self._ended.set()

    async def _write_changes(self, context: Context) -> None:
        written: bytes | None = None
        while True:
            ending = self._ended.is_set()
            state = await self._state()
            if state != written:
                await context.write(state)
                written = state
            if ending:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(REUSE_S):
                    await self._ended.wait()

    async def _state(self) -> bytes:
        reason = self._health.not_ready_reason(await self._health.probes())
        return SERVING if reason is None else NOT_SERVING
