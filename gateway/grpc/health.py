"""The health service of gRPC (grpc.health.v1): SERVING while `/readyz` is 200."""

from collections.abc import AsyncIterator
from typing import Final

from chassis.runtime.health import Health
from gateway.grpc.status import Context
from proto.otlp.protobuf_writer import varint_field

CHECK: Final = "/grpc.health.v1.Health/Check"

SERVING: Final = varint_field(1, 1)  # of HealthCheckResponse
NOT_SERVING: Final = varint_field(1, 2)


class HealthService:
    """`Health/Check`. `Watch` is not implemented: clients then take the server to be healthy, as the protocol says."""

    def __init__(self, health: Health) -> None:
        self._health = health

    async def check(self, _messages: AsyncIterator[bytes], _context: Context) -> bytes:
        """The state of the process, whichever service is asked for: the request, which needs no key, is not received.
        NOT_SERVING from SIGTERM on, while calls are still accepted.
        """
        reason = self._health.not_ready_reason(await self._health.probes())
        return SERVING if reason is None else NOT_SERVING
