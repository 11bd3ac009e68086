SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (multiIf(position(attribute_types, {p6:String}) > 0, attributes[{p5:String}] = {p7:String}, position(resource, {p9:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p8:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p7:String}, position(attribute_types, {p11:String}) > 0, attributes[{p10:String}] = {p7:String}, position(resource, {p6:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p12:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p7:String}, 0))
  AND (multiIf(position(attribute_types, {p14:String}) > 0, attributes[{p13:String}] = {p15:String}, position(scope, {p17:String}) > 0, replaceAll(replaceAll(replaceAll(extract(scope, {p16:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p15:String}, scope_name != '', scope_name = {p15:String}, position(attribute_types, {p19:String}) > 0, attributes[{p18:String}] = {p15:String}, position(resource, {p14:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p20:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p15:String}, 0))
  AND (position(attribute_types, {p22:String}) > 0 OR position(scope, {p24:String}) > 0 OR scope_version != '' OR position(attribute_types, {p26:String}) > 0 OR position(resource, {p22:String}) > 0)
  AND (multiIf(position(attribute_types, {p29:String}) > 0, (position(attribute_types, concat({p29:String}, 'i')) > 0 OR (position(attribute_types, concat({p29:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p28:String}])))) AND toFloat64OrZero(attributes[{p28:String}]) < {p30:Float64}, position(scope, {p32:String}) > 0, (position(scope, concat({p32:String}, 'i')) > 0 OR (position(scope, concat({p32:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(scope, {p31:String}))))) AND toFloat64OrZero(extract(scope, {p31:String})) < {p30:Float64}, position(attribute_types, {p34:String}) > 0, (position(attribute_types, concat({p34:String}, 'i')) > 0 OR (position(attribute_types, concat({p34:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p33:String}])))) AND toFloat64OrZero(attributes[{p33:String}]) < {p30:Float64}, position(resource, {p29:String}) > 0, (position(resource, concat({p29:String}, 'i')) > 0 OR (position(resource, concat({p29:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p35:String}))))) AND toFloat64OrZero(extract(resource, {p35:String})) < {p30:Float64}, 0))
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p36:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'resource.host.name'
-- p6 = '\x01resource.host.name\x02'
-- p7 = 'h'
-- p8 = '(?s)\x01host\\.name\x02.([^\x01]*)'
-- p9 = '\x01host.name\x02'
-- p10 = 'resource.resource.host.name'
-- p11 = '\x01resource.resource.host.name\x02'
-- p12 = '(?s)\x01resource\\.host\\.name\x02.([^\x01]*)'
-- p13 = 'scope.name'
-- p14 = '\x01scope.name\x02'
-- p15 = 'otel'
-- p16 = '(?s)\x01name\x02.([^\x01]*)'
-- p17 = '\x01name\x02'
-- p18 = 'resource.scope.name'
-- p19 = '\x01resource.scope.name\x02'
-- p20 = '(?s)\x01scope\\.name\x02.([^\x01]*)'
-- p22 = '\x01scope.version\x02'
-- p24 = '\x01version\x02'
-- p26 = '\x01resource.scope.version\x02'
-- p28 = 'scope.tier'
-- p29 = '\x01scope.tier\x02'
-- p30 = 3.0
-- p31 = '(?s)\x01tier\x02.([^\x01]*)'
-- p32 = '\x01tier\x02'
-- p33 = 'resource.scope.tier'
-- p34 = '\x01resource.scope.tier\x02'
-- p35 = '(?s)\x01scope\\.tier\x02.([^\x01]*)'
-- p36 = 51
