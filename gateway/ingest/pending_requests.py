"""Requests that wait to be stored: as they were received, or decoded from entries of the journal."""

import asyncio
import math
from collections.abc import Sequence
from typing import NamedTuple

from chassis.errors import ApiError
from gateway.ingest.redecoding import LargeJsonBody, redecode
from gateway.journal import Entry, Range
from proto.otlp.policy import DecodedPayload, Signal


class PendingRequest:
    """A request that waits to be stored: its sequence in the journal, its columns, and its counts.

    In the mode `store` it is answered once it is stored: `answer` is resolved then, or gets the error of its response.
    In the other modes it is acknowledged already, and has no deadline.
    """

    __slots__ = ("answer", "deadline", "decoded", "items", "received_ns", "sequence", "wire_bytes")

    def __init__(
        self,
        sequence: int,
        decoded: DecodedPayload,
        items: int,
        wire_bytes: int,
        received_ns: int,
        answer: "asyncio.Future[None] | None" = None,
        deadline: float = math.inf,
    ) -> None:
        self.sequence = sequence
        self.decoded = decoded
        self.items = items  # accepted ones
        self.wire_bytes = wire_bytes
        self.received_ns = received_ns
        self.answer = answer
        self.deadline = deadline  # of the loop's clock

    @property
    def is_abandoned(self) -> bool:
        """Whether it is answered already, with 503 at its deadline: its client sends it again, so it is not stored."""
        return self.answer is not None and self.answer.done()

    def fail(self, error: ApiError) -> None:
        """Answer with `error`, unless it is answered already."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)

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
