"""What every service stands on. A request meets these modules in this order.

    serve, connections   a bound port; deadlines for the head and the answer, a cap on connections   -> closed, 503
    web                  request id, access log and metrics, errors in one shape                     -> 404, 405, 500
    access               the route's rule: public, bearer token, project key                         -> 401, 404, 403
    identity             what the checks know: tokens, memberships, keys, with their caches
    body                 a body within a size and a time                                             -> 413, 503, 400
    validation, cursor   queries and bodies of the APIs, page cursors                                -> 400
    relational, clickhouse   the two stores, by URL; migrations and schema bring them to this release

`settings` are read once at start, `telemetry` is logs and metrics, `health` is whether we can work, `errors` says whose
fault a refusal is, `peers` who is at the other end, `cors` which browser pages may read the answer. `route` and
`operation` are what a service says of a path, `openapi` is the document of all of them, `reference` shows it.
"""
