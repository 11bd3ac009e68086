SELECT fingerprint, intDiv((toUnixTimestamp64Nano(time) - {p3:Int64}) * {p8:Int64}, {p9:Int64}) AS number, count()
FROM error_occurrences
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (environment = {p5:String})
  AND fingerprint IN (toFixedString(unhex({p6:String}), 16), toFixedString(unhex({p7:String}), 16))
GROUP BY fingerprint, number
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'prod'
-- p6 = '000102030405060708090a0b0c0d0e0f'
-- p7 = '101112131415161718191a1b1c1d1e1f'
-- p8 = 24
-- p9 = 3600000000000
