"""How many connections a process holds, whose they are, and which one gives way to a new one.

At the cap a connection that waits for a request is closed for the new one: first those that never sent a whole request,
then those whose last one is longest ago. So connections that are held for nothing keep nobody out. A new one is refused
where each of the others is in the middle of a request, or where its own address has too many.
"""

from collections import OrderedDict
from typing import Protocol

from chassis.limits.trusted_proxies import TrustedProxies


class TrackedConnection(Protocol):
    """A connection."""

    def evict(self) -> None:
        """Close at once."""


class ConnectionRegistry:
    """The connections of a process: `most` of them, `most_of_one` of one address (0: any number).

    Of IPv6 a /64 counts as one address. Those of trusted proxies are of many clients, and are not counted by address.
    """

    def __init__(self, max_connections: int, max_per_address: int, proxies: TrustedProxies) -> None:
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        self._proxies = proxies
        self._addresses: dict[TrackedConnection, str] = {}
        self._count_by_address: dict[str, int] = {}
        # Those that wait for a request, the longest wait first.
        self._idle_new: OrderedDict[TrackedConnection, None] = OrderedDict()
        self._idle_served: OrderedDict[TrackedConnection, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, connection: TrackedConnection, peer: str) -> bool:
        """Take a connection from an address, as one that waits for its first request; False when it is refused."""
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
        """A connection ended, or is about to."""
        address = self._addresses.pop(connection, "")
        self.mark_busy(connection)
        if address:
            self._count_by_address[address] -= 1
            if not self._count_by_address[address]:
                del self._count_by_address[address]

    def mark_busy(self, connection: TrackedConnection) -> None:
        """A whole head is there: it no longer waits."""
        self._idle_new.pop(connection, None)
        self._idle_served.pop(connection, None)

    def mark_idle(self, connection: TrackedConnection) -> None:
        """A request was answered: it waits for the next."""
        if connection in self._addresses:
            self.mark_busy(connection)
            self._idle_served[connection] = None

    def _evict_idle(self) -> bool:
        waiting = self._idle_new or self._idle_served
        if not waiting:
            return False
        guest = next(iter(waiting))
        self.remove(guest)
        guest.evict()
        return True
