"""Requests that wait to be stored: as they were received, or read back from the journal (`JournalReader`).

A request of the journal is decoded again with the policy and the time of its acceptance, so that the columns are the
same. The current limits do not apply, so that no acknowledged request is refused (`redecode`).

A request that an earlier process accepted counts as recovered when a read finds it for the first time, readable or not.
A damaged request counts as lost, unless it is in memory and will be stored from there.
"""

import asyncio
import math
from collections.abc import Container, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

import structlog

from chassis.errors import ApiError, PayloadTooLarge
from gateway.decompression import DecompressionLimits, decompress
from gateway.journal import Batch, Entry, JournalLike, Range, RangeSet
from gateway.metrics import DAMAGED, ItemAccounting
from proto.otlp.codec import decode, decode_json
from proto.otlp.policy import DecodedPayload, Policy, Signal
from proto.otlp.responses import Media

UNLIMITED: Final = DecompressionLimits(2**31 - 2, 2**31, 2**31)  # the largest length that zlib accepts
LARGE_JSON_BYTES: Final = 2**20  # larger bodies are parsed in Python one at a time, because that holds the GIL


class LargeJsonBody(Exception):
    """An OTLP/JSON body of more than LARGE_JSON_BYTES; parsing it takes several times its size in memory."""


def redecode(
    signal: Signal,
    media: Media,
    encoding: str,
    wire: bytes,
    project_id: int,
    policy: Policy,
    received_ns: int,
    *,
    allow_large_json: bool = True,
) -> DecodedPayload:
    """The columns of a request that was accepted at `received_ns` under `policy`. Takes milliseconds. Raises the errors
    of `decompress` and the decoders if the bytes differ from the accepted ones, and LargeJsonBody for a large JSON body
    unless `allow_large_json`.
    """
    if media != "json":
        return decode(signal, decompress(encoding, wire, UNLIMITED), project_id, policy, received_ns)
    try:
        body = decompress(
            encoding, wire, UNLIMITED if allow_large_json else UNLIMITED._replace(max_bytes=LARGE_JSON_BYTES)
        )
    except PayloadTooLarge as error:
        if allow_large_json:
            raise
        raise LargeJsonBody from error
    return decode_json(signal, body, project_id, policy, received_ns)


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
        """Whether the request was answered 503 at its deadline: its client sends it again, so it is not stored."""
        return self.answer is not None and self.answer.done()

    def fail(self, error: ApiError) -> None:
        """Answer with `error`, unless the request is answered already."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)

    @property
    def signal(self) -> Signal:
        """Spans or log records."""
        return self.decoded.signal


class DecodeResult(NamedTuple):
    """Requests that were decoded, requests that cannot be decoded, and requests that were not tried."""

    good: list[PendingRequest]
    bad: list[tuple[Entry, Exception]]
    remaining: Sequence[Entry] = ()


def decode_entry(entry: Entry, *, allow_large_json: bool = True) -> PendingRequest:
    """Decode an entry of the journal again. `allow_large_json` and errors are the same as in `redecode`."""
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
    LargeJsonBody. That entry and all later ones are returned as not tried. Raises MemoryError, which does not make a
    request undecodable. Slow: call it in a thread.
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


RETRY_S: Final = 5.0


class EntryDecoder:
    """Decodes entries of all journals of a process, in `threads`. A body that raises LargeJsonBody is decoded alone,
    one at a time: no memory budget covers it, and unfinished batches, lanes and orphaned journals would each decode one
    at the same time.
    """

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._large_json_lock = asyncio.Lock()

    async def decode(self, entries: Sequence[Entry], max_bytes: float) -> DecodeResult:
        """Decode until the columns take `max_bytes`. Raises MemoryError, RuntimeError."""
        good: list[PendingRequest] = []
        bad: list[tuple[Entry, Exception]] = []
        nbytes = 0
        while entries and nbytes < max_bytes:
            read = await self._decode_some(entries, max_bytes - nbytes)
            good += read.good
            bad += read.bad
            entries = read.remaining
            nbytes += sum(request.decoded.nbytes for request in read.good)
        return DecodeResult(good, bad, entries)

    async def _decode_some(self, entries: Sequence[Entry], max_bytes: float) -> DecodeResult:
        """Decode at least one entry."""
        in_thread = asyncio.get_running_loop().run_in_executor
        read = await in_thread(self._threads, decode_entries, entries, max_bytes)
        if len(read.remaining) < len(entries):
            return read
        async with self._large_json_lock:
            read = await in_thread(self._threads, decode_large_entry, entries[0])
        return read._replace(remaining=entries[1:])


class JournalReader:
    """Reads and decodes the requests of one journal. Shared by its lanes, its batch writer and its recovery."""

    def __init__(
        self,
        journal: JournalLike,
        decoder: EntryDecoder,
        accounting: ItemAccounting,
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._journal = journal
        self._decoder = decoder
        self._accounting = accounting
        self._log = log
        self._recovered = RangeSet()
        self.last_earlier_sequence = 0  # the last sequence of earlier processes
        self.in_memory: list[Container[int]] = []  # sequences of requests in memory, one container per lane

    async def read_after(self, after: int, max_bytes: int, *, slow: bool) -> list[Entry]:
        """Requests of a lane after the sequence `after` that are in no batch. Raises OSError."""
        entries = await self._journal.read(after, max_bytes, slow=slow)
        self.count_damaged()
        for entry in entries:
            self.count_recovered(entry.sequence, entry.request.signal, entry.request.accepted)
        return entries

    async def read_batch(self, batch: Batch) -> DecodeResult:
        """The requests of a batch, decoded. Waits while the disk cannot be read. Raises MemoryError, RuntimeError."""
        return await self.decode(await self._read_entries(batch))

    async def decode(self, entries: Sequence[Entry], max_bytes: float = math.inf) -> DecodeResult:
        """Decode in a thread, until the columns take `max_bytes`. Raises MemoryError, RuntimeError."""
        decoded = await self._decoder.decode(entries, max_bytes)
        for request in decoded.good:
            self._accounting.redecoded(request.items, request.decoded.accepted)
        return decoded

    def count_damaged(self) -> None:
        """Count requests that the journal has found damaged since the last call as lost."""
        for damaged in self._journal.take_damaged():
            if damaged.first == damaged.last and any(damaged.first in sequences for sequences in self.in_memory):
                continue
            signal = damaged.signal or "traces"
            self.count_recovered(damaged.first, signal, damaged.items, damaged.last)
            self._accounting.lost(signal, damaged.items, DAMAGED)

    def count_recovered(self, first: int, signal: Signal, items: int, last: int | None = None) -> None:
        """Count requests that were found and are not stored as recovered, once, if an earlier process accepted them.
        The requests of this process were counted when they were accepted.
        """
        if first <= self.last_earlier_sequence and first not in self._recovered:
            self._recovered.add(first, first if last is None else last)
            self._accounting.recovered(signal, items)

    async def _read_entries(self, batch: Batch) -> list[Entry]:
        while True:
            try:
                entries = await self._journal.read_batch(batch)
            except OSError as error:
                self._log.warning("a batch cannot be read from the journal", batch=batch.batch_id, error=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                self.count_damaged()
                return entries
