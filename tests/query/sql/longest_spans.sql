SELECT toUnixTimestamp64Nano(start_time), trace_id, span_id, batch_id, row, greatest(duration, 0)
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (multiIf(position(attribute_types, {p6:String}) > 0, attributes[{p5:String}] = {p10:String}, position(attribute_types, {p8:String}) > 0, attributes[{p7:String}] = {p10:String}, position(resource, {p6:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p9:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p10:String}, 0))
ORDER BY greatest(duration, 0) DESC, start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p11:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'k'
-- p6 = '\x01k\x02'
-- p7 = 'resource.k'
-- p8 = '\x01resource.k\x02'
-- p9 = '(?s)\x01k\x02.([^\x01]*)'
-- p10 = 'x'
-- p11 = 51
