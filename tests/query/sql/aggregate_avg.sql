SELECT grp, sum(n) AS spans, intDiv(2 * sum(s) + sum(n), 2 * toInt128(sum(n))) AS figure,
  groupArray((step, n, intDiv(2 * s + n, 2 * toInt128(n)))) AS steps, count() OVER () AS groups
FROM (
SELECT release AS grp,
  toUInt16(intDiv(toUnixTimestamp64Nano(start_time) - {p0:Int64}, {p1:Int64})) AS step,
  count() AS n,
  sum(toInt128(greatest(duration, 0))) AS s
FROM spans
WHERE project_id = {p2:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p3:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p4:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p5:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p6:Int64}, 'UTC')
GROUP BY grp, step)
GROUP BY grp
ORDER BY figure DESC NULLS LAST, NOT (grp != ''), grp
LIMIT {p7:UInt64}
-- p0 = 1795184400000000000
-- p1 = 300000000000
-- p2 = 7
-- p3 = 1795184400
-- p4 = 1795188000
-- p5 = 1795184400123456789
-- p6 = 1795188000123456789
-- p7 = 10
