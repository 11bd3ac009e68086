SELECT grp0, grp1, grp2, sum(n) AS spans,
  sum(n) AS figure0,
  sum(n0) AS figure1,
  if(sum(n0) = 0, NULL, intDiv(2 * sum(s2) + sum(n0), 2 * toInt128(nullIf(sum(n0), 0)))) AS figure2,
  quantilesExactMerge(0.499999999995, 0.989999999995)(s3)[1] AS figure3,
  quantilesExactMerge(0.499999999995, 0.989999999995)(s3)[2] AS figure4,
  if(sum(n1) = 0, 0, if(sum(m4) = 0 OR NOT isFinite(toFloat64(toString(sum(s4))) / 1208925819614629174706176. + sumKahan(t4)), NULL, toFloat64(toString(sum(s4))) / 1208925819614629174706176. + sumKahan(t4) + 0.)) AS figure5,
  groupArray((step, n, n, n0, if(n0 = 0, NULL, intDiv(2 * s2 + n0, 2 * toInt128(nullIf(n0, 0)))), finalizeAggregation(s3)[1], finalizeAggregation(s3)[2], if(n1 = 0, 0, if(m4 = 0 OR NOT isFinite(toFloat64(toString(s4)) / 1208925819614629174706176. + t4), NULL, toFloat64(toString(s4)) / 1208925819614629174706176. + t4 + 0.)))) AS steps, count() OVER () AS groups
FROM (
WITH ((['UNSET', 'OK', 'ERROR'][status_code + 1] = {p5:String})) AS covered0, ((multiIf(position(attribute_types, {p7:String}) > 0, (position(attribute_types, concat({p7:String}, 'i')) > 0 OR (position(attribute_types, concat({p7:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p6:String}])))) AND toFloat64OrZero(attributes[{p6:String}]) >= {p11:Float64}, position(attribute_types, {p9:String}) > 0, (position(attribute_types, concat({p9:String}, 'i')) > 0 OR (position(attribute_types, concat({p9:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p8:String}])))) AND toFloat64OrZero(attributes[{p8:String}]) >= {p11:Float64}, position(resource, {p7:String}) > 0, (position(resource, concat({p7:String}, 'i')) > 0 OR (position(resource, concat({p7:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p10:String}))))) AND toFloat64OrZero(extract(resource, {p10:String})) >= {p11:Float64}, 0))) AS covered1
SELECT service_name AS grp0,
  if((position(attribute_types, {p13:String}) > 0 OR position(attribute_types, {p15:String}) > 0 OR position(resource, {p13:String}) > 0), multiIf(position(attribute_types, {p13:String}) > 0, attributes[{p12:String}], position(attribute_types, {p15:String}) > 0, attributes[{p14:String}], position(resource, {p13:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p16:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03'), ''), NULL) AS grp1,
  kind AS grp2,
  toUInt16(intDiv(toUnixTimestamp64Nano(start_time) - {p17:Int64}, {p18:Int64})) AS step,
  count() AS n,
  countIf(covered0) AS n0,
  sumIf(toInt128(greatest(duration, 0)), covered0) AS s2,
  quantilesExactState(0.499999999995, 0.989999999995)(greatest(duration, 0)) AS s3,
  countIf(covered1) AS n1,
  countIf((covered1 AND multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0))) AS m4,
  sumIf(bitShiftLeft(toInt256(sign(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) * toInt64(bitOr(bitAnd(reinterpretAsUInt64(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)), 4503599627370495), 4503599627370496))), bitAnd(bitShiftRight(reinterpretAsUInt64(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)), 52) - 995, 255)), (covered1 AND multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0)) AND abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) >= 7.450580596923828e-09 AND abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) <= 1e44) AS s4,
  sumKahanIf(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.), (covered1 AND multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0)) AND NOT (abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) >= 7.450580596923828e-09 AND abs(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.)) <= 1e44)) AS t4
FROM spans
WHERE project_id = {p19:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p20:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p21:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p22:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p23:Int64}, 'UTC')
GROUP BY grp0, grp1, grp2, step)
GROUP BY grp0, grp1, grp2
ORDER BY figure1 DESC NULLS LAST, NOT (grp0 != ''), grp0, grp1 ASC NULLS LAST, ['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'][grp2 + 1]
LIMIT {p24:UInt64}
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
-- p12 = 'http.route'
-- p13 = '\x01http.route\x02'
-- p14 = 'resource.http.route'
-- p15 = '\x01resource.http.route\x02'
-- p16 = '(?s)\x01http\\.route\x02.([^\x01]*)'
-- p17 = 1795184400000000000
-- p18 = 15000000000
-- p19 = 7
-- p20 = 1795184400
-- p21 = 1795188000
-- p22 = 1795184400123456789
-- p23 = 1795188000123456789
-- p24 = 10
