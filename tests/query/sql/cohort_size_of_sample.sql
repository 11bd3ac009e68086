SELECT count(), 0
FROM spans
WHERE project_id = {p0:UInt64}
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC'))
  AND cityHash64(trace_id, span_id, batch_id, row) % {p5:UInt64} = 0
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 4
