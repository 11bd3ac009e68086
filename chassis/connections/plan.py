"""What all connections of a process share."""

import asyncio
from collections.abc import Callable, Mapping

from chassis.connections.crowd import Crowd, Guest
from chassis.connections.holdings import Holdings
from chassis.gate import Doorway, Gate
from chassis.peers import Proxies
from chassis.settings import ChassisSettings
from chassis.telemetry import Telemetry


class ConnectionPlan:
    """What all connections of a process share: deadlines, gates, the cap and who they are."""

    def __init__(
        self,
        settings: ChassisSettings,
        telemetry: Telemetry,
        *,
        most: int,
        gates: Mapping[bytes, Gate],
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        """`leaving`: whether the process is on its way out, so that each answer is the last of its connection."""
        self.settings = settings
        self._telemetry = telemetry
        self._gates = gates
        self.leaving = leaving
        self.crowd = Crowd(most, settings.max_connections_per_address, Proxies(settings.trusted_proxies))
        self.holdings = Holdings(settings.max_head_buffer_bytes)
        telemetry.held_by_heads.set_function(lambda: self.holdings.total)
        telemetry.connections.set_function(lambda: len(self.crowd))

    def admit(self, connection: Guest, transport: asyncio.BaseTransport) -> bool:
        """Count one more connection, or refuse it: one too many for the process or for its address."""
        peer = transport.get_extra_info("peername")
        admitted = self.crowd.enter(connection, peer[0] if isinstance(peer, tuple) else "")
        if not admitted:
            self._telemetry.refused_connections.inc()
        return admitted

    def doorway(self) -> Doorway | None:
        """For one connection; None where there are no gates."""
        return Doorway(self._gates) if self._gates else None

    def gave_way(self) -> None:
        """A connection that waited was closed for a new one."""
        self._telemetry.expired.labels("idle").inc()

    def head_expired(self) -> None:
        """A connection was closed for want of a request head."""
        self._telemetry.expired.labels("head").inc()

    def heads_shed(self) -> None:
        """A connection was closed for the memory that its request head takes."""
        self._telemetry.head_memory_closed.inc()

    def send_expired(self) -> None:
        """A connection was cut whose client did not read its answer."""
        self._telemetry.expired.labels("send").inc()
