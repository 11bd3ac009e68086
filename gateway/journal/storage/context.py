"""The dependencies of a journal, passed to its parts."""

from collections.abc import Callable
from typing import NamedTuple

import structlog

from gateway.journal.interface import JournalLimits
from gateway.journal.metrics import JournalMetrics
from gateway.journal.storage.files import Files


class JournalContext(NamedTuple):
    """Dependencies of a journal. `clock` returns nanoseconds since 1970, `monotonic` seconds."""

    files: Files
    limits: JournalLimits
    metrics: JournalMetrics
    log: structlog.stdlib.BoundLogger
    clock: Callable[[], int]
    monotonic: Callable[[], float]
