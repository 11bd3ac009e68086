"""From a batch of requests to rows in ClickHouse:

    BatchWriter.write        the only way from a request to its rows, in every mode
      JournalRecorder        boundaries of the batch on disk, before anything is sent
      BlockBuilder.build     one block per table and day, each with its token
      RetryingInserter       inserts a block until ClickHouse has it, and finds out what an uncertain attempt has stored
      Inserter               the insert itself, with its metrics
    DeferredRetry            work of a batch that cannot be done now

Without a journal derived blocks are inserted after their batch:

    DerivedCoalescer         merges those of several batches, which no request waits for
    BlockRetryQueue          inserts them, with retries in bounded memory

`PendingRequest` is what a batch consists of; `JournalReader` reads it back from the journal. `InsertBreaker` says
whether ClickHouse takes inserts now.
"""
