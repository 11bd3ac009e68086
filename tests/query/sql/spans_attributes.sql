SELECT toUnixTimestamp64Nano(start_time), duration, trace_id, span_id, parent_span_id, name, kind, status_code, status_message, batch_id, row, service_name, environment, release, attributes, attribute_types, resource, scope_name, scope_version, scope
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (multiIf(position(attribute_types, {p6:String}) > 0, attributes[{p5:String}] = {p10:String}, position(attribute_types, {p8:String}) > 0, attributes[{p7:String}] = {p10:String}, position(resource, {p6:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p9:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p10:String}, 0))
  AND NOT (multiIf(position(attribute_types, {p6:String}) > 0, attributes[{p5:String}] = {p10:String}, position(attribute_types, {p8:String}) > 0, attributes[{p7:String}] = {p10:String}, position(resource, {p6:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p9:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p10:String}, 0))
  AND (multiIf(position(attribute_types, {p12:String}) > 0, attributes[{p11:String}] = {p16:String}, position(attribute_types, {p14:String}) > 0, attributes[{p13:String}] = {p16:String}, position(resource, {p12:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p15:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p16:String}, 0))
  AND (multiIf(position(attribute_types, {p12:String}) > 0, (position(attribute_types, concat({p12:String}, 'i')) > 0 OR (position(attribute_types, concat({p12:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p11:String}])))) AND toFloat64OrZero(attributes[{p11:String}]) >= {p17:Float64}, position(attribute_types, {p14:String}) > 0, (position(attribute_types, concat({p14:String}, 'i')) > 0 OR (position(attribute_types, concat({p14:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p13:String}])))) AND toFloat64OrZero(attributes[{p13:String}]) >= {p17:Float64}, position(resource, {p12:String}) > 0, (position(resource, concat({p12:String}, 'i')) > 0 OR (position(resource, concat({p12:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p15:String}))))) AND toFloat64OrZero(extract(resource, {p15:String})) >= {p17:Float64}, 0))
  AND (multiIf(position(attribute_types, {p19:String}) > 0, (position(attribute_types, concat({p19:String}, 'i')) > 0 OR (position(attribute_types, concat({p19:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p18:String}])))) AND ifNull(toInt128OrNull(attributes[{p18:String}]) > {p24:Int128}, toFloat64OrZero(attributes[{p18:String}]) > {p23:Float64}), position(attribute_types, {p21:String}) > 0, (position(attribute_types, concat({p21:String}, 'i')) > 0 OR (position(attribute_types, concat({p21:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p20:String}])))) AND ifNull(toInt128OrNull(attributes[{p20:String}]) > {p24:Int128}, toFloat64OrZero(attributes[{p20:String}]) > {p23:Float64}), position(resource, {p19:String}) > 0, (position(resource, concat({p19:String}, 'i')) > 0 OR (position(resource, concat({p19:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p22:String}))))) AND ifNull(toInt128OrNull(replaceAll(replaceAll(replaceAll(extract(resource, {p22:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03')) > {p24:Int128}, toFloat64OrZero(extract(resource, {p22:String})) > {p23:Float64}), 0))
  AND (position(attribute_types, {p26:String}) > 0 OR position(attribute_types, {p28:String}) > 0 OR position(resource, {p26:String}) > 0)
  AND NOT (position(attribute_types, {p26:String}) > 0 OR position(attribute_types, {p28:String}) > 0 OR position(resource, {p26:String}) > 0)
  AND (multiIf(position(attribute_types, {p31:String}) > 0, position(attributes[{p30:String}], {p35:String}) > 0, position(attribute_types, {p33:String}) > 0, position(attributes[{p32:String}], {p35:String}) > 0, position(resource, {p31:String}) > 0, position(replaceAll(replaceAll(replaceAll(extract(resource, {p34:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03'), {p35:String}) > 0, 0))
  AND (multiIf(position(attribute_types, {p31:String}) > 0, 1, position(attribute_types, {p33:String}) > 0, 1, position(resource, {p31:String}) > 0, 1, 0))
  AND (multiIf(position(attribute_types, {p37:String}) > 0, has({p41:Array(String)}, attributes[{p36:String}]), position(attribute_types, {p39:String}) > 0, has({p41:Array(String)}, attributes[{p38:String}]), position(resource, {p37:String}) > 0, has({p41:Array(String)}, replaceAll(replaceAll(replaceAll(extract(resource, {p40:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03')), 0))
  AND (multiIf(position(attribute_types, {p43:String}) > 0, attributes[{p42:String}] = {p47:String}, position(attribute_types, {p45:String}) > 0, attributes[{p44:String}] = {p47:String}, position(resource, {p43:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p46:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03') = {p47:String}, 0))
ORDER BY start_time DESC, trace_id DESC, span_id DESC, batch_id DESC, row DESC
LIMIT {p48:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'http.route'
-- p6 = '\x01http.route\x02'
-- p7 = 'resource.http.route'
-- p8 = '\x01resource.http.route\x02'
-- p9 = '(?s)\x01http\\.route\x02.([^\x01]*)'
-- p10 = '/x'
-- p11 = 'http.status_code'
-- p12 = '\x01http.status_code\x02'
-- p13 = 'resource.http.status_code'
-- p14 = '\x01resource.http.status_code\x02'
-- p15 = '(?s)\x01http\\.status_code\x02.([^\x01]*)'
-- p16 = '200'
-- p17 = 500.0
-- p18 = 'big'
-- p19 = '\x01big\x02'
-- p20 = 'resource.big'
-- p21 = '\x01resource.big\x02'
-- p22 = '(?s)\x01big\x02.([^\x01]*)'
-- p23 = 9007199254740992.0
-- p24 = 9007199254740993
-- p26 = '\x01user.id\x02'
-- p28 = '\x01resource.user.id\x02'
-- p30 = 'url'
-- p31 = '\x01url\x02'
-- p32 = 'resource.url'
-- p33 = '\x01resource.url\x02'
-- p34 = '(?s)\x01url\x02.([^\x01]*)'
-- p35 = 'a'
-- p36 = 'region'
-- p37 = '\x01region\x02'
-- p38 = 'resource.region'
-- p39 = '\x01resource.region\x02'
-- p40 = '(?s)\x01region\x02.([^\x01]*)'
-- p41 = ['eu', 'us']
-- p42 = 'name'
-- p43 = '\x01name\x02'
-- p44 = 'resource.name'
-- p45 = '\x01resource.name\x02'
-- p46 = '(?s)\x01name\x02.([^\x01]*)'
-- p47 = 'x'
-- p48 = 51
