SELECT count(), countIf(severity_number != 0), countIf(body_type != 'n'), countIf(trace_id != toFixedString('', 16)), countIf(body_type IN ('i', 'd') AND body NOT IN ('NaN', 'Infinity', '-Infinity')), countIf(multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0))
FROM logs
WHERE project_id = {p5:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p6:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p7:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p8:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p9:Int64}, 'UTC')
-- p0 = 'size'
-- p1 = '\x01size\x02'
-- p2 = 'resource.size'
-- p3 = '\x01resource.size\x02'
-- p4 = '(?s)\x01size\x02.([^\x01]*)'
-- p5 = 7
-- p6 = 1795184400
-- p7 = 1795188000
-- p8 = 1795184400123456789
-- p9 = 1795188000123456789
