SELECT toUnixTimestamp64Nano(time), time_source, toUnixTimestamp64Nano(observed_time), trace_id, span_id, flags, severity_number, severity_text, event_name, body, body_type, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope, dropped_attributes_count, resource_dropped_attributes_count, resource_schema_url, entity_refs, scope_dropped_attributes_count, scope_schema_url, truncations
FROM logs
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (service_name != '' AND (service_name = {p5:String}))
ORDER BY time ASC, trace_id ASC, span_id ASC, batch_id ASC, row ASC
LIMIT {p6:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'cart'
-- p6 = 21
