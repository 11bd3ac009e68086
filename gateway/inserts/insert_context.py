"""What the journals of a process are stored through; they share it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

import structlog

from gateway.inserts.clickhouse_health import Availability
from gateway.inserts.insert_block import Inserter
from gateway.inserts.item_accounting import ItemAccounting
from gateway.inserts.stored_block_checker import StoredBlockChecker
from gateway.outcomes import Metrics
from proto.otlp.codec import NamedKeySet


@dataclass(frozen=True, slots=True)
class InsertContext:
    """ClickHouse, as one who stores sees it, and what counts and tells of it. `clock` gives nanoseconds since 1970;
    `builder` makes the blocks of light batches, which wait for none of what else `threads` have to do. `large_json` is
    held while LargeJson is decoded again: no budget has room for what that takes, and begun batches, lanes and adopted
    journals would each do it at once.
    """

    inserter: Inserter
    availability: Availability
    block_checker: StoredBlockChecker
    accounting: ItemAccounting
    metrics: Metrics
    log: structlog.stdlib.BoundLogger
    threads: Executor
    clock: Callable[[], int]
    named_keys: NamedKeySet
    block_executor: Executor
    large_json_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
