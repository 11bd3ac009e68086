"""The dependencies of storing, shared by all batch writers of a process."""

import asyncio
from collections.abc import Callable, Container
from concurrent.futures import Executor
from dataclasses import dataclass, field

import structlog

from chassis.source_maps.resolver import SourceMaps
from gateway.inserts.derived import BlockRetryQueue, DerivedCoalescer
from gateway.inserts.insert_block import Gate, Inserter
from gateway.inserts.store_state import InsertBreaker, StoredBlockChecker
from gateway.metrics import ItemAccounting, Metrics
from proto.otlp.codec import NamedKeySet


@dataclass(frozen=True, slots=True)
class InsertContext:
    """Access to ClickHouse, with its accounting, metrics and log. `clock` gives nanoseconds since 1970.
    `retry_queue` and `coalescer` take derived blocks that no journal can restore.
    `block_executor` builds the blocks of light batches, which so do not wait for other work of `threads`.
    `source_maps` resolve stack traces for fingerprints.
    `batch_gate` is closed for a backup, in the modes without a journal: new batches wait.
    `large_json_lock` is held while a LargeJsonBody is decoded again: no memory budget covers it, and unfinished
    batches, lanes and orphaned journals would each decode one at the same time.
    """

    inserter: Inserter
    breaker: InsertBreaker
    block_checker: StoredBlockChecker
    retry_queue: BlockRetryQueue
    coalescer: DerivedCoalescer
    accounting: ItemAccounting
    metrics: Metrics
    log: structlog.stdlib.BoundLogger
    threads: Executor
    clock: Callable[[], int]
    named_keys: NamedKeySet
    block_executor: Executor
    deleted_projects: Container[int] = frozenset()
    source_maps: SourceMaps | None = None
    batch_gate: Gate = field(default_factory=Gate)
    large_json_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
