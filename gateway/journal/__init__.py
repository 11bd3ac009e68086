"""The journal: requests that are acknowledged, on disk until they are stored.

Journal      the real one (`gateway.journal.journal`)
Forgetful    the same interface over nothing, for the mode `memory`
"""

from gateway.journal.forgetful import Forgetful
from gateway.journal.journal import Journal, orphans
from gateway.journal.metrics import JournalMetrics
from gateway.journal.records import (
    Batch,
    Entry,
    JournalLimits,
    JournalTaken,
    Log,
    Place,
    Range,
    Recovered,
    Request,
)

__all__ = [
    "Batch",
    "Entry",
    "Forgetful",
    "Journal",
    "JournalLimits",
    "JournalMetrics",
    "JournalTaken",
    "Log",
    "Place",
    "Range",
    "Recovered",
    "Request",
    "orphans",
]
