SELECT pair, count()
FROM (
SELECT arrayJoin(arrayMap((key, value) -> cityHash64(key, value), mapKeys(attributes), mapValues(attributes))) AS pair
FROM spans
WHERE project_id = {p1:UInt64}
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p2:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p3:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p4:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p5:Int64}, 'UTC')
    OR toStartOfFiveMinutes(start_time) >= toDateTime({p6:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p7:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p8:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p9:Int64}, 'UTC')))
WHERE pair IN {p0:Array(UInt64)}
GROUP BY pair
-- p0 = [18446744073709551615, 1]
-- p1 = 7
-- p2 = 1795177200
-- p3 = 1795184400
-- p4 = 1795177200123456789
-- p5 = 1795184400123456789
-- p6 = 1795188000
-- p7 = 1795191600
-- p8 = 1795188000123456789
-- p9 = 1795191600123456789
