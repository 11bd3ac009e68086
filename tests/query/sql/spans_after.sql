SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (start_time, trace_id, span_id, batch_id, row) < (fromUnixTimestamp64Nano({p5:Int64}, 'UTC'), toFixedString(unhex({p6:String}), 16), toFixedString(unhex({p7:String}), 8), {p8:UInt64}, {p9:UInt32})
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p10:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 1795188000123456788
-- p6 = '000102030405060708090a0b0c0d0e0f'
-- p7 = '0001020304050607'
-- p8 = 18446744073709551615
-- p9 = 4294967295
-- p10 = 51
