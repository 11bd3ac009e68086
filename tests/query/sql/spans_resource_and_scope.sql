SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (multiIf(position(attribute_types, {p6:String}) > 0, attributes[{p5:String}] = {p12:String}, position(resource, {p8:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p7:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p12:String}, position(attribute_types, {p10:String}) > 0, attributes[{p9:String}] = {p12:String}, position(resource, {p6:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p11:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p12:String}, 0))
  AND (multiIf(position(attribute_types, {p14:String}) > 0, attributes[{p13:String}] = {p20:String}, position(scope, {p16:String}) > 0, replaceAll(replaceAll(replaceAll(extract(scope, {p15:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p20:String}, scope_name != '', scope_name = {p20:String}, position(attribute_types, {p18:String}) > 0, attributes[{p17:String}] = {p20:String}, position(resource, {p14:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p19:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p20:String}, 0))
  AND (position(attribute_types, {p22:String}) > 0 OR position(scope, {p24:String}) > 0 OR scope_version != '' OR position(attribute_types, {p26:String}) > 0 OR position(resource, {p22:String}) > 0)
  AND (multiIf(position(attribute_types, {p29:String}) > 0, (position(attribute_types, concat({p29:String}, 'i')) > 0 OR (position(attribute_types, concat({p29:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p28:String}])))) AND toFloat64OrZero(attributes[{p28:String}]) < {p35:Float64}, position(scope, {p31:String}) > 0, (position(scope, concat({p31:String}, 'i')) > 0 OR (position(scope, concat({p31:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(scope, {p30:String}))))) AND toFloat64OrZero(extract(scope, {p30:String})) < {p35:Float64}, position(attribute_types, {p33:String}) > 0, (position(attribute_types, concat({p33:String}, 'i')) > 0 OR (position(attribute_types, concat({p33:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p32:String}])))) AND toFloat64OrZero(attributes[{p32:String}]) < {p35:Float64}, position(resource, {p29:String}) > 0, (position(resource, concat({p29:String}, 'i')) > 0 OR (position(resource, concat({p29:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p34:String}))))) AND toFloat64OrZero(extract(resource, {p34:String})) < {p35:Float64}, 0))
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p36:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'resource.host.name'
-- p6 = '\x01resource.host.name\x02'
-- p7 = '(?s)\x01host\\.name\x02.([^\x01]*)'
-- p8 = '\x01host.name\x02'
-- p9 = 'resource.resource.host.name'
-- p10 = '\x01resource.resource.host.name\x02'
-- p11 = '(?s)\x01resource\\.host\\.name\x02.([^\x01]*)'
-- p12 = 'h'
-- p13 = 'scope.name'
-- p14 = '\x01scope.name\x02'
-- p15 = '(?s)\x01name\x02.([^\x01]*)'
-- p16 = '\x01name\x02'
-- p17 = 'resource.scope.name'
-- p18 = '\x01resource.scope.name\x02'
-- p19 = '(?s)\x01scope\\.name\x02.([^\x01]*)'
-- p20 = 'otel'
-- p22 = '\x01scope.version\x02'
-- p24 = '\x01version\x02'
-- p26 = '\x01resource.scope.version\x02'
-- p28 = 'scope.tier'
-- p29 = '\x01scope.tier\x02'
-- p30 = '(?s)\x01tier\x02.([^\x01]*)'
-- p31 = '\x01tier\x02'
-- p32 = 'resource.scope.tier'
-- p33 = '\x01resource.scope.tier\x02'
-- p34 = '(?s)\x01scope\\.tier\x02.([^\x01]*)'
-- p35 = 3.0
-- p36 = 51
