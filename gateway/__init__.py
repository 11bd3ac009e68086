"""The gateway: OTLP over HTTP in, ClickHouse rows out.

The way of one export request (`handlers.Exporter._export`):

    the route's access rule      the project of the key, before a byte of the body is read         -> 401, 403, 400
    Availability, Budget.lease   is ClickHouse there, is there memory for it                       -> 503
    request_media                application/x-protobuf or application/json                        -> 415
    content_encoding             identity, gzip, deflate, zstd                                     -> 415
    read_body                    at most the wire cap, within a time                               -> 413, 400, 503
    inflate                      at most the body cap, whatever the bytes claim                    -> 413, 400
    decode_json, decode          columns, and accepted or rejected for every item                  -> 413, 400
    Batcher.store                waits with others for a full batch or a fifth of a second
      slow lane                  instead, for a request with old days: two seconds                  -> 503
      Writer.write               one block per table and day; spans and logs first                 -> 503, 500
    Answers.success              200, with a partial success where items were rejected

What a 200 promises: every accepted item is a row of a ClickHouse insert that was acknowledged (on the embedded engine
after fsync), and its trace can be looked up. What else is derived from the items (attribute keys, error occurrences,
outcomes) follows within two seconds, with that of other batches (`Gatherer`);
while ClickHouse is away it waits in bounded memory, and what is given up is logged as an error with its rows.
What it does not promise: exactly once. A request that is answered 503, or not at all, may be stored all the same, and
its sender will send it again; between the gateway and the table a repeated insert is told by its token and stored once.

One bad item is rejected alone. One bad request is refused alone: when ClickHouse refuses a block that several requests
share, the batch is written again in parts (`Writer`).
"""
