"""A request that was acknowledged and waits to be stored."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from gateway.decoding import LargeJson, decoded_again
from gateway.journal import Entry, Range
from proto.otlp.policy import Decoded, Signal


class Queued:
    """Its place in the journal, its columns, and what is counted of it."""

    __slots__ = ("decoded", "items", "received_ns", "sequence", "wire_bytes")

    abandoned = False  # nobody takes back what was acknowledged

    def __init__(self, sequence: int, decoded: Decoded, items: int, wire_bytes: int, received_ns: int) -> None:
        self.sequence = sequence
        self.decoded = decoded
        self.items = items  # that were acknowledged
        self.wire_bytes = wire_bytes
        self.received_ns = received_ns

    @property
    def signal(self) -> Signal:
        """Spans or log records."""
        return self.decoded.signal


class Read(NamedTuple):
    """What of some requests could be decoded, what could not, and what is left for another time."""

    good: list[Queued]
    bad: list[tuple[Entry, Exception]]
    left: Sequence[Entry] = ()


def queued(entry: Entry, *, large: bool = True) -> Queued:
    """What the journal holds, decoded again. Raises when it cannot be; `large` as in `decoded_again`."""
    request = entry.request
    decoded = decoded_again(
        request.signal,
        request.media,
        request.encoding,
        request.body,
        request.project_id,
        request.policy,
        request.received_ns,
        large=large,
    )
    return Queued(entry.sequence, decoded, request.accepted, len(request.body), request.received_ns)


def all_queued(entries: Sequence[Entry], most_bytes: float = math.inf) -> Read:
    """The same for many, until their columns take `most_bytes`, and one more may, or until one is LargeJson, which is
    left like those after it. Raises MemoryError: that is not about a request. Takes long, so it runs in a thread.
    """
    good: list[Queued] = []
    bad: list[tuple[Entry, Exception]] = []
    nbytes = 0
    for at, entry in enumerate(entries):
        if nbytes >= most_bytes:
            return Read(good, bad, entries[at:])
        try:
            good.append(queued(entry, large=False))
            nbytes += good[-1].decoded.nbytes
        except MemoryError:
            raise
        except LargeJson:
            return Read(good, bad, entries[at:])
        except Exception as error:  # noqa: BLE001 (whatever it is, the next request is not to suffer for it)
            bad.append((entry, error))
    return Read(good, bad)


def large_queued(entry: Entry) -> Read:
    """The same for one that is LargeJson. Who calls it sees to it that few are decoded at once."""
    try:
        return Read([queued(entry)], [])
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 (as above)
        return Read([], [(entry, error)])


def ranges(requests: Sequence[Queued]) -> tuple[Range, ...]:
    """Their sequences, which ascend, as ranges."""
    found: list[Range] = []
    for request in requests:
        if found and found[-1][1] + 1 == request.sequence:
            found[-1] = found[-1][0], request.sequence
        else:
            found.append((request.sequence, request.sequence))
    return tuple(found)
