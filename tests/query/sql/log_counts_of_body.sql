SELECT grp, n, n AS figure, count() OVER () AS groups
FROM (
SELECT if(body_type != 'n', body, NULL) AS grp,
  count() AS n
FROM logs
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
GROUP BY grp)
ORDER BY figure DESC NULLS LAST, grp ASC NULLS LAST
LIMIT {p5:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 10
