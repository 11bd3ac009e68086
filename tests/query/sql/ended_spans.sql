SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND toUnixTimestamp64Nano(start_time) + greatest(duration, 0) > {p5:Int64}
  AND toUnixTimestamp64Nano(start_time) + greatest(duration, 0) < {p4:Int64}
ORDER BY toUnixTimestamp64Nano(start_time) + greatest(duration, 0) DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p6:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 1795187940123456789
-- p6 = 51
