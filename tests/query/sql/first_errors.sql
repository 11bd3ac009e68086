SELECT fingerprint, toUnixTimestamp64Nano(min(time))
FROM error_occurrences
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND fingerprint IN (toFixedString(unhex({p5:String}), 16), toFixedString(unhex({p6:String}), 16))
GROUP BY fingerprint
-- p0 = 7
-- p1 = 0
-- p2 = 4294967100
-- p3 = 0
-- p4 = 9223372036854775807
-- p5 = '000102030405060708090a0b0c0d0e0f'
-- p6 = '101112131415161718191a1b1c1d1e1f'
