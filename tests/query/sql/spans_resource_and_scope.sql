SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource_attributes, resource_attribute_types, scope_name, scope_version, scope_attributes, scope_attribute_types
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (multiIf(has(attributes.keys, {p5:String}), attributes[{p5:String}] = {p6:String}, has(resource_attributes.keys, {p7:String}), resource_attributes[{p7:String}] = {p6:String}, has(attributes.keys, {p8:String}), attributes[{p8:String}] = {p6:String}, has(resource_attributes.keys, {p5:String}), resource_attributes[{p5:String}] = {p6:String}, 0))
  AND (multiIf(has(attributes.keys, {p9:String}), attributes[{p9:String}] = {p10:String}, has(scope_attributes.keys, {p11:String}), scope_attributes[{p11:String}] = {p10:String}, scope_name != '', scope_name = {p10:String}, has(attributes.keys, {p12:String}), attributes[{p12:String}] = {p10:String}, has(resource_attributes.keys, {p9:String}), resource_attributes[{p9:String}] = {p10:String}, 0))
  AND (has(attributes.keys, {p13:String}) OR has(scope_attributes.keys, {p14:String}) OR scope_version != '' OR has(attributes.keys, {p15:String}) OR has(resource_attributes.keys, {p13:String}))
  AND (multiIf(has(attributes.keys, {p16:String}), has(numbers.keys, {p16:String}) AND numbers[{p16:String}] < {p17:Float64}, has(scope_attributes.keys, {p18:String}), has(numbers.keys, {p16:String}) AND numbers[{p16:String}] < {p17:Float64}, has(attributes.keys, {p19:String}), has(numbers.keys, {p19:String}) AND numbers[{p19:String}] < {p17:Float64}, has(resource_attributes.keys, {p16:String}), has(numbers.keys, {p19:String}) AND numbers[{p19:String}] < {p17:Float64}, 0))
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p20:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'resource.host.name'
-- p6 = 'h'
-- p7 = 'host.name'
-- p8 = 'resource.resource.host.name'
-- p9 = 'scope.name'
-- p10 = 'otel'
-- p11 = 'name'
-- p12 = 'resource.scope.name'
-- p13 = 'scope.version'
-- p14 = 'version'
-- p15 = 'resource.scope.version'
-- p16 = 'scope.tier'
-- p17 = 3.0
-- p18 = 'tier'
-- p19 = 'resource.scope.tier'
-- p20 = 51
