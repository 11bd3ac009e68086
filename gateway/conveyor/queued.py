"""A request that was acknowledged and waits to be stored."""

from collections.abc import Iterable, Sequence

from gateway.decoding import decoded_again
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


Read = tuple[list[Queued], list[tuple[Entry, Exception]]]  # what could be decoded, and what could not


def queued(entry: Entry) -> Queued:
    """What the journal holds, decoded again. Raises when it cannot be."""
    request = entry.request
    decoded = decoded_again(
        request.signal,
        request.media,
        request.encoding,
        request.body,
        request.project_id,
        request.policy,
        request.received_ns,
    )
    return Queued(entry.sequence, decoded, request.accepted, len(request.body), request.received_ns)


def all_queued(entries: Iterable[Entry]) -> Read:
    """The same for many, and those that cannot be decoded with their reason. Raises MemoryError: that is not about a
    request. Takes long, so it runs in a thread.
    """
    good: list[Queued] = []
    bad: list[tuple[Entry, Exception]] = []
    for entry in entries:
        try:
            good.append(queued(entry))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, the next request is not to suffer for it)
            bad.append((entry, error))
    return good, bad


def ranges(requests: Sequence[Queued]) -> tuple[Range, ...]:
    """Their sequences, which ascend, as ranges."""
    found: list[Range] = []
    for request in requests:
        if found and found[-1][1] + 1 == request.sequence:
            found[-1] = found[-1][0], request.sequence
        else:
            found.append((request.sequence, request.sequence))
    return tuple(found)
