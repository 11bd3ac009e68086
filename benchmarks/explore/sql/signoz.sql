-- The same on SigNoz's tables, in the SQL of its query builder (quantile() is a sample there too; a filter on an
-- attribute also asks whether the key is there; http.route has a column of its own). Lists are read in windows, newest first, as its querier does.

-- name: window
project_id = 1
AND ts_bucket_start >= intDiv({from}, 1000000000) - 1800 AND ts_bucket_start <= intDiv({to}, 1000000000)
AND timestamp >= fromUnixTimestamp64Nano({from}, 'UTC') AND timestamp < fromUnixTimestamp64Nano({to}, 'UTC')

-- name: page
SELECT span_id, timestamp, trace_id, parent_span_id, name, kind_string, `resource_string_service$$name`, duration_nano, status_code_string, status_message, attributes_string, attributes_number, attributes_bool, resources_string
FROM signoz_index_v3 WHERE {window} AND {filter} ORDER BY timestamp DESC, trace_id DESC, span_id DESC LIMIT 51

-- name: attributes
SELECT arrayJoin(mapKeys(attributes_string)) AS k, count() AS n FROM signoz_index_v3 WHERE {window} GROUP BY k
UNION ALL
SELECT arrayJoin(mapKeys(attributes_number)) AS k, count() AS n FROM signoz_index_v3 WHERE {window} GROUP BY k
UNION ALL
SELECT concat('resource.', arrayJoin(mapKeys(resources_string))) AS k, count() AS n FROM signoz_index_v3 WHERE {window} GROUP BY k

-- name: list common
attributes_string['app.flag'] = 'blue' AND mapContains(attributes_string, 'app.flag')

-- name: list rare
attributes_string['app.tenant'] = 'tenant-400' AND mapContains(attributes_string, 'app.tenant')

-- name: list absent value
attributes_string['enduser.id'] = 'nobody' AND mapContains(attributes_string, 'enduser.id')

-- name: list absent key
attributes_string['app.nothing'] = 'x' AND mapContains(attributes_string, 'app.nothing')

-- name: list identifier
attributes_string['app.order.id'] = '{order}' AND mapContains(attributes_string, 'app.order.id')

-- name: list duration
duration_nano > 300000000

-- name: list contains
attributes_string['user_agent.original'] LIKE '%Browser/117%' AND mapContains(attributes_string, 'user_agent.original')

-- name: list neq
attributes_string['app.flag'] != 'blue'

-- name: list resource
resource_fingerprint GLOBAL IN
(
    SELECT fingerprint FROM traces_v3_resource
    WHERE project_id = 1 AND simpleJSONExtractString(labels, 'host.name') = 'node-7' AND labels LIKE '%host.name%' AND labels LIKE '%host.name":"node-7%'
        AND seen_at_ts_bucket_start >= intDiv({from}, 1000000000) - 1800 AND seen_at_ts_bucket_start <= intDiv({to}, 1000000000)
)

-- name: list second page
(timestamp, trace_id, span_id) < (fromUnixTimestamp64Nano({last_ns}, 'UTC'), '{last_trace}', '{last_span}')

-- name: list trace
WITH (SELECT (min(start), max(end)) FROM trace_summary WHERE project_id = 1 AND trace_id = '{trace}') AS t
SELECT span_id, timestamp, trace_id, parent_span_id, name, kind_string, `resource_string_service$$name`, duration_nano, status_code_string, status_message, attributes_string, attributes_number, attributes_bool, resources_string
FROM signoz_index_v3
WHERE project_id = 1 AND trace_id = '{trace}' AND ts_bucket_start >= toUnixTimestamp(t.1) - 1800 AND ts_bucket_start <= toUnixTimestamp(t.2) AND timestamp >= t.1 AND timestamp <= t.2
ORDER BY timestamp DESC, trace_id DESC, span_id DESC LIMIT 51

-- name: aggregate count
SELECT toStartOfInterval(timestamp, INTERVAL {minutes} MINUTE) AS b, count() FROM signoz_index_v3 WHERE {window} GROUP BY b ORDER BY b

-- name: aggregate p95 by service
SELECT `resource_string_service$$name` AS g, toStartOfInterval(timestamp, INTERVAL {minutes} MINUTE) AS b, count(), quantile(0.95)(duration_nano) AS v, grouping(b) AS part
FROM signoz_index_v3 WHERE {window} GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, v DESC, g, b

-- name: aggregate p99 by attribute
SELECT `attribute_string_http$$route` AS g, toStartOfInterval(timestamp, INTERVAL {minutes} MINUTE) AS b, count(), quantile(0.99)(duration_nano) AS v, grouping(b) AS part
FROM signoz_index_v3 WHERE {window} GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, v DESC, g, b

-- name: aggregate count_unique
SELECT toStartOfInterval(timestamp, INTERVAL {minutes} MINUTE) AS b, count(), uniqExact(attributes_string['enduser.id']), grouping(b) AS part
FROM signoz_index_v3 WHERE {window} GROUP BY GROUPING SETS ((b), ()) ORDER BY part, b

-- name: aggregate avg
SELECT `resource_string_service$$name` AS g, toStartOfInterval(timestamp, INTERVAL {minutes} MINUTE) AS b, count(), avg(multiIf(mapContains(attributes_number, 'http.response.body.size'), attributes_number['http.response.body.size'], NULL)) AS v, grouping(b) AS part
FROM signoz_index_v3 WHERE {window} GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, v DESC, g, b

-- name: aggregate filtered
SELECT `resource_string_service$$name` AS g, toStartOfInterval(timestamp, INTERVAL {minutes} MINUTE) AS b, count() AS n, grouping(b) AS part
FROM signoz_index_v3 WHERE {window} AND attributes_string['app.flag'] = 'blue' AND mapContains(attributes_string, 'app.flag') GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, n DESC, g, b

-- name: aggregate series
SELECT multiIf(mapContains(attributes_string, 'app.queue'), attributes_string['app.queue'], NULL) AS g, toStartOfInterval(timestamp, INTERVAL 5 MINUTE) AS b, count() AS n, grouping(b) AS part
FROM signoz_index_v3 WHERE {window} GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, n DESC, g, b

-- name: compare
WITH identifiers AS
(
    SELECT k FROM signoz_index_v3 ARRAY JOIN mapKeys(attributes_string) AS k, mapValues(attributes_string) AS v
    WHERE {window} AND timestamp >= fromUnixTimestamp64Nano({spike}, 'UTC') AND ts_bucket_start >= intDiv({spike}, 1000000000) - 1800 AND cityHash64(trace_id) % 20 = 0
    GROUP BY k HAVING uniqExact(trace_id) >= 50 AND uniqExact(v) > 0.9 * uniqExact(trace_id)
)
SELECT any(k), any(v), countIf(recent) AS s, count() - s AS b
FROM
(
    SELECT timestamp >= fromUnixTimestamp64Nano({spike}, 'UTC') AS recent, k, v
    FROM signoz_index_v3 ARRAY JOIN mapKeys(attributes_string) AS k, mapValues(attributes_string) AS v
    WHERE {window} AND k NOT IN identifiers
)
GROUP BY cityHash64(k, v) HAVING s >= 5
UNION ALL
SELECT any(k), any(v), countIf(recent) AS s, count() - s AS b
FROM
(
    SELECT timestamp >= fromUnixTimestamp64Nano({spike}, 'UTC') AS recent, k, toString(v) AS v
    FROM signoz_index_v3 ARRAY JOIN mapKeys(attributes_number) AS k, mapValues(attributes_number) AS v
    WHERE {window}
)
GROUP BY cityHash64(k, v) HAVING s >= 5
UNION ALL
SELECT any(k), any(v), countIf(recent) AS s, count() - s AS b
FROM
(
    SELECT timestamp >= fromUnixTimestamp64Nano({spike}, 'UTC') AS recent, concat('resource.', k) AS k, v
    FROM signoz_index_v3 ARRAY JOIN mapKeys(resources_string) AS k, mapValues(resources_string) AS v
    WHERE {window}
)
GROUP BY cityHash64(k, v) HAVING s >= 5

-- name: waterfall
WITH (SELECT (min(start), max(end)) FROM trace_summary WHERE project_id = 1 AND trace_id = '{trace}') AS t
SELECT span_id, timestamp, trace_id, parent_span_id, name, kind_string, `resource_string_service$$name`, duration_nano, status_code_string, status_message, attributes_string, attributes_number, attributes_bool, resources_string
FROM signoz_index_v3
WHERE project_id = 1 AND trace_id = '{trace}' AND ts_bucket_start >= toUnixTimestamp(t.1) - 1800 AND ts_bucket_start <= toUnixTimestamp(t.2) AND timestamp >= t.1 AND timestamp <= t.2
ORDER BY timestamp LIMIT 10001

-- name: errors
SELECT any(exceptionType), any(exceptionMessage), count() AS n, groupID, min(timestamp), max(timestamp), any(serviceName)
FROM signoz_error_index_v2
WHERE project_id = 1 AND timestamp >= fromUnixTimestamp64Nano({from}, 'UTC') AND timestamp < fromUnixTimestamp64Nano({to}, 'UTC')
GROUP BY groupID ORDER BY n DESC

-- name: figures by service
SELECT `resource_string_service$$name` AS g, toStartOfInterval(timestamp, INTERVAL {minutes} MINUTE) AS b, count(), countIf(has_error), quantiles(0.5, 0.95, 0.99)(duration_nano) AS v, grouping(b) AS part
FROM signoz_index_v3 WHERE {window} GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, g, b

-- name: heatmap
SELECT intDiv(toUnixTimestamp64Nano(timestamp) - {from}, intDiv({to} - {from} + 59, 60)) AS c, floor(log2(duration_nano) * 4) AS r, count(), countIf(has_error)
FROM signoz_index_v3 WHERE {window} GROUP BY c, r
