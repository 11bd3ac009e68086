"""From a decoded request to its batch, by durability mode (`wiring.build_ingest`). `gateway.inserts` stores the batch.

In the modes `journal` and `memory` a request is answered before it is stored:

    JournaledIngest.submit   appends the request to the journal; once it is on disk it is accepted and answered
    LaneBacklog.put          keeps its columns in bounded memory, by lane; without room, it is read again later
    Lane.add                 collects them into batches, projects in turn (`BatchQueue`)
    BatchWriter.write        stores a batch: boundaries on disk, then one block per table and day until all are stored
    JournalLike.finish       allows the journal to remove the requests

In the mode `store` it is answered afterwards:

    SynchronousIngest.submit puts the request into its lane, with a deadline for its answer
    Lane, BatchWriter.write  as above, without a journal; answer the request

The modes differ in the work that they can retry:

    journal   Work that cannot be done now, for lack of memory, descriptors or disk space, or because an insert may
              still take effect, is retried later from the journal (`DeferredRetry`), so that waiting takes no memory.
    memory    Such work is retried while its batch keeps its memory and its insert slot.
    store     Requests wait for their response, with a deadline: then they are answered 503. A refused request is
              answered 500. Spans and logs of a batch that is partly stored by then are completed in the background.

Without a journal, derived rows that are missing after a crash cannot be restored, so no request waits for them: they
are inserted together with the derived rows of the next batches (`DerivedCoalescer`). Only the trace index is inserted
at once, so that a trace is found as soon as it is acknowledged.

In the mode `journal`, success promises that every accepted item is on disk, and is stored once. The process may end at
any point:

    before `begin` is on disk    the next start reads the requests again and forms other batches
    after it                     `Recovery` builds the same blocks with the same tokens. ClickHouse recognizes stored
                                 blocks by their token; where the rows of a known token are gone, they are counted
    after `finish`               nothing is left to do; `Recovery` checks whether ClickHouse kept the rows

The journals of processes that no longer run are taken over (`OrphanRecovery`). Requests that ClickHouse permanently
refuses are quarantined with the reason (`sluice journal`), never dropped.
"""
