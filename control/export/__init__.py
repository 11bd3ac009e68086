"""Warehouse sinks: data that leaves, each row once (specification 2.5 and 4.6).

An export, for example `POST /orgs/acme/warehouse/sinks/snk_.../export`:

    WarehouseSinks.export      the sink, and who asks                                                -> 404, 409
    Exporter.export            takes the lease of the sink: one exporter at a time
    StreamReader.read          the next rows behind the cursor of the stream
    store_intent               the batch is committed before anything is put
    parquet.write              the file
    Destination.export         a key is put once; a warehouse loads a file once
    store_exported             the cursor and the run, in one transaction

    config, model              sinks as values
    streams                    what is exported, in which order
    stores, loading            where it goes
    scheduler                  exports what is due
"""
