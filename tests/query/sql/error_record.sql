SELECT toUnixTimestamp64Nano(time), trace_id, span_id, type, message, source, service_name, environment, release, batch_id, row, stacktrace
FROM error_occurrences
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p1:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p2:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND fingerprint IN (toFixedString(unhex({p4:String}), 16))
  AND batch_id = {p5:UInt64}
  AND row = {p6:UInt32}
LIMIT 1
-- p0 = 7
-- p1 = 1795188000
-- p2 = 1795188000123456789
-- p3 = 1795188000123456790
-- p4 = '000102030405060708090a0b0c0d0e0f'
-- p5 = 9223372036854775807
-- p6 = 5
