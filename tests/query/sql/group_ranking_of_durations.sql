SELECT grp, n, intDiv(2 * s + n, 2 * toInt128(n)) AS figure, count() OVER () AS groups
FROM (
SELECT kind AS grp,
  count() AS n,
  sum(toInt128(greatest(duration, 0))) AS s
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
GROUP BY grp)
ORDER BY figure DESC NULLS LAST, ['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'][grp + 1]
LIMIT {p5:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 10
