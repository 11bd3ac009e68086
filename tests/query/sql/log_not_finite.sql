SELECT arrayJoin(arrayFilter(
    (name, text) -> text IN ('NaN', 'Infinity', '-Infinity') AND position(attribute_types, concat({p6:String}, replaceAll(replaceAll(replaceAll(name, {p7:String}, {p8:String}), {p9:String}, {p10:String}), {p6:String}, {p11:String}), {p5:String})) > 0,
    mapKeys(attributes), mapValues(attributes))) AS name, count()
FROM logs
WHERE project_id = {p0:UInt64}
  AND ((toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC') AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC') AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC') AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')))
  AND position(attribute_types, {p5:String}) > 0
GROUP BY name
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = '\x02d\x01'
-- p6 = '\x01'
-- p7 = '\x03'
-- p8 = '\x03C'
-- p9 = '\x02'
-- p10 = '\x03B'
-- p11 = '\x03A'
