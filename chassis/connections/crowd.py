"""How many connections a process holds, whose they are, and which one gives way to a new one.

At the cap a connection that waits for a request is closed for the new one: first those that never sent a whole request,
then those whose last one is longest ago. So connections that are held for nothing keep nobody out. A new one is refused
where each of the others is in the middle of a request, or where its own address has too many.
"""

from collections import OrderedDict
from typing import Protocol

from chassis.peers import Proxies


class Guest(Protocol):
    """A connection."""

    def give_way(self) -> None:
        """Close at once."""


class Crowd:
    """The connections of a process: `most` of them, `most_of_one` of one address (0: any number).

    Of IPv6 a /64 counts as one address. Those of trusted proxies are of many clients, and are not counted by address.
    """

    def __init__(self, most: int, most_of_one: int, proxies: Proxies) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._proxies = proxies
        self._addresses: dict[Guest, str] = {}
        self._of_one: dict[str, int] = {}
        # Those that wait for a request, the longest wait first.
        self._strangers: OrderedDict[Guest, None] = OrderedDict()
        self._known: OrderedDict[Guest, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._addresses)

    def enter(self, guest: Guest, peer: str) -> bool:
        """Take a connection from an address, as one that waits for its first request; False when it is refused."""
        address = self._proxies.neighbour(peer) if self._most_of_one else ""
        if address and self._of_one.get(address, 0) >= self._most_of_one:
            return False
        if len(self._addresses) >= self._most and not self._make_room():
            return False
        self._addresses[guest] = address
        self._strangers[guest] = None
        if address:
            self._of_one[address] = self._of_one.get(address, 0) + 1
        return True

    def leave(self, guest: Guest) -> None:
        """A connection ended, or is about to."""
        address = self._addresses.pop(guest, "")
        self.works(guest)
        if address:
            self._of_one[address] -= 1
            if not self._of_one[address]:
                del self._of_one[address]

    def works(self, guest: Guest) -> None:
        """A whole head is there: it no longer waits."""
        self._strangers.pop(guest, None)
        self._known.pop(guest, None)

    def rests(self, guest: Guest) -> None:
        """A request was answered: it waits for the next."""
        if guest in self._addresses:
            self.works(guest)
            self._known[guest] = None

    def _make_room(self) -> bool:
        waiting = self._strangers or self._known
        if not waiting:
            return False
        guest = next(iter(waiting))
        self.leave(guest)
        guest.give_way()
        return True
