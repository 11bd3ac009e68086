"""Infrastructure that every service shares. A request passes these functions, in this order:

    http.serve.bind, listening                   the bound port; `Acceptor` accepts connections in batches
    http.connections.registry.ConnectionContext  `admit`: connection limit, total and per address    503, closed
    http.connections.receiver.RequestReader      one head at a time, of limited size, with a timeout 400, closed
    http.preparse.ConnectionAdmission            `check`: the pre-parse filter of the route          429, 503
    http.web.build_app                           request id, access log and metrics, error shape     500
    http.not_found.add_catch_all                 paths and methods without a route                   404, 405
    http.access.with_access_check                access rule and rate limits of the route            401, 429, 404, 403
      auth.guards.AuthGuards                     tokens, sessions, memberships and keys, cached      503
    http.body.read_body                          a body of limited size, within a time limit         413, 503, 400
    http.validation, http.cursor                 typed bodies, query parameters, page cursors        400
    the handler                                  uses the two stores, `db` and `clickhouse`

The response returns through `http.connections.connection.HttpConnection`, which limits how slowly a client may read it.

`runtime.settings` are read once at start, `runtime.telemetry` has logs and metrics, `runtime.health` reports readiness.
`errors` defines the errors that a request can raise. `limits.rate_limits` counts requests, and its `TrustedProxies`
finds the address of the client. `redis` shares counts between processes. `http.cors` permits browser pages of other
origins to read responses. `http.route` declares a route, `http.declaration` derives a route from a handler's signature,
`http.openapi` builds the document of all routes, and `http.api_docs` renders the document as a page. `db.migrations`
and `clickhouse.migrations` migrate the stores to the schema of this release. `erasures` has the deletions that control
writes and gateways execute.
"""
