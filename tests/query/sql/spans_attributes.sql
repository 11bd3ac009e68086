SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource_attributes, resource_attribute_types, scope_name, scope_version, scope_attributes, scope_attribute_types
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (multiIf(has(attributes.keys, {p5:String}), attributes[{p5:String}] = {p6:String}, has(attributes.keys, {p7:String}), attributes[{p7:String}] = {p6:String}, has(resource_attributes.keys, {p5:String}), resource_attributes[{p5:String}] = {p6:String}, 0))
  AND NOT (multiIf(has(attributes.keys, {p5:String}), attributes[{p5:String}] = {p6:String}, has(attributes.keys, {p7:String}), attributes[{p7:String}] = {p6:String}, has(resource_attributes.keys, {p5:String}), resource_attributes[{p5:String}] = {p6:String}, 0))
  AND (multiIf(has(attributes.keys, {p8:String}), attributes[{p8:String}] = {p9:String}, has(attributes.keys, {p10:String}), attributes[{p10:String}] = {p9:String}, has(resource_attributes.keys, {p8:String}), resource_attributes[{p8:String}] = {p9:String}, 0))
  AND (multiIf(has(attributes.keys, {p8:String}), has(numbers.keys, {p8:String}) AND numbers[{p8:String}] >= {p11:Float64}, has(attributes.keys, {p10:String}), has(numbers.keys, {p10:String}) AND numbers[{p10:String}] >= {p11:Float64}, has(resource_attributes.keys, {p8:String}), has(numbers.keys, {p10:String}) AND numbers[{p10:String}] >= {p11:Float64}, 0))
  AND (multiIf(has(attributes.keys, {p12:String}), has(numbers.keys, {p12:String}) AND ifNull(toInt128OrNull(attributes[{p12:String}]) > {p14:Int128}, numbers[{p12:String}] > {p13:Float64}), has(attributes.keys, {p15:String}), has(numbers.keys, {p15:String}) AND ifNull(toInt128OrNull(attributes[{p15:String}]) > {p14:Int128}, numbers[{p15:String}] > {p13:Float64}), has(resource_attributes.keys, {p12:String}), has(numbers.keys, {p15:String}) AND ifNull(toInt128OrNull(resource_attributes[{p12:String}]) > {p14:Int128}, numbers[{p15:String}] > {p13:Float64}), 0))
  AND (has(attributes.keys, {p16:String}) OR has(attributes.keys, {p17:String}) OR has(resource_attributes.keys, {p16:String}))
  AND NOT (has(attributes.keys, {p16:String}) OR has(attributes.keys, {p17:String}) OR has(resource_attributes.keys, {p16:String}))
  AND (multiIf(has(attributes.keys, {p18:String}), position(attributes[{p18:String}], {p19:String}) > 0, has(attributes.keys, {p20:String}), position(attributes[{p20:String}], {p19:String}) > 0, has(resource_attributes.keys, {p18:String}), position(resource_attributes[{p18:String}], {p19:String}) > 0, 0))
  AND (multiIf(has(attributes.keys, {p18:String}), 1, has(attributes.keys, {p20:String}), 1, has(resource_attributes.keys, {p18:String}), 1, 0))
  AND (multiIf(has(attributes.keys, {p21:String}), has({p22:Array(String)}, attributes[{p21:String}]), has(attributes.keys, {p23:String}), has({p22:Array(String)}, attributes[{p23:String}]), has(resource_attributes.keys, {p21:String}), has({p22:Array(String)}, resource_attributes[{p21:String}]), 0))
  AND (multiIf(has(attributes.keys, {p24:String}), attributes[{p24:String}] = {p25:String}, has(attributes.keys, {p26:String}), attributes[{p26:String}] = {p25:String}, has(resource_attributes.keys, {p24:String}), resource_attributes[{p24:String}] = {p25:String}, 0))
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p27:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'http.route'
-- p6 = '/x'
-- p7 = 'resource.http.route'
-- p8 = 'http.status_code'
-- p9 = '200'
-- p10 = 'resource.http.status_code'
-- p11 = 500.0
-- p12 = 'big'
-- p13 = 9007199254740992.0
-- p14 = 9007199254740993
-- p15 = 'resource.big'
-- p16 = 'user.id'
-- p17 = 'resource.user.id'
-- p18 = 'url'
-- p19 = 'a'
-- p20 = 'resource.url'
-- p21 = 'region'
-- p22 = ['eu', 'us']
-- p23 = 'resource.region'
-- p24 = 'name'
-- p25 = 'x'
-- p26 = 'resource.name'
-- p27 = 51
