SELECT service_name, count() AS held, countIf(kind IN (2, 5)), countIf(kind IN (2, 5) AND status_code = 2),
  sumIf(toInt128(greatest(duration, 0)), kind IN (2, 5))
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
GROUP BY service_name
ORDER BY held DESC, service_name
LIMIT {p5:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 501
