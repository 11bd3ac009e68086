SELECT toInt64(count()) AS rank, fingerprint
FROM error_occurrences
WHERE project_id = {p1:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p2:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p3:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p5:Int64}, 'UTC')
GROUP BY fingerprint
ORDER BY rank DESC, fingerprint DESC
LIMIT {p0:UInt64}
-- p0 = 51
-- p1 = 7
-- p2 = 1795184400
-- p3 = 1795188000
-- p4 = 1795184400123456789
-- p5 = 1795188000123456789
