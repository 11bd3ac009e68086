SELECT count(), countIf(status_message != ''), countIf(parent_span_id != toFixedString('', 8)), countIf((position(attribute_types, {p1:String}) > 0 OR position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0)), countIf(multiIf(position(attribute_types, {p6:String}) > 0, (position(attribute_types, concat({p6:String}, 'i')) > 0 OR (position(attribute_types, concat({p6:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p5:String}])))), position(attribute_types, {p8:String}) > 0, (position(attribute_types, concat({p8:String}, 'i')) > 0 OR (position(attribute_types, concat({p8:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p7:String}])))), position(resource, {p6:String}) > 0, (position(resource, concat({p6:String}, 'i')) > 0 OR (position(resource, concat({p6:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p9:String}))))), 0))
FROM spans
WHERE project_id = {p10:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p11:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p12:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p13:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p14:Int64}, 'UTC')
-- p1 = '\x01host\x02'
-- p3 = '\x01resource.host\x02'
-- p5 = 'size'
-- p6 = '\x01size\x02'
-- p7 = 'resource.size'
-- p8 = '\x01resource.size\x02'
-- p9 = '(?s)\x01size\x02.([^\x01]*)'
-- p10 = 7
-- p11 = 1795184400
-- p12 = 1795188000
-- p13 = 1795184400123456789
-- p14 = 1795188000123456789
