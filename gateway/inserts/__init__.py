"""From a batch of requests to rows in ClickHouse:

    BatchWriter.write        the only way from a request to its rows, in every mode
      JournalRecorder        boundaries of the batch on disk, before anything is sent
      BlockBuilder.build     one block per table and day, each with its token
      RetryingInserter       inserts a block until ClickHouse has it, and counts what an uncertain attempt has stored
      Inserter               the insert itself, with its metrics
    DeferredRetry            retries work of a batch that cannot be done now

Without a journal derived blocks are inserted after their batch:

    DerivedCoalescer         merges the derived blocks of several batches; no request waits for it
    BlockRetryQueue          inserts them, with retries in bounded memory

A batch consists of `PendingRequest`s; `JournalReader` reads them back from the journal. `InsertBreaker` knows whether
ClickHouse accepts inserts now.
"""
