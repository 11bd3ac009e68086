SELECT count(), max((position(attribute_types, {p11:String}) > 0 OR position(resource, {p9:String}) > 0))
FROM spans
WHERE project_id = {p0:UInt64}
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC'))
  AND (NOT (toStartOfFiveMinutes(start_time) >= toDateTime({p5:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p6:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC') AND (['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'][kind + 1] = {p7:String}) AND ((position(attribute_types, {p9:String}) > 0 AND (attributes[{p8:String}] = {p13:String})) OR position(attribute_types, {p11:String}) > 0 OR position(resource, {p9:String}) > 0)) OR (position(attribute_types, {p11:String}) > 0 OR position(resource, {p9:String}) > 0))
-- p0 = 7
-- p1 = 1795177200
-- p2 = 1795188000
-- p3 = 1795177200123456789
-- p4 = 1795188000123456789
-- p5 = 1795184400
-- p6 = 1795184400123456789
-- p7 = 'SERVER'
-- p8 = 'k'
-- p9 = '\x01k\x02'
-- p11 = '\x01resource.k\x02'
-- p13 = 'x'
