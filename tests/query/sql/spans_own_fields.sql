SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (name = {p5:String})
  AND (['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'][kind + 1] = {p6:String})
  AND NOT (service_name != '' AND (service_name = {p7:String}))
  AND NOT (release != '')
  AND (has({p8:Array(String)}, environment))
  AND NOT (has({p9:Array(String)}, ['UNSET', 'OK', 'ERROR'][status_code + 1]))
  AND (status_message != '' AND (position(status_message, {p10:String}) > 0))
  AND (startsWith(name, {p11:String}))
  AND (endsWith(name, {p12:String}))
  AND (match(name, {p13:String}))
  AND (0)
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p14:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'GET /'
-- p6 = 'SERVER'
-- p7 = 'cart'
-- p8 = ['prod', 'staging']
-- p9 = ['OK', 'UNSET']
-- p10 = 'refused'
-- p11 = 'GET'
-- p12 = '/'
-- p13 = '^GET'
-- p14 = 51
