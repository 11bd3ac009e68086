SELECT toUnixTimestamp64Nano(max(time)) AS rank, fingerprint
FROM error_occurrences
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (environment = {p5:String})
GROUP BY fingerprint
HAVING (rank, fingerprint) < ({p6:Int64}, toFixedString(unhex({p7:String}), 16))
ORDER BY rank DESC, fingerprint DESC
LIMIT {p8:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'prod'
-- p6 = 1795188000123456788
-- p7 = '000102030405060708090a0b0c0d0e0f'
-- p8 = 51
