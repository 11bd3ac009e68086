"""State that all connections of a process share."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web

from chassis.http.connections.head_memory import HeadMemoryLimit
from chassis.http.connections.registry import ConnectionRegistry, TrackedConnection
from chassis.http.preparse import ConnectionAdmission, PreParseFilter
from chassis.limits.trusted_proxies import TrustedProxies
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry

CANCEL_ON_DISCONNECT: Final = web.RequestKey("cancel_on_disconnect", bool)  # whether a disconnect cancels the handler


class ConnectionContext:
    """Shared by all connections of a process: settings, pre-parse filters, registry, head memory, counters."""

    def __init__(
        self,
        settings: ChassisSettings,
        telemetry: Telemetry,
        *,
        max_connections: int,
        filters: Mapping[bytes, PreParseFilter],
        is_draining: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_draining`: whether the process is draining, so that each response is the last of its connection."""
        self.settings = settings
        self._telemetry = telemetry
        self._filters = filters
        self.is_draining = is_draining
        self.registry = ConnectionRegistry(
            max_connections, settings.max_connections_per_address, TrustedProxies(settings.trusted_proxies)
        )
        self.head_memory = HeadMemoryLimit(settings.max_head_buffer_bytes)
        telemetry.head_bytes.set_function(lambda: self.head_memory.total)
        telemetry.connections.set_function(lambda: len(self.registry))

    def admit(self, connection: TrackedConnection, transport: asyncio.BaseTransport) -> bool:
        """Register a connection; False, and counted, when the process or its address has too many."""
        peer = transport.get_extra_info("peername")
        admitted = self.registry.add(connection, peer[0] if isinstance(peer, tuple) else "")
        if not admitted:
            self._telemetry.refused_connections.inc()
        return admitted

    def build_admission(self) -> ConnectionAdmission | None:
        """The pre-parse admission of one connection; None when no route has a filter."""
        return ConnectionAdmission(self._filters) if self._filters else None

    def count_evicted(self) -> None:
        """Count an idle connection that was closed for a new one."""
        self._telemetry.expired_connections.labels("idle").inc()

    def count_head_timeout(self) -> None:
        """Count a connection that was closed because its request head did not arrive in time."""
        self._telemetry.expired_connections.labels("head").inc()

    def count_head_memory_closed(self) -> None:
        """Count a connection that was closed for the memory of its request head."""
        self._telemetry.head_memory_closed.inc()

    def count_send_timeout(self) -> None:
        """Count a connection that was aborted because its client did not read its response."""
        self._telemetry.expired_connections.labels("send").inc()
