SELECT caller, callee, count() AS calls, countIf(failed), sum(length)
FROM (
SELECT trace_id, parent_span_id, service_name AS callee, status_code = 2 AS failed, toInt128(greatest(duration, 0)) AS length
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND kind IN (2, 5)) AS called
INNER JOIN (
SELECT trace_id, span_id, argMin(service_name, (start_time, batch_id, row)) AS caller
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND kind IN (3, 4)
GROUP BY trace_id, span_id) AS calling
ON called.trace_id = calling.trace_id AND called.parent_span_id = calling.span_id
GROUP BY caller, callee
ORDER BY calls DESC, caller, callee
LIMIT {p5:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 1001
