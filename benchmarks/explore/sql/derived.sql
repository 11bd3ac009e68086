-- What follows from the spans in each layout, as its writer or its views would derive it.

-- name: trace_index
INSERT INTO trace_index (project_id, trace_id, signal, day, min_time, max_time, items)
SELECT project_id, trace_id, 1, toDate(start_time) AS d, min(start_time), max(start_time), count() FROM spans GROUP BY project_id, trace_id, d

-- name: attribute_keys
INSERT INTO attribute_keys (project_id, bucket, key, spans, numeric)
WITH (text -> splitByChar('\x01', trim(BOTH '\x01' FROM text))) AS listed
SELECT project_id, bucket, tupleElement(each, 1) AS key, sum(n) AS spans, sum(n * tupleElement(each, 2)) AS numeric
FROM
(
    SELECT
        project_id,
        toStartOfFiveMinutes(start_time) AS bucket,
        arrayConcat(
            arrayMap(e -> (splitByChar('\x02', e)[1], splitByChar('\x02', e)[2] IN ('i', 'd')), listed(attribute_types)),
            arrayMap(e -> (concat('resource.', splitByChar('\x02', e)[1]), substring(splitByChar('\x02', e)[2], 1, 1) IN ('i', 'd')), listed(resource)),
            [('scope.name', false), ('scope.version', false)]) AS keys,
        count() AS n
    FROM spans
    GROUP BY project_id, bucket, attribute_types, resource
)
ARRAY JOIN keys AS each
GROUP BY project_id, bucket, key

-- name: error_occurrences
INSERT INTO error_occurrences (project_id, time, fingerprint, type, message, stacktrace, source, trace_id, span_id, service_name, environment, release, batch_id, row)
SELECT
    project_id, start_time, reinterpretAsFixedString(sipHash128(kind_of, said)), JSONExtractString(events, 1, 'attributes', 'exception.type') AS kind_of,
    JSONExtractString(events, 1, 'attributes', 'exception.message') AS said, '', 'span', trace_id, span_id, service_name, environment, release, batch_id, row
FROM spans WHERE events != ''

-- name: otel_traces_trace_id_ts
INSERT INTO otel_traces_trace_id_ts (ProjectId, TraceId, Start, End)
SELECT ProjectId, TraceId, min(Timestamp), max(Timestamp) FROM otel_traces GROUP BY ProjectId, TraceId

-- name: traces_v3_resource
INSERT INTO traces_v3_resource (project_id, labels, fingerprint, seen_at_ts_bucket_start)
SELECT DISTINCT project_id, toJSONString(resources_string), resource_fingerprint, toInt64(ts_bucket_start) FROM signoz_index_v3

-- name: trace_summary
INSERT INTO trace_summary (project_id, trace_id, start, end, num_spans)
SELECT project_id, trace_id, min(timestamp), max(timestamp), count() FROM signoz_index_v3 GROUP BY project_id, trace_id

-- name: signoz_error_index_v2
INSERT INTO signoz_error_index_v2
SELECT
    project_id, timestamp, lower(hex(sipHash128(span_id))), lower(hex(sipHash128(kind_of, said))), trace_id, span_id, `resource_string_service$$name`,
    JSONExtractString(events[1], 1, 'attributes', 'exception.type') AS kind_of, JSONExtractString(events[1], 1, 'attributes', 'exception.message') AS said,
    '', false, resources_string
FROM signoz_index_v3 WHERE notEmpty(events)
