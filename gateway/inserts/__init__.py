"""From decoded requests to rows in ClickHouse. One request in the mode `store`:

    LaneRouter.store         chooses the lane, by the age of its items and the number of its keys
    Lane.add                 collects requests into a batch, projects in turn (`FairQueue`)
    SyncBatchWriter.write    builds the blocks (`build_insert_blocks`) and inserts spans and logs
    DerivedCoalescer.add     merges the derived blocks of several batches, which no request waits for
    BlockRetryQueue.insert   inserts them; retries blocks of acknowledged requests

In the other modes `gateway.ingest` uses `Lane`, `RetryingInserter` and `DeferredRetry` instead. `Inserter` sends every
block, and `Availability` says whether ClickHouse takes inserts now.
"""
