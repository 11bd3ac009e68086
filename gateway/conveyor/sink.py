"""What the journals of a process are stored through; they share it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

import structlog

from gateway.batches.availability import Availability
from gateway.batches.insert import Inserter
from gateway.conveyor.presence import Presence
from gateway.conveyor.tally import Tally
from gateway.outcomes import Metrics
from proto.otlp.codec import NamedKeys


@dataclass(frozen=True, slots=True)
class Sink:
    """ClickHouse, as one who stores sees it, and what counts and tells of it. `clock` gives nanoseconds since 1970;
    `builder` makes the blocks of light batches, which wait for none of what else `threads` have to do. `large_json` is
    held while LargeJson is decoded again: no budget has room for what that takes, and begun batches, lanes and adopted
    journals would each do it at once.
    """

    inserter: Inserter
    availability: Availability
    presence: Presence
    tally: Tally
    metrics: Metrics
    log: structlog.stdlib.BoundLogger
    threads: Executor
    clock: Callable[[], int]
    named: NamedKeys
    builder: Executor
    large_json: asyncio.Lock = field(default_factory=asyncio.Lock)
