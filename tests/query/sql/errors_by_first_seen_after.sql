SELECT toUnixTimestamp64Nano(min(time)) AS rank, fingerprint
FROM error_occurrences
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
GROUP BY fingerprint
HAVING (rank, fingerprint) < ({p5:Int64}, toFixedString(unhex({p6:String}), 16))
ORDER BY rank DESC, fingerprint DESC
LIMIT {p7:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 1795188000123456788
-- p6 = '000102030405060708090a0b0c0d0e0f'
-- p7 = 51
