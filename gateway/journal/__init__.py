"""The journal: requests that are acknowledged, on disk until they are stored. `docs/journal.md` has its files byte by
byte, and what a crash between any two steps leaves.

    Journal      on the event loop: whether there is room (`admission`), and what waits
      Worker     its thread: all that waits is one group, and everything else is done between groups, step by step
        OpenJournal.commit    a group becomes frames (`format`), one write and one sync of the open segment (`segments`)
                              the disk did not take it: cut off, skipped, refused; the next group has a new segment
        begin, finish, split  records of the ledger (`ledger`, `entries`), and what they say taken together (`progress`)
        Shelf.read, members   back from the segments (`scanning`, `indexing`), without what is finished or in a batch
        set_aside             into quarantine; `requeue` puts it back
        Upkeep                held for a while after it is finished, then removed; quota and room on the disk
      startup    what an earlier process left, in whatever state it is (`damage`)
      claims     whose journal it is; `orphans` are nobody's

    Forgetful    the same interface over nothing, for the mode `memory`
    inspection   for people: what is in the journals, never a byte of a request

When `append` returns, the request is on disk. It is then offered by `read` until it is in a batch that is begun, and
after any crash it is in one of the two: it is gone only when its batch is finished or was set aside. What `append` has
refused is never offered, unless the disk failed twice over, which the log says.
"""

from gateway.journal.format.ranges import RangeSet
from gateway.journal.interface import (
    Batch,
    DamagedRequests,
    Entry,
    JournaledRequest,
    JournalLike,
    JournalLimits,
    JournalLocked,
    Range,
    RecoveredState,
    TableDay,
)
from gateway.journal.journal import Journal, find_orphans
from gateway.journal.metrics import JournalMetrics
from gateway.journal.null_journal import NullJournal

__all__ = [
    "Batch",
    "DamagedRequests",
    "Entry",
    "Journal",
    "JournalLike",
    "JournalLimits",
    "JournalLocked",
    "JournalMetrics",
    "JournaledRequest",
    "NullJournal",
    "Range",
    "RangeSet",
    "RecoveredState",
    "TableDay",
    "find_orphans",
]
