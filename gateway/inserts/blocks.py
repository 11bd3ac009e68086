"""Blocks of a batch: one per table and day, each with its deduplication token.

BlockBuilder.build   builds them in a thread: spans and logs, error occurrences (the exceptions that the decoder found,
                     each with its fingerprint), outcomes
Inserter.insert      inserts one block once: the smallest step of storing a batch. A backup closes the `Gate` for a
                     moment, and inserts wait
"""

import asyncio
import hashlib
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Self

import structlog
from prometheus_client import Counter

from chassis.clickhouse import StoreError
from chassis.source_maps.resolver import ProjectResolver, SourceMaps
from gateway.inserts.pending_requests import PendingRequest
from gateway.inserts.store_state import InsertBreaker, InsertStore
from gateway.journal import Batch, TableDay
from gateway.metrics import Metrics, OutcomeSums
from proto.grouping.fingerprint import FINGERPRINT_VERSION, fingerprint
from proto.otlp.codec import NamedKeySet, build_blocks
from proto.otlp.native import write_block
from proto.otlp.policy import NANOS_PER_DAY, Block, DecodedPayload, RaisedException
from proto.storage.tables import ERROR_OCCURRENCES, LOGS, SPANS, TABLES


class GateBusy(Exception):
    """Callers inside the gate did not leave in time."""


class Gate:
    """Passes any number of callers (`async with gate`) while it is open. While it is closed, they wait."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()
        self._closing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        while not self._open.is_set():
            await self._open.wait()
        self._inside += 1
        self._empty.clear()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._inside -= 1
        if not self._inside:
            self._empty.set()

    @asynccontextmanager
    async def closed(self, timeout_s: float) -> AsyncIterator[None]:
        """Close the gate, wait until no caller is inside, and keep the gate closed while the block runs. Raises
        GateBusy after `timeout_s`, with the gate open again.
        """
        async with self._closing:
            self._open.clear()
            try:
                try:
                    async with asyncio.timeout(timeout_s):
                        await self._empty.wait()
                except TimeoutError as error:
                    raise GateBusy from error
                yield
            finally:
                self._open.set()


_COLUMNS: Final[Mapping[str, Sequence[str]]] = {table.name: table.column_names for table in TABLES}


def new_batch_id() -> int:
    """63 random bits: unique without coordination between gateways."""
    return secrets.randbits(63)


class InsertBlock(NamedTuple):
    """A block of a batch. Its bytes and its token never change, so that a repeated insert is the same insert.

    `parts` are the blocks that a merged block consists of. `attempt` is not empty for a reinsert, where the rows of an
    earlier insert are gone and ClickHouse still knows its token.
    """

    batch_id: int
    block: Block
    parts: "tuple[InsertBlock, ...]" = ()
    attempt: str = ""

    @property
    def token(self) -> str:
        """The deduplication token: ClickHouse ignores a second insert with the same token."""
        token = f"{self.batch_id}:{self.block.table}:{self.block.day}"
        return f"{token}:{self.attempt}" if self.attempt else token

    @property
    def table_day(self) -> tuple[str, int]:
        """Table, and day since 1970-01-01: a batch has one block of each."""
        return self.block.table, self.block.day

    @property
    def nbytes(self) -> int:
        """Size of the encoded block in bytes."""
        return sum(map(len, self.block.pieces))

    def with_new_token(self, attempt: str) -> "InsertBlock":
        """The same block under another token, which makes it another insert."""
        return self._replace(attempt=attempt)

    def without_parts(self) -> "InsertBlock":
        """The same insert, which can no longer be split into its parts."""
        return self._replace(parts=())


def merge_blocks(blocks: Sequence[InsertBlock]) -> InsertBlock:
    """Merge blocks of one table and day into one insert, of which ClickHouse makes one part. Its token is derived from
    the tokens of all blocks: if it were the token of the first block, a retry of that block alone would count as the
    merged insert.
    """
    if len(blocks) == 1:
        return blocks[0]
    pieces = [piece for insert_block in blocks for piece in insert_block.block.pieces]
    block = blocks[0].block._replace(rows=sum(insert_block.block.rows for insert_block in blocks), pieces=pieces)
    tokens = "\n".join(insert_block.token for insert_block in blocks)
    merged_id = int.from_bytes(hashlib.blake2b(tokens.encode(), digest_size=8).digest()) >> 1
    return InsertBlock(merged_id, block, tuple(blocks))


class Inserter:
    """Inserts blocks, records their metrics, and reports successes to `InsertBreaker`. Inserts wait while `gate` is
    closed.
    """

    def __init__(self, store: InsertStore, breaker: InsertBreaker, metrics: Metrics) -> None:
        self._store = store
        self._breaker = breaker
        self._metrics = metrics
        self.inserted_blocks = defaultdict[str, int](int)  # blocks, by table
        self.gate = Gate()

    async def insert(self, insert_block: InsertBlock) -> None:
        """Insert one block once. Raises StoreError, and counts it."""
        block, metrics = insert_block.block, self._metrics
        async with self.gate:
            started = time.perf_counter()
            try:
                await self._store.insert(block.table, _COLUMNS[block.table], block.pieces, token=insert_block.token)
            except StoreError as error:
                metrics.insert_failures.labels(block.table, type(error).__name__).inc()
                raise
        self.inserted_blocks[block.table] += 1
        self._breaker.succeeded(block.table)
        metrics.insert_seconds.labels(block.table).observe(time.perf_counter() - started)
        metrics.insert_rows.labels(block.table).observe(block.rows)


log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_SOURCES: Final = {"traces": "span", "logs": "log"}


def occurrence_blocks(
    decoded: Sequence[DecodedPayload],
    batch_id: int,
    source_maps: SourceMaps | None = None,
    failures: Counter | None = None,
) -> list[Block]:
    """The exceptions of a batch as blocks of `error_occurrences`, one per day of the exceptions' time, rows numbered
    within the batch. Fingerprints are computed from the stack traces as `source_maps` resolve them; `failures` counts
    fingerprints that cannot be computed.
    """
    fingerprints = SafeFingerprints(failures)
    deadline = 0.0 if source_maps is None else source_maps.deadline()
    days: dict[int, list[tuple[object, ...]]] = {}
    number = 0
    for request in decoded:
        source = _SOURCES[request.signal]
        maps = None
        if source_maps is not None and request.exceptions:
            maps = source_maps.of_project(request.project_id, deadline)
        for raised in request.exceptions:
            digest = fingerprints.compute(raised, maps)
            row = occurrence_row(request.project_id, raised, digest, source, batch_id, number)
            days.setdefault(raised.time_ns // NANOS_PER_DAY, []).append(row)
            number += 1
    return [
        Block(ERROR_OCCURRENCES.name, day, len(rows), write_block(ERROR_OCCURRENCES, rows))
        for day, rows in sorted(days.items())
    ]


class SafeFingerprints:
    """The fingerprints of the exceptions of one batch, with a substitute if computing one fails: otherwise an
    acknowledged batch would be built again for ever because of one stack trace. `failures` counts all failures; the
    first is logged.
    """

    def __init__(self, failures: Counter | None = None) -> None:
        self._failures = failures
        self._is_logged = False

    def compute(self, raised: RaisedException, maps: ProjectResolver | None) -> bytes:
        """The fingerprint of the stack trace, with frames resolved to the sources. If it cannot be computed, the
        fingerprint of type and message, and if that fails too, of the type.
        """
        try:
            trace = raised.stacktrace if maps is None else maps.resolve(raised.release, raised.stacktrace)
            return fingerprint(raised.type, raised.message, trace)
        except Exception as error:  # noqa: BLE001 (it is stored whatever is wrong with its stack trace)
            self._report(raised, error)
        try:
            return fingerprint(raised.type, raised.message, "")
        except Exception:  # noqa: BLE001 (as above, and reported there)
            return fingerprint(raised.type, "", "")

    def _report(self, raised: RaisedException, error: Exception) -> None:
        if self._failures is not None:
            self._failures.inc()
        if not self._is_logged:
            self._is_logged = True
            log.error(
                "bug: a fingerprint cannot be computed; further failures of its batch are not logged",
                trace_chars=len(raised.stacktrace),
                message_chars=len(raised.message),
                exc_info=error,
            )


def occurrence_row(
    project_id: int, raised: RaisedException, digest: bytes, source: str, batch_id: int, number: int
) -> tuple[object, ...]:
    """The row of `error_occurrences` for an exception; `digest` is its fingerprint of the current version, and `number`
    identifies it within the batch.
    """
    return (
        project_id,
        raised.time_ns,
        digest,
        raised.type,
        raised.message,
        raised.stacktrace,
        source,
        raised.trace_id,
        raised.span_id,
        raised.service_name,
        raised.environment,
        raised.release,
        batch_id,
        number,
        FINGERPRINT_VERSION,
    )


MAIN_TABLES: Final = frozenset((SPANS.name, LOGS.name))

_MAX_LIGHT_SYMBOLS: Final = 100_000  # distinct keys and names of a batch; a million take seconds


def build_insert_blocks(
    requests: Sequence[PendingRequest],
    batch_id: int,
    accepted_ms: int,
    named_keys: NamedKeySet | None = None,
    source_maps: SourceMaps | None = None,
    fingerprint_failures: Counter | None = None,
) -> list[InsertBlock]:
    """All blocks of a batch: spans and logs first, then the derived rows. The same requests in the same order give the
    same blocks, except that `named_keys` decides which attribute keys have rows of their own, and `source_maps` which
    fingerprints errors of JavaScript have. `accepted_ms` is the time of the outcomes. Takes milliseconds, or a second
    where source maps must be read, so call it in a thread.
    """
    decoded = [request.decoded for request in requests]
    sums = OutcomeSums()
    for request in requests:
        sums.add_answered(request.decoded, request.wire_bytes)
    blocks = [
        *build_blocks(decoded, batch_id, named_keys),
        *occurrence_blocks(decoded, batch_id, source_maps, fingerprint_failures),
        sums.block(batch_id, accepted_ms),
    ]
    insert_blocks = [InsertBlock(batch_id, block) for block in blocks]
    return sorted(insert_blocks, key=lambda block: block.block.table not in MAIN_TABLES)


class BlockBuilder:
    """Builds the blocks of batches in `threads`; light batches have a thread of their own, so that they do not wait for
    other work of `threads`. `source_maps` resolve stack traces for fingerprints. `failures` counts fingerprints that
    cannot be computed.
    """

    def __init__(
        self, threads: Executor, named_keys: NamedKeySet, source_maps: SourceMaps | None, failures: Counter
    ) -> None:
        self._threads = threads
        self._light_thread = ThreadPoolExecutor(1, thread_name_prefix="builder")
        self._named_keys = named_keys
        self._source_maps = source_maps
        self._failures = failures

    async def build(self, batch: Batch, requests: Sequence[PendingRequest]) -> list[InsertBlock]:
        """The blocks of a batch that are not in `batch.skip`."""
        is_light = sum(request.decoded.symbols for request in requests) < _MAX_LIGHT_SYMBOLS
        # The time of the oldest request: a batch may be built in the next month, but counts towards the quota of the
        # month in which the request was accepted.
        accepted_ms = min(request.received_ns for request in requests) // 10**6
        blocks = await asyncio.get_running_loop().run_in_executor(
            self._light_thread if is_light else self._threads,
            build_insert_blocks,
            requests,
            batch.batch_id,
            accepted_ms,
            self._named_keys,
            self._source_maps,
            self._failures,
        )
        return [insert_block for insert_block in blocks if insert_block.table_day not in batch.skip]

    def close(self) -> None:
        """Wait for blocks that are being built."""
        self._light_thread.shutdown(wait=True)


def bisect_batch(requests: Sequence[PendingRequest]) -> list[Sequence[PendingRequest]]:
    """Split a batch with a refused block: by project, or the requests of a single project into halves."""
    projects: dict[int, list[PendingRequest]] = {}
    for request in requests:
        projects.setdefault(request.decoded.project_id, []).append(request)
    if len(projects) > 1:
        return list(projects.values())
    middle = len(requests) // 2
    return [requests[:middle], requests[middle:]]


def main_table_days(requests: Sequence[PendingRequest]) -> set[TableDay]:
    """The tables and days of the spans and logs of `requests`."""
    tables = {"traces": SPANS.name, "logs": LOGS.name}
    return {(tables[request.signal], day) for request in requests for day in request.decoded.days}
