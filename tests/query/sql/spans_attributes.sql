SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (multiIf(position(attribute_types, {p6:String}) > 0, attributes[{p5:String}] = {p7:String}, position(attribute_types, {p9:String}) > 0, attributes[{p8:String}] = {p7:String}, position(resource, {p6:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p10:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p7:String}, 0))
  AND NOT (multiIf(position(attribute_types, {p6:String}) > 0, attributes[{p5:String}] = {p7:String}, position(attribute_types, {p9:String}) > 0, attributes[{p8:String}] = {p7:String}, position(resource, {p6:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p10:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p7:String}, 0))
  AND (multiIf(position(attribute_types, {p12:String}) > 0, attributes[{p11:String}] = {p13:String}, position(attribute_types, {p15:String}) > 0, attributes[{p14:String}] = {p13:String}, position(resource, {p12:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p16:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p13:String}, 0))
  AND (multiIf(position(attribute_types, {p12:String}) > 0, (position(attribute_types, concat({p12:String}, 'i')) > 0 OR (position(attribute_types, concat({p12:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p11:String}])))) AND toFloat64OrZero(attributes[{p11:String}]) >= {p17:Float64}, position(attribute_types, {p15:String}) > 0, (position(attribute_types, concat({p15:String}, 'i')) > 0 OR (position(attribute_types, concat({p15:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p14:String}])))) AND toFloat64OrZero(attributes[{p14:String}]) >= {p17:Float64}, position(resource, {p12:String}) > 0, (position(resource, concat({p12:String}, 'i')) > 0 OR (position(resource, concat({p12:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p16:String}))))) AND toFloat64OrZero(extract(resource, {p16:String})) >= {p17:Float64}, 0))
  AND (multiIf(position(attribute_types, {p19:String}) > 0, (position(attribute_types, concat({p19:String}, 'i')) > 0 OR (position(attribute_types, concat({p19:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p18:String}])))) AND ifNull(toInt128OrNull(attributes[{p18:String}]) > {p21:Int128}, toFloat64OrZero(attributes[{p18:String}]) > {p20:Float64}), position(attribute_types, {p23:String}) > 0, (position(attribute_types, concat({p23:String}, 'i')) > 0 OR (position(attribute_types, concat({p23:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p22:String}])))) AND ifNull(toInt128OrNull(attributes[{p22:String}]) > {p21:Int128}, toFloat64OrZero(attributes[{p22:String}]) > {p20:Float64}), position(resource, {p19:String}) > 0, (position(resource, concat({p19:String}, 'i')) > 0 OR (position(resource, concat({p19:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p24:String}))))) AND ifNull(toInt128OrNull(replaceAll(replaceAll(replaceAll(extract(resource, {p24:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03')) > {p21:Int128}, toFloat64OrZero(extract(resource, {p24:String})) > {p20:Float64}), 0))
  AND (position(attribute_types, {p26:String}) > 0 OR position(attribute_types, {p28:String}) > 0 OR position(resource, {p26:String}) > 0)
  AND NOT (position(attribute_types, {p26:String}) > 0 OR position(attribute_types, {p28:String}) > 0 OR position(resource, {p26:String}) > 0)
  AND (multiIf(position(attribute_types, {p31:String}) > 0, position(attributes[{p30:String}], {p32:String}) > 0, position(attribute_types, {p34:String}) > 0, position(attributes[{p33:String}], {p32:String}) > 0, position(resource, {p31:String}) > 0, position(replaceAll(replaceAll(replaceAll(extract(resource, {p35:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03'), {p32:String}) > 0, 0))
  AND (multiIf(position(attribute_types, {p31:String}) > 0, 1, position(attribute_types, {p34:String}) > 0, 1, position(resource, {p31:String}) > 0, 1, 0))
  AND (multiIf(position(attribute_types, {p37:String}) > 0, has({p38:Array(String)}, attributes[{p36:String}]), position(attribute_types, {p40:String}) > 0, has({p38:Array(String)}, attributes[{p39:String}]), position(resource, {p37:String}) > 0, has({p38:Array(String)}, replaceAll(replaceAll(replaceAll(extract(resource, {p41:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03')), 0))
  AND (multiIf(position(attribute_types, {p43:String}) > 0, attributes[{p42:String}] = {p44:String}, position(attribute_types, {p46:String}) > 0, attributes[{p45:String}] = {p44:String}, position(resource, {p43:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p47:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p44:String}, 0))
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p48:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'http.route'
-- p6 = '\x01http.route\x02'
-- p7 = '/x'
-- p8 = 'resource.http.route'
-- p9 = '\x01resource.http.route\x02'
-- p10 = '(?s)\x01http\\.route\x02.([^\x01]*)'
-- p11 = 'http.status_code'
-- p12 = '\x01http.status_code\x02'
-- p13 = '200'
-- p14 = 'resource.http.status_code'
-- p15 = '\x01resource.http.status_code\x02'
-- p16 = '(?s)\x01http\\.status_code\x02.([^\x01]*)'
-- p17 = 500.0
-- p18 = 'big'
-- p19 = '\x01big\x02'
-- p20 = 9007199254740992.0
-- p21 = 9007199254740993
-- p22 = 'resource.big'
-- p23 = '\x01resource.big\x02'
-- p24 = '(?s)\x01big\x02.([^\x01]*)'
-- p26 = '\x01user.id\x02'
-- p28 = '\x01resource.user.id\x02'
-- p30 = 'url'
-- p31 = '\x01url\x02'
-- p32 = 'a'
-- p33 = 'resource.url'
-- p34 = '\x01resource.url\x02'
-- p35 = '(?s)\x01url\x02.([^\x01]*)'
-- p36 = 'region'
-- p37 = '\x01region\x02'
-- p38 = ['eu', 'us']
-- p39 = 'resource.region'
-- p40 = '\x01resource.region\x02'
-- p41 = '(?s)\x01region\x02.([^\x01]*)'
-- p42 = 'name'
-- p43 = '\x01name\x02'
-- p44 = 'x'
-- p45 = 'resource.name'
-- p46 = '\x01resource.name\x02'
-- p47 = '(?s)\x01name\x02.([^\x01]*)'
-- p48 = 51
