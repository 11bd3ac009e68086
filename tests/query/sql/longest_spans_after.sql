SELECT toUnixTimestamp64Nano(start_time), trace_id, span_id, batch_id, row, greatest(duration, 0)
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND trace_id = toFixedString(unhex({p5:String}), 16)
  AND duration <= {p6:Int64}
  AND (greatest(duration, 0), start_time, trace_id, span_id, batch_id, row) < ({p6:Int64}, fromUnixTimestamp64Nano({p7:Int64}, 'UTC'), toFixedString(unhex({p5:String}), 16), toFixedString(unhex({p8:String}), 8), {p9:UInt64}, {p10:UInt32})
ORDER BY greatest(duration, 0) DESC, start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p11:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = '000102030405060708090a0b0c0d0e0f'
-- p6 = 5
-- p7 = 1795188000123456788
-- p8 = '0001020304050607'
-- p9 = 18446744073709551615
-- p10 = 4294967295
-- p11 = 51
