SELECT grp0, grp1, groupArray((step, n, n)) AS steps
FROM (
SELECT parent_span_id AS grp0,
  greatest(duration, 0) AS grp1,
  toUInt16(intDiv(toUnixTimestamp64Nano(start_time) - {p0:Int64}, {p1:Int64})) AS step,
  count() AS n
FROM spans
WHERE project_id = {p2:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p3:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p4:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p5:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p6:Int64}, 'UTC')
  AND ((parent_span_id, toInt64(greatest(duration, 0))) IN ((toFixedString(unhex({p7:String}), 8), {p8:Int64})))
GROUP BY grp0, grp1, step)
GROUP BY grp0, grp1
-- p0 = 1795184400000000000
-- p1 = 15000000000
-- p2 = 7
-- p3 = 1795184400
-- p4 = 1795188000
-- p5 = 1795184400123456789
-- p6 = 1795188000123456789
-- p7 = '0000000000000000'
-- p8 = 5
