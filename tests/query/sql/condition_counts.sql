SELECT countIf((multiIf(position(attribute_types, {p1:String}) > 0, attributes[{p0:String}] = {p5:String} OR (attributes[{p0:String}] = {p6:String} AND (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}]))))), position(attribute_types, {p3:String}) > 0, attributes[{p2:String}] = {p5:String} OR (attributes[{p2:String}] = {p6:String} AND (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}]))))), position(resource, {p1:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p4:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p5:String} OR (replaceAll(replaceAll(replaceAll(extract(resource, {p4:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p6:String} AND (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String})))))), 0))), countIf((multiIf(position(attribute_types, {p8:String}) > 0, attributes[{p7:String}] = {p12:String}, position(attribute_types, {p10:String}) > 0, attributes[{p9:String}] = {p12:String}, position(resource, {p8:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p11:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p12:String}, 0)))
FROM spans
WHERE project_id = {p13:UInt64}
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p14:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p15:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p16:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p17:Int64}, 'UTC')
    OR toStartOfFiveMinutes(start_time) >= toDateTime({p18:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p19:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p20:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p21:Int64}, 'UTC'))
-- p0 = 'retries'
-- p1 = '\x01retries\x02'
-- p2 = 'resource.retries'
-- p3 = '\x01resource.retries\x02'
-- p4 = '(?s)\x01retries\x02.([^\x01]*)'
-- p5 = '0'
-- p6 = '-0'
-- p7 = 'k'
-- p8 = '\x01k\x02'
-- p9 = 'resource.k'
-- p10 = '\x01resource.k\x02'
-- p11 = '(?s)\x01k\x02.([^\x01]*)'
-- p12 = 'x'
-- p13 = 7
-- p14 = 1795177200
-- p15 = 1795184400
-- p16 = 1795177200123456789
-- p17 = 1795184400123456789
-- p18 = 1795188000
-- p19 = 1795191600
-- p20 = 1795188000123456789
-- p21 = 1795191600123456789
