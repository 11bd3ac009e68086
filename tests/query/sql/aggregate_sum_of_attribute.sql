SELECT grp, sum(n) AS spans, if(sum(m) = 0 OR NOT isFinite(toFloat64(toString(sum(s))) / 1208925819614629174706176. + sumKahan(t)), NULL, toFloat64(toString(sum(s))) / 1208925819614629174706176. + sumKahan(t) + 0.) AS figure,
  groupArray((step, n, if(m = 0 OR NOT isFinite(toFloat64(toString(s)) / 1208925819614629174706176. + t), NULL, toFloat64(toString(s)) / 1208925819614629174706176. + t + 0.))) AS steps, count() OVER () AS groups,
  max(max(overlooked)) OVER ()
FROM (
SELECT trace_id AS grp,
  toUInt16(intDiv(toUnixTimestamp64Nano(start_time) - {p5:Int64}, {p6:Int64})) AS step,
  count() AS n,
  countIf((position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}]))))) AS m,
  sumIf(bitShiftLeft(toInt256(sign(toFloat64OrZero(attributes[{p0:String}])) * toInt64(bitOr(bitAnd(reinterpretAsUInt64(toFloat64OrZero(attributes[{p0:String}])), 4503599627370495), 4503599627370496))), bitAnd(bitShiftRight(reinterpretAsUInt64(toFloat64OrZero(attributes[{p0:String}])), 52) - 995, 255)), (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))) AND abs(toFloat64OrZero(attributes[{p0:String}])) >= 7.450580596923828e-09 AND abs(toFloat64OrZero(attributes[{p0:String}])) <= 1e44) AS s,
  sumKahanIf(toFloat64OrZero(attributes[{p0:String}]), (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))) AND NOT (abs(toFloat64OrZero(attributes[{p0:String}])) >= 7.450580596923828e-09 AND abs(toFloat64OrZero(attributes[{p0:String}])) <= 1e44)) AS t,
  max((position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0)) AS overlooked
FROM spans
WHERE project_id = {p7:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p8:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p9:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p10:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p11:Int64}, 'UTC')
  AND ((position(attribute_types, {p1:String}) > 0 AND ((position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))) AND toFloat64OrZero(attributes[{p0:String}]) >= {p12:Float64})) OR position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0)
GROUP BY grp, step)
GROUP BY grp
ORDER BY figure DESC NULLS LAST, grp
LIMIT {p13:UInt64}
-- p0 = 'http.status_code'
-- p1 = '\x01http.status_code\x02'
-- p3 = '\x01resource.http.status_code\x02'
-- p5 = 1795184400000000000
-- p6 = 300000000000
-- p7 = 7
-- p8 = 1795184400
-- p9 = 1795188000
-- p10 = 1795184400123456789
-- p11 = 1795188000123456789
-- p12 = 500.0
-- p13 = 10
