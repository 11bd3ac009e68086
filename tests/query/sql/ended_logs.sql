SELECT toUnixTimestamp64Nano(time), time_source, toUnixTimestamp64Nano(observed_time), trace_id, span_id, flags, severity_number, severity_text, event_name, body, body_type, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope, dropped_attributes_count, resource_dropped_attributes_count, resource_schema_url, entity_refs, scope_dropped_attributes_count, scope_schema_url, truncations
FROM logs
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND toUnixTimestamp64Nano(time) > {p5:Int64}
  AND toUnixTimestamp64Nano(time) < {p4:Int64}
  AND (batch_id, row) NOT IN arrayZip({p6:Array(UInt64)}, {p7:Array(UInt32)})
ORDER BY toUnixTimestamp64Nano(time) DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p8:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 1795184400123456788
-- p6 = [1]
-- p7 = [2]
-- p8 = 51
