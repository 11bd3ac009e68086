SELECT toUnixTimestamp64Nano(time), time_source, toUnixTimestamp64Nano(observed_time), trace_id, span_id, flags, severity_number, severity_text, event_name, body, body_type, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope, dropped_attributes_count, resource_dropped_attributes_count, resource_schema_url, entity_refs, scope_dropped_attributes_count, scope_schema_url, truncations
FROM logs
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (severity_number >= {p5:Int64})
  AND (severity_number >= {p6:Int64} AND severity_number < {p7:Int64})
  AND (has({p8:Array(Int64)}, toInt64(severity_number)))
  AND NOT (severity_number != 0)
  AND (severity_text != '' AND (severity_text = {p9:String}))
  AND (body_type != 'n' AND (position(body, {p10:String}) > 0))
  AND (body_type != 'n' AND (body = {p11:String}))
  AND (body_type != 'n' AND (body_type IN ('i', 'd') AND body NOT IN ('NaN', 'Infinity', '-Infinity') AND toFloat64OrZero(body) > {p12:Float64}))
  AND NOT (body_type != 'n')
  AND (event_name != '')
  AND NOT (trace_id != toFixedString('', 16))
  AND (span_id IN (toFixedString(unhex({p13:String}), 8)))
  AND (toStartOfFiveMinutes(time) >= toDateTime({p14:UInt32}, 'UTC') AND time >= fromUnixTimestamp64Nano({p15:Int64}, 'UTC') AND toStartOfFiveMinutes(time) <= toDateTime({p16:UInt32}, 'UTC') AND time < fromUnixTimestamp64Nano({p17:Int64}, 'UTC'))
  AND (multiIf(position(attribute_types, {p19:String}) > 0, attributes[{p18:String}] = {p23:String}, position(attribute_types, {p21:String}) > 0, attributes[{p20:String}] = {p23:String}, position(resource, {p19:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p22:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p23:String}, 0))
ORDER BY time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p24:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 17
-- p6 = 1
-- p7 = 21
-- p8 = [17]
-- p9 = 'ERROR'
-- p10 = 'refused'
-- p11 = '200'
-- p12 = 3.0
-- p13 = '00000000000000ab'
-- p14 = 0
-- p15 = 0
-- p16 = 1795187700
-- p17 = 1795187940123456790
-- p18 = 'name'
-- p19 = '\x01name\x02'
-- p20 = 'resource.name'
-- p21 = '\x01resource.name\x02'
-- p22 = '(?s)\x01name\x02.([^\x01]*)'
-- p23 = 'an attribute here'
-- p24 = 51
