SELECT toUnixTimestamp64Nano(min(time)) AS rank, fingerprint
FROM error_occurrences
WHERE project_id = {p3:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p4:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p5:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p6:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p7:Int64}, 'UTC')
GROUP BY fingerprint
HAVING (rank, fingerprint) < ({p0:Int64}, toFixedString(unhex({p1:String}), 16))
ORDER BY rank DESC, fingerprint DESC
LIMIT {p2:UInt64}
-- p0 = 1795188000123456788
-- p1 = '000102030405060708090a0b0c0d0e0f'
-- p2 = 51
-- p3 = 7
-- p4 = 1795184400
-- p5 = 1795188000
-- p6 = 1795184400123456789
-- p7 = 1795188000123456789
