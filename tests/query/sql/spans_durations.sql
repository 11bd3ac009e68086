SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (duration >= {p5:Int64})
  AND (duration >= {p6:Int64})
  AND (duration < {p7:Int64})
  AND (duration < {p8:Int64})
  AND (1)
  AND (0)
  AND (1)
  AND (has({p9:Array(Int64)}, toInt64(greatest(duration, 0))))
  AND NOT (0)
  AND (1)
  AND (startsWith(concat(toString(intDiv(greatest(duration, 0), 1000000)), '.', leftPad(toString(greatest(duration, 0) % 1000000), 6, '0')), {p10:String}))
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p11:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 100000001
-- p6 = 500000
-- p7 = 1000000000
-- p8 = 2
-- p9 = [12345678]
-- p10 = '12.'
-- p11 = 51
