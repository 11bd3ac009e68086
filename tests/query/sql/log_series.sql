SELECT grp, groupArray((step, n, n)) AS steps
FROM (
SELECT severity_number AS grp,
  toUInt16(intDiv(toUnixTimestamp64Nano(time) - {p0:Int64}, {p1:Int64})) AS step,
  count() AS n
FROM logs
WHERE project_id = {p2:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p3:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p4:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p5:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p6:Int64}, 'UTC')
  AND (has({p7:Array(Int64)}, toInt64(severity_number)))
GROUP BY grp, step)
GROUP BY grp
-- p0 = 1795184400000000000
-- p1 = 300000000000
-- p2 = 7
-- p3 = 1795184400
-- p4 = 1795188000
-- p5 = 1795184400123456789
-- p6 = 1795188000123456789
-- p7 = [9, 17]
