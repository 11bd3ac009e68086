SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope, (position(attribute_types, {p8:String}) > 0 OR position(resource, {p6:String}) > 0 OR position(attribute_types, {p15:String}) > 0 OR position(resource, {p13:String}) > 0)
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND ((NOT (position(attribute_types, {p6:String}) > 0 AND (attributes[{p5:String}] = {p10:String})) OR position(attribute_types, {p8:String}) > 0 OR position(resource, {p6:String}) > 0) OR (duration >= {p11:Int64}) OR ((position(attribute_types, {p13:String}) > 0) OR position(attribute_types, {p15:String}) > 0 OR position(resource, {p13:String}) > 0))
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p17:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'k'
-- p6 = '\x01k\x02'
-- p8 = '\x01resource.k\x02'
-- p10 = 'x'
-- p11 = 1000001
-- p13 = '\x01l\x02'
-- p15 = '\x01resource.l\x02'
-- p17 = 51
