"""The gateway: OTLP over HTTP and gRPC in, ClickHouse rows out.

The path of one export request, with the statuses of each step. The first three steps run before the handler
(`http.ExportHandlers._export`): `chassis.http.preparse.ConnectionAdmission` runs two of them, and `chassis.http.access`
runs the third:

    RefusalCache                 before parsing: is the client's limit used up                     -> 429
    ConcurrencyLimiter           before parsing: is a slot free                                    -> 503
    the route's access rule      the project of the key, its rate; no byte of the body is read     -> 401, 403, 400, 429
    Quota.admit                  is anything left of the organization's month (`gateway.admission.quota`)    -> 429
    Ingest.admit                 can any request be taken                                          -> 503
    MemoryBudget.reserve         is there memory for it                                            -> 503
    request_media                application/x-protobuf or application/json                        -> 415
    content_encoding             identity, gzip, deflate, zstd                                     -> 415
    read_body                    at most the wire cap, within a timeout                            -> 413, 400, 503
    ExportSteps.ingest           from here on the same for every protocol (`gateway.export`)
    Decoder.decompress           at most the body cap, even if the bytes claim less                 -> 413, 400
    Decoder.decode               columns, and accepted or rejected for every item                  -> 413, 400, 503
    Quota.reserve                do the accepted items still fit into the month                    -> 429
    Ingest.submit                by durability mode (`gateway.ingest`)
      journal                    writes the request as received to disk, with others in one sync   -> 503
      store                      inserts its rows into ClickHouse, with others in one insert       -> 503, 500, 413
      memory                     puts it into a bounded queue                                      -> 503
    OtlpResponses.success        200, with a partial success where items were rejected, or with a warning

In the modes `journal` and `memory`, storage follows the response. Each step calls the next one, from `gateway.ingest`
down to `gateway.inserts`:

    JournaledIngest              `_on_persisted`: the journal calls it when the request is on disk
    LaneBacklog.put              waits with others for a full batch or half a second, in bounded memory
      slow lane                  instead, for a request with old days or very many keys: two seconds
    Lane                         takes a batch from its `BatchQueue`, in which projects take turns
    BatchWriter.write            boundaries of the batch on disk, then one block per table and day until all are stored
      BlockBuilder.build         the blocks, in a thread
      RetryingInserter.insert    one block until ClickHouse has it, under its deduplication token
      Inserter.insert            one insert: `chassis.clickhouse.client.ClickHouse.insert`
    Journal.finish               records that the batch is stored; its segment is removed after the hold period

By default a 200 promises that every accepted item is on disk, and will be in ClickHouse exactly once. A kill, a power
cut or a lost response between the journal and the table neither loses nor duplicates an item. An item can be read about
half a second after the response (a second at p99). A 200 does not promise that an exporter sends each request only
once: a request that is answered 503, or gets no response, may have been accepted nevertheless.

A bad item is rejected alone. A request that ClickHouse permanently refuses is isolated from the other requests of its
block and quarantined alone.

Beside the path: `erasure` deletes what tombstones cover, `repair` derives rows again, and a backup takes
`ingest.snapshots`.
"""
