"""The gateway: OTLP over HTTP in, ClickHouse rows out.

The way of one export request (`handlers.Exporter._export`):

    Turnstile, Shedding          before it is parsed: is its sender's limit used up, is there a place  -> 429, 503
    the route's access rule      the project of the key, its rate; no byte of the body is read     -> 401, 403, 400, 429
    Quota.admit                  is anything left of the organization's month (`gateway.admission.quota`)    -> 429
    Intake.admit, Budget.lease   can anything be taken, is there memory for it                     -> 503
    request_media                application/x-protobuf or application/json                        -> 415
    content_encoding             identity, gzip, deflate, zstd                                     -> 415
    read_body                    at most the wire cap, within a time                               -> 413, 400, 503
    Decoder.inflated             at most the body cap, whatever the bytes claim                    -> 413, 400
    Decoder.decoded              columns, and accepted or rejected for every item                  -> 413, 400, 503
    Quota.charge                 do the accepted ones still fit into the month                     -> 429
    Intake.take                  by the mode of durability (`gateway.ingest.interface`)
      journal                    the request as it came goes to disk, with others in one sync       -> 503
      store                      a row in ClickHouse, with those of others in one insert            -> 503, 500
      memory                     a bounded queue                                                   -> 503
    Answers.success              200, with a partial success where items were rejected

and, in the modes `journal` and `memory`, what follows its answer (`gateway.ingest`):

    Belt                         waits with others for a full batch or half a second, in bounded memory
      slow lane                  instead, for a request with old days or very many keys: two seconds
    Writer.write                 boundaries of the batch on disk, then one block per table and day until it is in
    Journal                      forgets the request, when its hold period is over

What a 200 promises by default: every accepted item is on disk, and will be in ClickHouse once: neither lost nor doubled
by anything between the journal and the table, be it a kill, a power cut or an answer that never came. It can be read
about a second later. What it does not promise: that a request is not sent twice by its sender. One that is answered
503, or not at all, may have been taken all the same.

One bad item is rejected alone. One request that ClickHouse refuses for good is found among those that share its block,
and set aside alone.
"""
