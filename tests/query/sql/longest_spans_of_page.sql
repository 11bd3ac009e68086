SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p2:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p1:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p6:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p7:Int64}, 'UTC')
  AND toStartOfFiveMinutes(start_time) IN (toDateTime({p1:UInt32}, 'UTC'), toDateTime({p2:UInt32}, 'UTC'))
  AND (toUnixTimestamp64Nano(start_time), batch_id, row) IN arrayZip({p3:Array(Int64)}, {p4:Array(UInt64)}, {p5:Array(UInt32)})
ORDER BY greatest(duration, 0) DESC, start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p8:UInt64}
-- p0 = 7
-- p1 = 1795188000
-- p2 = 1795184400
-- p3 = [1795188000123456788, 1795184400123456789]
-- p4 = [18446744073709551615, 3]
-- p5 = [4294967295, 4]
-- p6 = 1795184400123456789
-- p7 = 1795188000123456789
-- p8 = 2
