SELECT pair, count()
FROM (
SELECT arrayJoin([if(position(attribute_types, {p2:String}) > 0, cityHash64({p1:String}, attributes[{p1:String}]), 0),
  if(position(attribute_types, {p4:String}) > 0, cityHash64({p3:String}, attributes[{p3:String}]), 0)]) AS pair
FROM spans
WHERE project_id = {p5:UInt64}
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p6:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p7:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p8:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p9:Int64}, 'UTC')
    OR toStartOfFiveMinutes(start_time) >= toDateTime({p10:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p11:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p12:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p13:Int64}, 'UTC')))
WHERE pair IN {p0:Array(UInt64)}
GROUP BY pair
-- p0 = [1]
-- p1 = 'a'
-- p2 = '\x01a\x02'
-- p3 = "'"
-- p4 = "\x01'\x02"
-- p5 = 7
-- p6 = 1795177200
-- p7 = 1795184400
-- p8 = 1795177200123456789
-- p9 = 1795184400123456789
-- p10 = 1795188000
-- p11 = 1795191600
-- p12 = 1795188000123456789
-- p13 = 1795191600123456789
