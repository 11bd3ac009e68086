-- The best by hand on Sluice's tables: what somebody would write who knows these tables, these keys and this data, and
-- leaves out whatever the endpoint does for other keys (an attribute that may be on the resource, a text that may be a
-- number, durations below zero). {window} is the project and the time, in the sort key's terms too.

-- name: window
project_id = 1
AND toStartOfFiveMinutes(start_time) >= toStartOfFiveMinutes(fromUnixTimestamp64Nano({from}, 'UTC'))
AND toStartOfFiveMinutes(start_time) <= toStartOfFiveMinutes(fromUnixTimestamp64Nano({to} - 1, 'UTC'))
AND start_time >= fromUnixTimestamp64Nano({from}, 'UTC') AND start_time < fromUnixTimestamp64Nano({to}, 'UTC')

-- name: page
SELECT hex(span_id), {columns} FROM spans WHERE {window} AND {filter}
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC LIMIT 51

-- name: attributes
SELECT key, sum(n) AS spans, sum(num) = spans AS numeric
FROM
(
    SELECT key, sum(spans) AS n, sum(numeric) AS num
    FROM attribute_keys
    WHERE project_id = 1 AND bucket >= toDateTime(intDiv({from} + 299999999999, 300000000000) * 300, 'UTC') AND bucket < toDateTime(intDiv({to}, 300000000000) * 300, 'UTC')
    GROUP BY key
    UNION ALL
    WITH (text -> splitByChar('\x01', trim(BOTH '\x01' FROM text))) AS listed
    SELECT key, sum(c), sum(c * number)
    FROM
    (
        SELECT
            count() AS c,
            arrayConcat(
                arrayMap(e -> (splitByChar('\x02', e)[1], splitByChar('\x02', e)[2] IN ('i', 'd')), listed(attribute_types)),
                arrayMap(e -> (concat('resource.', splitByChar('\x02', e)[1]), 0), listed(resource)),
                [('scope.name', 0), ('scope.version', 0)]) AS keys
        FROM spans
        WHERE {window} AND (start_time < fromUnixTimestamp64Nano(toInt64(intDiv({from} + 299999999999, 300000000000) * 300000000000), 'UTC')
            OR start_time >= fromUnixTimestamp64Nano(toInt64(intDiv({to}, 300000000000) * 300000000000), 'UTC'))
            AND toStartOfFiveMinutes(start_time) IN (toStartOfFiveMinutes(fromUnixTimestamp64Nano({from}, 'UTC')), toStartOfFiveMinutes(fromUnixTimestamp64Nano({to}, 'UTC')))
        GROUP BY attribute_types, resource
    )
    ARRAY JOIN keys AS each
    GROUP BY tupleElement(each, 1) AS key, tupleElement(each, 2) AS number
)
GROUP BY key ORDER BY spans DESC, key

-- name: list common
attributes['app.flag'] = 'blue'

-- name: list rare
attributes['app.tenant'] = 'tenant-400'

-- name: list absent value
attributes['enduser.id'] = 'nobody'

-- name: list absent key
position(attribute_types, '\x01app.nothing\x02') > 0 AND attributes['app.nothing'] = 'x'

-- name: list identifier
attributes['app.order.id'] = '{order}'

-- name: list duration
duration > 300000000

-- name: list contains
position(attributes['user_agent.original'], 'Browser/117') > 0

-- name: list neq
attributes['app.flag'] != 'blue'

-- name: list resource
extract(resource, '\x01host\\.name\x02.([^\x01]*)') = 'node-7'

-- name: list second page
(start_time, trace_id, span_id) < (fromUnixTimestamp64Nano({last_ns}, 'UTC'), unhex('{last_trace}'), unhex('{last_span}'))

-- name: list trace
WITH (SELECT (min(min_time), max(max_time)) FROM trace_index WHERE project_id = 1 AND trace_id = unhex('{trace}')) AS t
SELECT hex(span_id), {columns} FROM spans
WHERE project_id = 1 AND trace_id = unhex('{trace}')
    AND toStartOfFiveMinutes(start_time) >= toStartOfFiveMinutes(t.1) AND toStartOfFiveMinutes(start_time) <= toStartOfFiveMinutes(t.2)
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC LIMIT 51

-- name: aggregate count
SELECT toStartOfInterval(start_time, INTERVAL {minutes} MINUTE) AS b, count() FROM spans WHERE {window} GROUP BY b ORDER BY b

-- name: aggregate p95 by service
SELECT service_name, toStartOfInterval(start_time, INTERVAL {minutes} MINUTE) AS b, count(), quantileExact(0.949999999)(duration) AS v, grouping(b) AS part
FROM spans WHERE {window} GROUP BY GROUPING SETS ((service_name, b), (service_name)) ORDER BY part, v DESC, service_name, b

-- name: aggregate p99 by attribute
SELECT
    if(position(attribute_types, '\x01http.route\x02') > 0, attributes['http.route'], NULL) AS g,
    toStartOfInterval(start_time, INTERVAL {minutes} MINUTE) AS b, count(), quantileExact(0.989999999)(duration) AS v, grouping(b) AS part
FROM spans WHERE {window} GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, v DESC, g, b

-- name: aggregate count_unique
SELECT toStartOfInterval(start_time, INTERVAL {minutes} MINUTE) AS b, count(), uniqExact(attributes['enduser.id']), grouping(b) AS part
FROM spans WHERE {window} GROUP BY GROUPING SETS ((b), ()) ORDER BY part, b

-- name: aggregate avg
SELECT service_name, toStartOfInterval(start_time, INTERVAL {minutes} MINUTE) AS b, count(), avg(toFloat64OrNull(attributes['http.response.body.size'])) AS v, grouping(b) AS part
FROM spans WHERE {window} GROUP BY GROUPING SETS ((service_name, b), (service_name)) ORDER BY part, v DESC, service_name, b

-- name: aggregate filtered
SELECT service_name, toStartOfInterval(start_time, INTERVAL {minutes} MINUTE) AS b, count() AS n, grouping(b) AS part
FROM spans WHERE {window} AND attributes['app.flag'] = 'blue' GROUP BY GROUPING SETS ((service_name, b), (service_name)) ORDER BY part, n DESC, service_name, b

-- name: aggregate series
SELECT
    if(position(attribute_types, '\x01app.queue\x02') > 0, attributes['app.queue'], NULL) AS g,
    toStartOfInterval(start_time, INTERVAL 5 MINUTE) AS b, count() AS n, grouping(b) AS part
FROM spans WHERE {window} GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, n DESC, g, b

-- name: compare
WITH identifiers AS
(
    SELECT k FROM spans ARRAY JOIN mapKeys(attributes) AS k, mapValues(attributes) AS v
    WHERE {window} AND start_time >= fromUnixTimestamp64Nano({spike}, 'UTC') AND toStartOfFiveMinutes(start_time) >= toStartOfFiveMinutes(fromUnixTimestamp64Nano({spike}, 'UTC')) AND cityHash64(trace_id) % 20 = 0
    GROUP BY k HAVING uniqExact(trace_id) >= 50 AND uniqExact(v) > 0.9 * uniqExact(trace_id)
)
SELECT any(k), any(v), countIf(recent) AS s, count() - s AS b
FROM
(
    SELECT start_time >= fromUnixTimestamp64Nano({spike}, 'UTC') AS recent, k, v
    FROM spans ARRAY JOIN mapKeys(attributes) AS k, mapValues(attributes) AS v
    WHERE {window} AND k NOT IN identifiers
)
GROUP BY cityHash64(k, v) HAVING s >= 5
UNION ALL
SELECT f.1, f.2, sum(s), sum(b)
FROM
(
    SELECT
        countIf(start_time >= fromUnixTimestamp64Nano({spike}, 'UTC')) AS s, count() - s AS b,
        [('name', toString(name)), ('kind', toString(kind)), ('serviceName', toString(service_name)), ('environment', toString(environment)), ('release', toString(release)), ('statusCode', toString(status_code))] AS own,
        arrayMap(e -> (concat('resource.', splitByChar('\x02', e)[1]), substring(splitByChar('\x02', e)[2], 2)), splitByChar('\x01', trim(BOTH '\x01' FROM resource))) AS listed
    FROM spans WHERE {window}
    GROUP BY name, kind, service_name, environment, release, status_code, resource
)
ARRAY JOIN arrayConcat(own, listed) AS f
GROUP BY f.1, f.2 HAVING sum(s) >= 5

-- name: waterfall
WITH (SELECT (min(min_time), max(max_time)) FROM trace_index WHERE project_id = 1 AND trace_id = unhex('{trace}')) AS t
SELECT hex(span_id), {columns} FROM spans
WHERE project_id = 1 AND trace_id = unhex('{trace}')
    AND toStartOfFiveMinutes(start_time) >= toStartOfFiveMinutes(t.1) AND toStartOfFiveMinutes(start_time) <= toStartOfFiveMinutes(t.2)
ORDER BY start_time, span_id LIMIT 10001

-- name: errors
SELECT any(type), any(message), count() AS n, hex(fingerprint), min(time), max(time), sumMap(map(release, 1)), sumMap(map(environment, 1))
FROM error_occurrences
WHERE project_id = 1
    AND toStartOfFiveMinutes(time) >= toStartOfFiveMinutes(fromUnixTimestamp64Nano({from}, 'UTC')) AND toStartOfFiveMinutes(time) <= toStartOfFiveMinutes(fromUnixTimestamp64Nano({to} - 1, 'UTC'))
    AND time >= fromUnixTimestamp64Nano({from}, 'UTC') AND time < fromUnixTimestamp64Nano({to}, 'UTC')
GROUP BY fingerprint ORDER BY n DESC

-- name: figures by service
SELECT service_name AS g, toStartOfInterval(start_time, INTERVAL {minutes} MINUTE) AS b, count(), countIf(status_code = 2), quantilesExact(0.499999999, 0.949999999, 0.989999999)(duration) AS v, grouping(b) AS part
FROM spans WHERE {window} GROUP BY GROUPING SETS ((g, b), (g)) ORDER BY part, g, b

-- name: heatmap
SELECT intDiv(toUnixTimestamp64Nano(start_time) - {from}, intDiv({to} - {from} + 59, 60)) AS c, floor(log2(duration) * 4) AS r, count(), countIf(status_code = 2)
FROM spans WHERE {window} GROUP BY c, r
