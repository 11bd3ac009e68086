"""The connections of a process, counted by address, and which one is evicted for a new one.

At the limit an idle connection is closed for the new one: first those that never sent a complete request, then the one
that has been idle longest. So unused connections keep no client out. A new connection is refused when every other is in
the middle of a request, or when its own address has too many.
"""

from collections import OrderedDict
from typing import Protocol

from chassis.limits.trusted_proxies import TrustedProxies


class TrackedConnection(Protocol):
    """A connection that the registry may close."""

    def evict(self) -> None:
        """Close at once, in favour of a new connection."""


class ConnectionRegistry:
    """At most `max_connections` in total and `max_per_address` of one address (0: any number).

    For IPv6 a /64 counts as one address. Connections of trusted proxies are not counted by address: they carry the
    requests of many clients.
    """

    def __init__(self, max_connections: int, max_per_address: int, proxies: TrustedProxies) -> None:
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        self._proxies = proxies
        self._addresses: dict[TrackedConnection, str] = {}
        self._count_by_address: dict[str, int] = {}
        # Idle connections, the longest idle first: without a request so far, and after one.
        self._idle_new: OrderedDict[TrackedConnection, None] = OrderedDict()
        self._idle_served: OrderedDict[TrackedConnection, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._addresses)

    def connections(self) -> list[TrackedConnection]:
        """All that are registered."""
        return list(self._addresses)

    def add(self, connection: TrackedConnection, peer: str) -> bool:
        """Add a connection of address `peer`, as idle; False when it is refused."""
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
