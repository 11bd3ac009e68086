SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope, dropped_attributes_count, resource_dropped_attributes_count, resource_schema_url, entity_refs, scope_dropped_attributes_count, scope_schema_url, truncations, trace_state, flags, events, dropped_events_count, links, dropped_links_count
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND trace_id = toFixedString(unhex({p5:String}), 16)
  AND span_id = toFixedString(unhex({p6:String}), 8)
ORDER BY start_time, span_id, batch_id, row
LIMIT 1 BY span_id, start_time, duration, name, kind
LIMIT {p7:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = '000102030405060708090a0b0c0d0e0f'
-- p6 = '0001020304050607'
-- p7 = 20
