"""Acknowledged requests that wait to be stored, decoded from entries of the journal."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from gateway.ingest.redecoding import LargeJsonBody, redecode
from gateway.journal import Entry, Range
from proto.otlp.policy import DecodedPayload, Signal


class PendingRequest:
    """An acknowledged request: its sequence in the journal, its columns, and its counts."""

    __slots__ = ("decoded", "items", "received_ns", "sequence", "wire_bytes")

    is_abandoned = False  # an acknowledged request is always stored

    def __init__(self, sequence: int, decoded: DecodedPayload, items: int, wire_bytes: int, received_ns: int) -> None:
        self.sequence = sequence
        self.decoded = decoded
        self.items = items  # acknowledged ones
        self.wire_bytes = wire_bytes
        self.received_ns = received_ns

    @property
    def signal(self) -> Signal:
        """Spans or log records."""
        return self.decoded.signal


class DecodeResult(NamedTuple):
    """Requests that were decoded, those that cannot be, and those that were not tried."""

    good: list[PendingRequest]
    bad: list[tuple[Entry, Exception]]
    remaining: Sequence[Entry] = ()


def decode_entry(entry: Entry, *, allow_large_json: bool = True) -> PendingRequest:
    """Decode an entry of the journal again. Raises what `redecode` raises; `allow_large_json` as there."""
    request = entry.request
    decoded = redecode(
        request.signal,
        request.media,
        request.encoding,
        request.body,
        request.project_id,
        request.policy,
        request.received_ns,
        allow_large_json=allow_large_json,
    )
    return PendingRequest(entry.sequence, decoded, request.accepted, len(request.body), request.received_ns)


def decode_entries(entries: Sequence[Entry], max_bytes: float = math.inf) -> DecodeResult:
    """Decode entries until their columns reach `max_bytes` (the last one may exceed it), or until one raises
    LargeJsonBody, which remains like those after it. Raises MemoryError, which is no fault of a request. Slow: call it
    in a thread.
    """
    good: list[PendingRequest] = []
    bad: list[tuple[Entry, Exception]] = []
    nbytes = 0
    for at, entry in enumerate(entries):
        if nbytes >= max_bytes:
            return DecodeResult(good, bad, entries[at:])
        try:
            good.append(decode_entry(entry, allow_large_json=False))
            nbytes += good[-1].decoded.nbytes
        except MemoryError:
            raise
        except LargeJsonBody:
            return DecodeResult(good, bad, entries[at:])
        except Exception as error:  # noqa: BLE001 (whatever it is, the other requests are decoded)
            bad.append((entry, error))
    return DecodeResult(good, bad)


def decode_large_entry(entry: Entry) -> DecodeResult:
    """Decode an entry that raises LargeJsonBody otherwise. The caller limits how many are decoded at once."""
    try:
        return DecodeResult([decode_entry(entry)], [])
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 (as above)
        return DecodeResult([], [(entry, error)])


def sequence_ranges(requests: Sequence[PendingRequest]) -> tuple[Range, ...]:
    """The sequences of `requests`, which ascend, as ranges."""
    found: list[Range] = []
    for request in requests:
        if found and found[-1][1] + 1 == request.sequence:
            found[-1] = found[-1][0], request.sequence
        else:
            found.append((request.sequence, request.sequence))
    return tuple(found)
