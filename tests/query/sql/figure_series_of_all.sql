SELECT grp0, groupArray((step, n, n, n0, if(n0 = 0, NULL, intDiv(2 * s2 + n0, 2 * toInt128(nullIf(n0, 0)))), s3[1], s3[2], if(n1 = 0, 0, if(m4 = 0 OR NOT isFinite(toFloat64(toString(s4)) / 1208925819614629174706176. + t4), NULL, toFloat64(toString(s4)) / 1208925819614629174706176. + t4 + 0.)))) AS steps
FROM (
WITH ((['UNSET', 'OK', 'ERROR'][status_code + 1] = {p5:String})) AS covered0, ((multiIf(position(attribute_types, {p7:String}) > 0, (position(attribute_types, concat({p7:String}, 'i')) > 0 OR (position(attribute_types, concat({p7:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p6:String}])))) AND toFloat64OrZero(attributes[{p6:String}]) >= {p11:Float64}, position(attribute_types, {p9:String}) > 0, (position(attribute_types, concat({p9:String}, 'i')) > 0 OR (position(attribute_types, concat({p9:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p8:String}])))) AND toFloat64OrZero(attributes[{p8:String}]) >= {p11:Float64}, position(resource, {p7:String}) > 0, (position(resource, concat({p7:String}, 'i')) > 0 OR (position(resource, concat({p7:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p10:String}))))) AND toFloat64OrZero(extract(resource, {p10:String})) >= {p11:Float64}, 0))) AS covered1
SELECT 0 AS grp0,
  toUInt16(intDiv(toUnixTimestamp64Nano(start_time) - {p12:Int64}, {p13:Int64})) AS step,
  count() AS n,
  countIf(covered0) AS n0,
  sumIf(toInt128(greatest(duration, 0)), covered0) AS s2,
  quantilesExact(0.499999999995, 0.989999999995)(greatest(duration, 0)) AS s3,
  countIf(covered1) AS n1,
  countIf((covered1 AND multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0))) AS m4,
  sumIf(bitShiftLeft(toInt256(sign(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) * toInt64(bitOr(bitAnd(reinterpretAsUInt64(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)), 4503599627370495), 4503599627370496))), bitAnd(bitShiftRight(reinterpretAsUInt64(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)), 52) - 995, 255)), (covered1 AND multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0)) AND abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) >= 7.450580596923828e-09 AND abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) <= 1e44) AS s4,
  sumKahanIf(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.), (covered1 AND multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0)) AND NOT (abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) >= 7.450580596923828e-09 AND abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) <= 1e44)) AS t4
FROM spans
WHERE project_id = {p14:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p15:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p16:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p17:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p18:Int64}, 'UTC')
GROUP BY grp0, step)
GROUP BY grp0
-- p0 = 'size'
-- p1 = '\x01size\x02'
-- p2 = 'resource.size'
-- p3 = '\x01resource.size\x02'
-- p4 = '(?s)\x01size\x02.([^\x01]*)'
-- p5 = 'ERROR'
-- p6 = 'http.status_code'
-- p7 = '\x01http.status_code\x02'
-- p8 = 'resource.http.status_code'
-- p9 = '\x01resource.http.status_code\x02'
-- p10 = '(?s)\x01http\\.status_code\x02.([^\x01]*)'
-- p11 = 500.0
-- p12 = 1795184400000000000
-- p13 = 15000000000
-- p14 = 7
-- p15 = 1795184400
-- p16 = 1795188000
-- p17 = 1795184400123456789
-- p18 = 1795188000123456789
