"""Runs the gRPC server beside HTTP: built once the application has its rate limits and health."""

from collections.abc import AsyncIterator, Callable

import structlog
from aiohttp import web

from chassis.http.web import RATE_LIMITS
from chassis.runtime import fd_limits
from chassis.runtime.health import HEALTH
from chassis.runtime.other_servers import OTHER_SERVERS
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from gateway.export.parts import ExportParts
from gateway.grpc.connections import DESCRIPTORS_PER_CONNECTION, Connections
from gateway.grpc.core_socket import CoreSocket
from gateway.grpc.health import HealthService
from gateway.grpc.metrics import GrpcMetrics
from gateway.grpc.options import server_options
from gateway.grpc.receiving import MessageReceiver
from gateway.grpc.server import GrpcServer
from gateway.grpc.service import ExportDependencies, ExportService
from gateway.settings import GatewaySettings

log = structlog.get_logger(__name__)


def serve_grpc(
    port: int, chassis: ChassisSettings, settings: GatewaySettings, telemetry: Telemetry, parts: ExportParts
) -> Callable[[web.Application], AsyncIterator[None]]:
    """The cleanup context that serves on `port`. It must close before what exports are stored with."""
    metrics = GrpcMetrics(telemetry.registry)

    async def run(app: web.Application) -> AsyncIterator[None]:
        exports = ExportService(
            ExportDependencies(
                parts=parts,
                rate_limits=app[RATE_LIMITS],
                telemetry=telemetry,
                receiver=MessageReceiver(settings.max_wire_bytes, chassis.body_timeout_s),
                metrics=metrics,
            )
        )
        quarter = fd_limits.connection_budget() // 4  # of the descriptors; the rest is for HTTP
        max_connections = min(chassis.max_connections, max(1, quarter // DESCRIPTORS_PER_CONNECTION))
        core = CoreSocket()
        server = GrpcServer(
            exports,
            HealthService(app[HEALTH]),
            server_options(chassis, settings),
            Connections(chassis, metrics, core, max_connections=max_connections),
            core,
            telemetry,
            drain_timeout_s=chassis.drain_timeout_s,
        )
        await server.start(chassis.host, port)
        app[OTHER_SERVERS].descriptors += max_connections * DESCRIPTORS_PER_CONNECTION
        app[OTHER_SERVERS].stop_accepting.append(server.stop_accepting)
        log.info("OTLP/gRPC listens", address=chassis.grpc_address)
        yield
        await server.close()

    return run
