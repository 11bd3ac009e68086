SELECT fingerprint, type, message, batch_id, row
FROM error_occurrences
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (environment = {p5:String})
  AND toStartOfFiveMinutes(time) IN (toDateTime({p1:UInt32}, 'UTC'), toDateTime({p2:UInt32}, 'UTC'))
  AND (fingerprint, time) IN ((toFixedString(unhex({p6:String}), 16), fromUnixTimestamp64Nano({p3:Int64}, 'UTC')), (toFixedString(unhex({p7:String}), 16), fromUnixTimestamp64Nano({p8:Int64}, 'UTC')), (toFixedString(unhex({p9:String}), 16), fromUnixTimestamp64Nano({p10:Int64}, 'UTC')))
ORDER BY fingerprint, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT 1 BY fingerprint
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'prod'
-- p6 = '000102030405060708090a0b0c0d0e0f'
-- p7 = '101112131415161718191a1b1c1d1e1f'
-- p8 = 1795188000123456787
-- p9 = '202122232425262728292a2b2c2d2e2f'
-- p10 = 1795188000123456788
