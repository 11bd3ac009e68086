SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (trace_id IN (toFixedString(unhex({p5:String}), 16)))
  AND (trace_id IN (toFixedString(unhex({p5:String}), 16)))
  AND NOT (span_id IN (toFixedString(unhex({p6:String}), 8)))
  AND NOT (parent_span_id != toFixedString('', 8))
  AND (0)
  AND (startsWith(lower(hex(span_id)), {p7:String}))
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p8:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = '00000000000000000000000000000abc'
-- p6 = '00000000000000ab'
-- p7 = '00ab'
-- p8 = 51
