"""Warehouse sinks: exports data to object stores and warehouses, each row once.

An export, for example `POST /orgs/acme/warehouse/sinks/snk_.../export`, passes these functions:

    handlers.WarehouseSinks                 finds the sink and checks the caller                     -> 404, 409
    exporter.Exporter.export                takes the lease of the sink: one exporter at a time
    streams.reading.StreamReader.read       reads the next rows behind the cursor of the stream
    store.store_intent                      commits the intended batch before the batch is sent
    streams.parquet.write_parquet           writes the Parquet file
    sink_destination.Destination.export      stores the file under a new key, or loads it into a warehouse, once
    store.store_exported                    moves the cursor and records the run, in one transaction

The 200 response has the result of each run. A failed run has exported what it lists, and the next run continues behind
it.

    model               sinks with their configs, streams and runs as values
    store               sinks and leases; checkpoints and runs
    streams             the exported rows and their order
    destinations        the clients of object stores and warehouses
    task                every five seconds, exports the sink that has been due longest, in the same way
"""
