"""The query service: reads stored telemetry. The path of one request, `GET .../explore/spans?hours=3&filters=...`:

    chassis.http.web                  checks rate, credential and access before the request is parsed; the authorization
                                      context has the project                                  -> 429, 401, 404, 403
                                      refuses undeclared query parameters                                   -> 400
    search.listing.plan               query string -> ListPlan: time, filters, cursor, limit; reports all faults
                                      at once                                                               -> 400
      request                         the request as written, in either encoding of the filters
      statements                      the meaning of the request, as frozen values; every statement requires a project
    scheduler.QueryScheduler          joins an identical query in progress, or uses a recent result; otherwise
                                      acquires a slot, with fair queueing                                   -> 503
    search.listing.fetch              slices of time, newest first, until the page is full, in rows or in bytes
      sql.emit                        the only module that turns a statement into SQL; all values are bound
      read_store.ReadStore.rows       one read under limits of time, memory, rows and bytes                 -> 503, 400
    search.serializers                rows -> JSON, values exactly as they were sent
    send_buffer.SendBuffer            reserves memory for the response while it is sent, then the slot is released
                                                                                                            -> 503
    200

Keys and aggregates (`analysis`, `logs`), errors (`error_groups`) and traces (`trace`) take the same path;
`trace.waterfall` lays spans out as a tree, in a worker thread.

The service only reads. A 200 has the rows that were stored when the query ran: every matching row once, even if rows at
the edge of a page have equal times. Rows that are stored later are not waited for, even if their times are older.
"""
