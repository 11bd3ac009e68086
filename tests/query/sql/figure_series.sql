SELECT grp0, grp1, grp2, groupArray((step, n, n, n0, if(n0 = 0, NULL, intDiv(2 * s2 + n0, 2 * toInt128(nullIf(n0, 0)))), s3[1], s3[2], if(n1 = 0, 0, if(m4 = 0 OR NOT isFinite(toFloat64(toString(s4)) / 1208925819614629174706176. + t4), NULL, toFloat64(toString(s4)) / 1208925819614629174706176. + t4 + 0.)))) AS steps,
  max(overlooked)
FROM (
WITH ((['UNSET', 'OK', 'ERROR'][status_code + 1] = {p5:String})) AS covered0, (((position(attribute_types, {p7:String}) > 0 AND ((position(attribute_types, concat({p7:String}, 'i')) > 0 OR (position(attribute_types, concat({p7:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p6:String}])))) AND toFloat64OrZero(attributes[{p6:String}]) >= {p11:Float64})) OR position(attribute_types, {p9:String}) > 0 OR position(resource, {p7:String}) > 0)) AS covered1
SELECT service_name AS grp0,
  if(position(attribute_types, {p13:String}) > 0, attributes[{p12:String}], NULL) AS grp1,
  kind AS grp2,
  toUInt16(intDiv(toUnixTimestamp64Nano(start_time) - {p17:Int64}, {p18:Int64})) AS step,
  count() AS n,
  countIf(covered0) AS n0,
  sumIf(toInt128(greatest(duration, 0)), covered0) AS s2,
  quantilesExact(0.499999999995, 0.989999999995)(greatest(duration, 0)) AS s3,
  countIf(covered1) AS n1,
  countIf((covered1 AND (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))))) AS m4,
  sumIf(bitShiftLeft(toInt256(sign(toFloat64OrZero(attributes[{p0:String}])) * toInt64(bitOr(bitAnd(reinterpretAsUInt64(toFloat64OrZero(attributes[{p0:String}])), 4503599627370495), 4503599627370496))), bitAnd(bitShiftRight(reinterpretAsUInt64(toFloat64OrZero(attributes[{p0:String}])), 52) - 995, 255)), (covered1 AND (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}]))))) AND abs(toFloat64OrZero(attributes[{p0:String}])) >= 7.450580596923828e-09 AND abs(toFloat64OrZero(attributes[{p0:String}])) <= 1e44) AS s4,
  sumKahanIf(toFloat64OrZero(attributes[{p0:String}]), (covered1 AND (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}]))))) AND NOT (abs(toFloat64OrZero(attributes[{p0:String}])) >= 7.450580596923828e-09 AND abs(toFloat64OrZero(attributes[{p0:String}])) <= 1e44)) AS t4,
  max((position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0 OR position(attribute_types, {p9:String}) > 0 OR position(resource, {p7:String}) > 0 OR position(attribute_types, {p15:String}) > 0 OR position(resource, {p13:String}) > 0)) AS overlooked
FROM spans
WHERE project_id = {p19:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p20:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p21:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p22:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p23:Int64}, 'UTC')
  AND ((toString(service_name), isNull(if(position(attribute_types, {p13:String}) > 0, attributes[{p12:String}], NULL)), ifNull(if(position(attribute_types, {p13:String}) > 0, attributes[{p12:String}], NULL), ''), toInt64(kind)) IN (({p24:String}, 0, {p25:String}, {p26:Int64}), ({p27:String}, 1, '', {p28:Int64})) OR (position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0 OR position(attribute_types, {p9:String}) > 0 OR position(resource, {p7:String}) > 0 OR position(attribute_types, {p15:String}) > 0 OR position(resource, {p13:String}) > 0))
GROUP BY grp0, grp1, grp2, step)
GROUP BY grp0, grp1, grp2
-- p0 = 'size'
-- p1 = '\x01size\x02'
-- p3 = '\x01resource.size\x02'
-- p5 = 'ERROR'
-- p6 = 'http.status_code'
-- p7 = '\x01http.status_code\x02'
-- p9 = '\x01resource.http.status_code\x02'
-- p11 = 500.0
-- p12 = 'http.route'
-- p13 = '\x01http.route\x02'
-- p15 = '\x01resource.http.route\x02'
-- p17 = 1795184400000000000
-- p18 = 15000000000
-- p19 = 7
-- p20 = 1795184400
-- p21 = 1795188000
-- p22 = 1795184400123456789
-- p23 = 1795188000123456789
-- p24 = 'cart'
-- p25 = '/a'
-- p26 = 2
-- p27 = ''
-- p28 = 3
