SELECT toUnixTimestamp64Nano(time), trace_id, span_id, type, message, source, service_name, environment, release, batch_id, row
FROM error_occurrences
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (time, trace_id, span_id, batch_id, row) < (fromUnixTimestamp64Nano({p5:Int64}, 'UTC'), toFixedString(unhex({p6:String}), 16), toFixedString(unhex({p7:String}), 8), {p8:UInt64}, {p9:UInt32})
  AND (fingerprint IN (toFixedString(unhex({p10:String}), 16)))
  AND (type != '' AND (has({p11:Array(String)}, type)))
  AND (message != '' AND (position(message, {p12:String}) > 0))
  AND NOT (message != '')
  AND (source = {p13:String})
  AND NOT (service_name != '' AND (service_name = {p14:String}))
  AND NOT (release != '')
  AND (toStartOfFiveMinutes(time) >= toDateTime({p15:UInt32}, 'UTC') AND time >= fromUnixTimestamp64Nano({p16:Int64}, 'UTC'))
  AND (trace_id != toFixedString('', 16))
  AND (span_id IN (toFixedString(unhex({p17:String}), 8)))
ORDER BY time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p18:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 1795188000123456788
-- p6 = '202122232425262728292a2b2c2d2e2f'
-- p7 = '0000000000000000'
-- p8 = 9223372036854775807
-- p9 = 5
-- p10 = '000102030405060708090a0b0c0d0e0f'
-- p11 = ['ValueError', 'KeyError']
-- p12 = 'refused'
-- p13 = 'span'
-- p14 = 'cart'
-- p15 = 1795186200
-- p16 = 1795186200123456789
-- p17 = '00000000000000ab'
-- p18 = 51
