SELECT intDiv(toUnixTimestamp64Nano(time), {p6:Int64}) AS number, count()
FROM error_occurrences
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND fingerprint IN (toFixedString(unhex({p5:String}), 16))
GROUP BY number
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = '000102030405060708090a0b0c0d0e0f'
-- p6 = 60000000000
