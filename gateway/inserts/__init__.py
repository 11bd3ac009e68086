"""From a batch of requests to rows in ClickHouse: what `gateway.inserts.batch_writer` is made of.

    Lane.add                 collects requests into a batch, projects in turn (`BatchQueue`)
    build_insert_blocks      one block per table and day, each with its token
    RetryingInserter         inserts a block until ClickHouse has it, and finds out what an uncertain attempt has stored
    Inserter                 the insert itself, with its metrics
    DeferredRetry            work of a batch that cannot be done now

Without a journal derived blocks are inserted after their batch:

    DerivedCoalescer.add     merges those of several batches, which no request waits for
    BlockRetryQueue.insert   inserts them, with retries in bounded memory

`InsertBreaker` says whether ClickHouse takes inserts now.
"""
