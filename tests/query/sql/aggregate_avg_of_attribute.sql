SELECT grp, sum(n) AS spans, if(sum(m) = 0 OR NOT isFinite((toFloat64(toString(sum(s))) / 1208925819614629174706176. + sumKahan(t)) / sum(m)), NULL, (toFloat64(toString(sum(s))) / 1208925819614629174706176. + sumKahan(t)) / sum(m) + 0.) AS figure,
  groupArray((step, n, if(m = 0 OR NOT isFinite((toFloat64(toString(s)) / 1208925819614629174706176. + t) / m), NULL, (toFloat64(toString(s)) / 1208925819614629174706176. + t) / m + 0.))) AS steps, count() OVER () AS groups
FROM (
SELECT if((position(attribute_types, {p6:String}) > 0 OR position(scope, {p8:String}) > 0 OR scope_name != '' OR position(attribute_types, {p10:String}) > 0 OR position(resource, {p6:String}) > 0), multiIf(position(attribute_types, {p6:String}) > 0, attributes[{p5:String}], position(scope, {p8:String}) > 0, replaceAll(replaceAll(replaceAll(extract(scope, {p7:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03'), scope_name != '', scope_name, position(attribute_types, {p10:String}) > 0, attributes[{p9:String}], position(resource, {p6:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p11:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03'), ''), NULL) AS grp,
  toUInt16(intDiv(toUnixTimestamp64Nano(start_time) - {p12:Int64}, {p13:Int64})) AS step,
  count() AS n,
  countIf(multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0)) AS m,
  sumIf(bitShiftLeft(toInt256(sign(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) * toInt64(bitOr(bitAnd(reinterpretAsUInt64(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)), 4503599627370495), 4503599627370496))), bitAnd(bitShiftRight(reinterpretAsUInt64(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)), 52) - 995, 255)), multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0) AND abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) >= 7.450580596923828e-09 AND abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) <= 1e44) AS s,
  sumKahanIf(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.), multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0) AND NOT (abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) >= 7.450580596923828e-09 AND abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) <= 1e44)) AS t
FROM spans
WHERE project_id = {p14:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p15:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p16:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p17:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p18:Int64}, 'UTC')
GROUP BY grp, step)
GROUP BY grp
ORDER BY figure DESC NULLS LAST, grp ASC NULLS LAST
LIMIT {p19:UInt64}
-- p0 = 'size'
-- p1 = '\x01size\x02'
-- p2 = 'resource.size'
-- p3 = '\x01resource.size\x02'
-- p4 = '(?s)\x01size\x02.([^\x01]*)'
-- p5 = 'scope.name'
-- p6 = '\x01scope.name\x02'
-- p7 = '(?s)\x01name\x02.([^\x01]*)'
-- p8 = '\x01name\x02'
-- p9 = 'resource.scope.name'
-- p10 = '\x01resource.scope.name\x02'
-- p11 = '(?s)\x01scope\\.name\x02.([^\x01]*)'
-- p12 = 1795184400000000000
-- p13 = 300000000000
-- p14 = 7
-- p15 = 1795184400
-- p16 = 1795188000
-- p17 = 1795184400123456789
-- p18 = 1795188000123456789
-- p19 = 10
