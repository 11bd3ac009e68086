"""The connections of a process, and the objects that they share (`ConnectionContext`).

`ConnectionRegistry` counts connections by address. At the limit, an idle connection is closed in favour of the new
connection: first connections that never sent a complete request, then the connection that has been idle longest. So
unused connections do not keep other clients out. A new connection is refused when every other connection has a request
in progress, or when its own address has too many connections.

`HeadMemoryLimit` limits the memory of request heads. Above the limit, the connection that holds most is closed. Sizes
are compared by powers of two, and of equal connections the one that has held so much for longest is closed. A
legitimate client holds a short head for a short time. The bytes that a connection with a valid credential holds count
as one sixteenth.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from aiohttp import web

from chassis.http.preparse import ConnectionAdmission, PreParseFilter
from chassis.limits.rate_limits import TrustedProxies
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry

AUTHENTICATED_RANK_OFFSET: Final = 4  # in powers of two: one sixteenth


class HeadMemoryHolder(Protocol):
    """A connection that holds heads."""

    @property
    def is_authenticated(self) -> bool:
        """Whether the connection has presented a valid credential."""

    def close_for_memory(self) -> None:
        """Close immediately and drop the held bytes."""


class HeadMemoryLimit:
    """Limits the bytes that all connections together hold to `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: dict[HeadMemoryHolder, tuple[int, int]] = {}  # bytes, and the key in `_ranks`
        self._ranks: dict[int, OrderedDict[HeadMemoryHolder, None]] = {}
        self.total = 0

    def set_held(self, holder: HeadMemoryHolder, count: int) -> None:
        """Record that `holder` holds `count` bytes. If the limit is exceeded, holders are closed, possibly `holder`
        itself.
        """
        rank = max(0, count.bit_length() - (AUTHENTICATED_RANK_OFFSET if holder.is_authenticated else 0))
        before, rank_before = self._held.get(holder, (0, -1))
        if not count or rank != rank_before:
            self.release(holder)
            before = 0
        if not count:
            return
        self._held[holder] = count, rank
        # A holder that already has this rank keeps its position.
        self._ranks.setdefault(rank, OrderedDict())[holder] = None
        self.total += count - before
        while self.total > self._max_bytes:
            self._close_largest()

    def release(self, holder: HeadMemoryHolder) -> None:
        """Record that `holder` holds nothing."""
        count, rank = self._held.pop(holder, (0, 0))
        if count:
            self.total -= count
            same_rank = self._ranks[rank]
            del same_rank[holder]
            if not same_rank:
                del self._ranks[rank]

    def _close_largest(self) -> None:
        holder = next(iter(self._ranks[max(self._ranks)]))
        self.release(holder)
        holder.close_for_memory()


class TrackedConnection(Protocol):
    """A connection that the registry may close."""

    def evict(self) -> None:
        """Close immediately, in favour of a new connection."""


class ConnectionRegistry:
    """At most `max_connections` connections in total and `max_per_address` connections of one address (0: any number).

    For IPv6 a /64 counts as one address. Connections of trusted proxies are not counted by address, because they carry
    the requests of many clients.
    """

    def __init__(self, max_connections: int, max_per_address: int, proxies: TrustedProxies) -> None:
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        self._proxies = proxies
        self._addresses: dict[TrackedConnection, str] = {}
        self._count_by_address: dict[str, int] = {}
        # Idle connections, the longest idle first: connections without a request so far, and connections after one.
        self._idle_new: OrderedDict[TrackedConnection, None] = OrderedDict()
        self._idle_served: OrderedDict[TrackedConnection, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._addresses)

    def connections(self) -> list[TrackedConnection]:
        """All registered connections."""
        return list(self._addresses)

    def add(self, connection: TrackedConnection, peer: str) -> bool:
        """Add an idle connection of address `peer`. False when the connection is refused."""
        address = self._proxies.peer_key(peer) if self._max_per_address else ""
        if address and self._count_by_address.get(address, 0) >= self._max_per_address:
            return False
        if len(self._addresses) >= self._max_connections and not self._evict_idle():
            return False
        self._addresses[connection] = address
        self._idle_new[connection] = None
        if address:
            self._count_by_address[address] = self._count_by_address.get(address, 0) + 1
        return True

    def remove(self, connection: TrackedConnection) -> None:
        """Remove a connection that has ended or is about to end."""
        address = self._addresses.pop(connection, "")
        self.mark_busy(connection)
        if address:
            self._count_by_address[address] -= 1
            if not self._count_by_address[address]:
                del self._count_by_address[address]

    def mark_busy(self, connection: TrackedConnection) -> None:
        """Call when a complete head is received: the connection cannot be evicted."""
        self._idle_new.pop(connection, None)
        self._idle_served.pop(connection, None)

    def mark_idle(self, connection: TrackedConnection) -> None:
        """Call when a response was sent: the connection is idle until the next request."""
        if connection in self._addresses:
            self.mark_busy(connection)
            self._idle_served[connection] = None

    def _evict_idle(self) -> bool:
        idle = self._idle_new or self._idle_served
        if not idle:
            return False
        connection = next(iter(idle))
        self.remove(connection)
        connection.evict()
        return True


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
        """`is_draining` returns whether the process is draining, so that each response is the last of its
        connection.
        """
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
        """Register a connection. If the process or its address has too many connections, count the refusal and return
        False.
        """
        peer = transport.get_extra_info("peername")
        admitted = self.registry.add(connection, peer[0] if isinstance(peer, tuple) else "")
        if not admitted:
            self._telemetry.refused_connections.inc()
        return admitted

    def build_admission(self) -> ConnectionAdmission | None:
        """The pre-parse admission of one connection, or None when no route has a filter."""
        return ConnectionAdmission(self._filters) if self._filters else None

    def count_evicted(self) -> None:
        """Count an idle connection that was closed in favour of a new connection."""
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
