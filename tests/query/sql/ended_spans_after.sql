SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope, (position(attribute_types, {p11:String}) > 0)
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND toUnixTimestamp64Nano(start_time) + greatest(duration, 0) > {p5:Int64}
  AND toUnixTimestamp64Nano(start_time) + greatest(duration, 0) < {p4:Int64}
  AND (batch_id, row) NOT IN arrayZip({p6:Array(UInt64)}, {p7:Array(UInt32)})
  AND ((multiIf(position(attribute_types, {p9:String}) > 0, attributes[{p8:String}] = {p13:String}, position(resource, {p9:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p12:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p13:String}, 0)) OR position(attribute_types, {p11:String}) > 0)
ORDER BY toUnixTimestamp64Nano(start_time) + greatest(duration, 0) DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p14:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 1795187940123456789
-- p6 = [18446744073709551615, 5]
-- p7 = [0, 4294967295]
-- p8 = 'http.route'
-- p9 = '\x01http.route\x02'
-- p11 = '\x01resource.http.route\x02'
-- p12 = '(?s)\x01http\\.route\x02.([^\x01]*)'
-- p13 = '/x'
-- p14 = 51
