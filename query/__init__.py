"""The query service: reads telemetry back. The path of one request, `GET .../explore/spans?hours=3&filters=...`:

    chassis.http.web            429 / 401 / 404 / 403 before the request itself is looked at; the reach names the
    project lists.listing.plan     query string -> Plan: time, filters, cursor, limit; every fault of it at once
    -> 400
      asking                 what was written, in either encoding of the filters
      tree                   what is meant, as frozen values; a statement cannot be made without its project
    answers.Answers        the answer that another is about to have, or had seconds ago; else a place, in turns -> 503
    lists.listing.fetch    slices of time, newest first, until the page is full, in rows or in bytes
      sql.emit               the one place that turns a statement into SQL, all values bound
      store.Store.rows       one read under limits of time, memory, rows and bytes                           -> 503, 400
    lists.records          rows -> JSON, values exactly as they were sent
    sending.Sending        room among the answers that are being sent, for which the place is given back        -> 503
    200

Keys and figures (`analysis`), errors (`errors`) and traces (`trace`) take the same road; `trace.waterfall` lays
spans out as a tree, in a thread of its own.

The service only reads. A 200 shows what was stored when the query ran: every stored row that matches once, whatever
the ties at page edges. Rows that arrive later with an older time are not waited for.
"""
