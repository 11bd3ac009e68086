SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p5:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p6:Int64}, 'UTC'))
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p7:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p8:Int64}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p9:UInt32}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p10:Int64}, 'UTC'))
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p11:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p11:UInt32}, 'UTC') AND has({p12:Array(Int64)}, toUnixTimestamp64Nano(start_time)))
  AND (position(concat(replaceOne(toString(start_time), ' ', 'T'), 'Z'), {p13:String}) > 0)
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p14:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 1795186200
-- p6 = 1795186200123456789
-- p7 = 0
-- p8 = 0
-- p9 = 1795187400
-- p10 = 1795187400123456789
-- p11 = 1795186800
-- p12 = [1795186800123456789]
-- p13 = 'T15:'
-- p14 = 51
