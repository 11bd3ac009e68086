"""Warehouse sinks: data that is exported to object stores and warehouses, each row once.

An export, for example `POST /orgs/acme/warehouse/sinks/snk_.../export`:

    WarehouseSinks.export_warehouse_sink    the sink, and who asks                                   -> 404, 409
    Exporter.export                         takes the lease of the sink: one exporter at a time
    StreamReader.read                       the next rows behind the cursor of the stream (`streams`)
    store.store_intent                      the batch is committed before anything is put
    write_parquet                           the Parquet file
    Destination.export                      a key is put once; a warehouse loads a file once (`destinations`)
    store.store_exported                    the cursor and the run, in one transaction

The 200 says what each run did. A run that failed exported what it lists, and the next one continues behind it.

    model               sinks with their configs, streams and runs as values
    store               sinks and leases; checkpoints and runs
    streams             what is exported, in which order
    destinations        the clients of object stores and warehouses
    task                exports what is due
"""
