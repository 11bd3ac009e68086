"""The journal: acknowledged requests, kept on disk until they are stored in ClickHouse. `docs/journal.md` specifies the
files byte by byte, and what a crash between any two steps leaves.

    Journal.open         locks the directory (`lock_journal`) and loads what an earlier process left, damaged or not
                         (`open_journal`); `find_orphans` lists the journals that no process has locked
    Journal.append       on the event loop: `SpaceQuota.reserve` admits the request or raises ServiceUnavailable; then
                         the request is queued for the I/O thread
      IoThread           does all file I/O: all queued requests are one group; other work runs between groups, in steps
        JournalCore.commit            encodes the group as frames (`pack_group`): one write and one sync of the open
                                      segment (`SegmentWriter.append`). If the disk fails, the group is cut off, skipped
                                      and refused, and the next group gets a new segment
        JournalCore.begin, .finish, .split   append records (`gateway.journal.format`) to the `Ledger`; `BatchState`
                                      is the state that all records add up to
        SegmentSet.read, .read_batch read requests from the segments (`storage.scanning`); `read` leaves out requests
        that are
                                      finished or in a batch
        JournalCore.quarantine        moves the requests of a batch to quarantine; `requeue` reverses it
        Retention.tick                removes finished segments after a hold period; checks quota and disk space

    NullJournal          the same interface without storage, for the durability mode `memory`
    inspection           reports to operators what the journals contain, without any byte of a request

When `append` returns, the request is on disk. `read` returns it until it is in a begun batch, and after any crash it is
either readable or in such a batch. It leaves the journal only when its batch is finished or quarantined. `read` never
returns a request that `append` refused, unless both cutting off the request and recording the skip failed, which is
logged.
"""

from gateway.journal.interface import (
    Batch,
    DamagedRequests,
    Entry,
    JournaledRequest,
    JournalLike,
    JournalLimits,
    JournalLocked,
    NullJournal,
    Range,
    RangeSet,
    RecoveredState,
    TableDay,
)
from gateway.journal.journal import Journal, find_orphans
from gateway.journal.storage.files import JournalMetrics

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
