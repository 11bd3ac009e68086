-- The same on the contrib exporter's tables, in the SQL of its README and of the pages that are built on it (quantile() is a
-- sample there; so it is cheaper than the exact one). Lists are read in windows, newest first, as HyperDX does.

-- name: window
ProjectId = 1 AND Timestamp >= fromUnixTimestamp64Nano({from}, 'UTC') AND Timestamp < fromUnixTimestamp64Nano({to}, 'UTC')

-- name: page
SELECT SpanId, Timestamp, TraceId, ParentSpanId, SpanName, SpanKind, ServiceName, ResourceAttributes, ScopeName, ScopeVersion, SpanAttributes, Duration, StatusCode, StatusMessage
FROM otel_traces WHERE {window} AND {filter} ORDER BY Timestamp DESC, TraceId DESC, SpanId DESC LIMIT 51

-- name: attributes
SELECT arrayJoin(mapKeys(SpanAttributes)) AS k, count() AS n FROM otel_traces WHERE {window} GROUP BY k
UNION ALL
SELECT concat('resource.', arrayJoin(mapKeys(ResourceAttributes))) AS k, count() AS n FROM otel_traces WHERE {window} GROUP BY k

-- name: list common
SpanAttributes['app.flag'] = 'blue'

-- name: list rare
SpanAttributes['app.tenant'] = 'tenant-400'

-- name: list absent value
SpanAttributes['enduser.id'] = 'nobody'

-- name: list absent key
SpanAttributes['app.nothing'] = 'x'

-- name: list identifier
SpanAttributes['app.order.id'] = '{order}'

-- name: list duration
Duration > 300000000

-- name: list contains
SpanAttributes['user_agent.original'] LIKE '%Browser/117%'

-- name: list neq
SpanAttributes['app.flag'] != 'blue'

-- name: list resource
ResourceAttributes['host.name'] = 'node-7'

-- name: list second page
(Timestamp, TraceId, SpanId) < (fromUnixTimestamp64Nano({last_ns}, 'UTC'), '{last_trace}', '{last_span}')

-- name: list trace
WITH (SELECT (min(Start), max(End) + 1) FROM otel_traces_trace_id_ts WHERE ProjectId = 1 AND TraceId = '{trace}') AS t
SELECT SpanId, Timestamp, TraceId, ParentSpanId, SpanName, SpanKind, ServiceName, ResourceAttributes, ScopeName, ScopeVersion, SpanAttributes, Duration, StatusCode, StatusMessage
FROM otel_traces WHERE ProjectId = 1 AND TraceId = '{trace}' AND Timestamp >= t.1 AND Timestamp <= t.2 ORDER BY Timestamp DESC, TraceId DESC, SpanId DESC LIMIT 51

-- name: aggregate count
SELECT toStartOfInterval(Timestamp, INTERVAL {minutes} MINUTE) AS b, count() FROM otel_traces WHERE {window} GROUP BY b ORDER BY b

-- name: aggregate p95 by service
SELECT ServiceName, toStartOfInterval(Timestamp, INTERVAL {minutes} MINUTE) AS b, count(), quantile(0.95)(Duration) AS v, grouping(b) AS part
FROM otel_traces WHERE {window} GROUP BY GROUPING SETS ((ServiceName, b), (ServiceName)) ORDER BY part, v DESC, ServiceName, b

-- name: aggregate p99 by attribute
SELECT SpanAttributes['http.route'] AS g, toStartOfInterval(Timestamp, INTERVAL {minutes} MINUTE) AS b, count(), quantile(0.99)(Duration) AS v, grouping(b) AS part
FROM otel_traces WHERE {window} GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, v DESC, g, b

-- name: aggregate count_unique
SELECT toStartOfInterval(Timestamp, INTERVAL {minutes} MINUTE) AS b, count(), uniqExact(SpanAttributes['enduser.id']), grouping(b) AS part
FROM otel_traces WHERE {window} GROUP BY GROUPING SETS ((b), ()) ORDER BY part, b

-- name: aggregate avg
SELECT ServiceName, toStartOfInterval(Timestamp, INTERVAL {minutes} MINUTE) AS b, count(), avg(toFloat64OrNull(SpanAttributes['http.response.body.size'])) AS v, grouping(b) AS part
FROM otel_traces WHERE {window} GROUP BY GROUPING SETS ((ServiceName, b), (ServiceName)) ORDER BY part, v DESC, ServiceName, b

-- name: aggregate filtered
SELECT ServiceName, toStartOfInterval(Timestamp, INTERVAL {minutes} MINUTE) AS b, count() AS n, grouping(b) AS part
FROM otel_traces WHERE {window} AND SpanAttributes['app.flag'] = 'blue' GROUP BY GROUPING SETS ((ServiceName, b), (ServiceName)) ORDER BY part, n DESC, ServiceName, b

-- name: aggregate series
SELECT SpanAttributes['app.queue'] AS g, toStartOfInterval(Timestamp, INTERVAL 5 MINUTE) AS b, count() AS n, grouping(b) AS part
FROM otel_traces WHERE {window} GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, n DESC, g, b

-- name: compare
WITH identifiers AS
(
    SELECT k FROM otel_traces ARRAY JOIN mapKeys(SpanAttributes) AS k, mapValues(SpanAttributes) AS v
    WHERE {window} AND Timestamp >= fromUnixTimestamp64Nano({spike}, 'UTC') AND cityHash64(TraceId) % 20 = 0
    GROUP BY k HAVING uniqExact(TraceId) >= 50 AND uniqExact(v) > 0.9 * uniqExact(TraceId)
)
SELECT any(k), any(v), countIf(recent) AS s, count() - s AS b
FROM
(
    SELECT Timestamp >= fromUnixTimestamp64Nano({spike}, 'UTC') AS recent, k, v
    FROM otel_traces ARRAY JOIN mapKeys(SpanAttributes) AS k, mapValues(SpanAttributes) AS v
    WHERE {window} AND k NOT IN identifiers
)
GROUP BY cityHash64(k, v) HAVING s >= 5
UNION ALL
SELECT any(k), any(v), countIf(recent) AS s, count() - s AS b
FROM
(
    SELECT Timestamp >= fromUnixTimestamp64Nano({spike}, 'UTC') AS recent, concat('resource.', k) AS k, v
    FROM otel_traces ARRAY JOIN mapKeys(ResourceAttributes) AS k, mapValues(ResourceAttributes) AS v
    WHERE {window}
)
GROUP BY cityHash64(k, v) HAVING s >= 5

-- name: waterfall
WITH (SELECT (min(Start), max(End) + 1) FROM otel_traces_trace_id_ts WHERE ProjectId = 1 AND TraceId = '{trace}') AS t
SELECT SpanId, Timestamp, TraceId, ParentSpanId, SpanName, SpanKind, ServiceName, ResourceAttributes, ScopeName, ScopeVersion, SpanAttributes, Duration, StatusCode, StatusMessage
FROM otel_traces WHERE ProjectId = 1 AND TraceId = '{trace}' AND Timestamp >= t.1 AND Timestamp <= t.2 ORDER BY Timestamp LIMIT 10001

-- name: errors
SELECT a['exception.type'] AS kind, a['exception.message'] AS said, count() AS n, min(Timestamp), max(Timestamp), any(ServiceName)
FROM otel_traces ARRAY JOIN Events.Name AS what, Events.Attributes AS a
WHERE {window} AND what = 'exception' GROUP BY kind, said ORDER BY n DESC

-- name: figures by service
SELECT ServiceName AS g, toStartOfInterval(Timestamp, INTERVAL {minutes} MINUTE) AS b, count(), countIf(StatusCode = 'Error'), quantiles(0.5, 0.95, 0.99)(Duration) AS v, grouping(b) AS part
FROM otel_traces WHERE {window} GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, g, b

-- name: heatmap
SELECT intDiv(toUnixTimestamp64Nano(Timestamp) - {from}, intDiv({to} - {from} + 59, 60)) AS c, floor(log2(Duration) * 4) AS r, count(), countIf(StatusCode = 'Error')
FROM otel_traces WHERE {window} GROUP BY c, r
