"""Warehouse sinks: data that is exported to object stores and warehouses, each row once.

An export, for example `POST /orgs/acme/warehouse/sinks/snk_.../export`:

    handlers.WarehouseSinks                 the sink, and who asks                                   -> 404, 409
    exporter.Exporter.export                takes the lease of the sink: one exporter at a time
    streams.reading.StreamReader.read       the next rows behind the cursor of the stream
    store.store_intent                      the batch is committed before anything is put
    streams.parquet.write_parquet           the Parquet file
    sink_destination.Destination.export      a key is put once; a warehouse loads a file once
    store.store_exported                    the cursor and the run, in one transaction

The 200 says what each run did. A run that failed exported what it lists, and the next one continues behind it.

    model               sinks with their configs, streams and runs as values
    store               sinks and leases; checkpoints and runs
    streams             what is exported, in which order
    destinations        the clients of object stores and warehouses
    task                every five seconds: exports, in the same way, the sink that is due longest
"""
