SELECT grp, sum(n) AS spans, if(sum(m) = 0 OR NOT isFinite(quantileExactMerge(0.989999999995)(s)), NULL, quantileExactMerge(0.989999999995)(s) + 0.) AS figure,
  groupArray((step, n, if(m = 0 OR NOT isFinite(finalizeAggregation(s)), NULL, finalizeAggregation(s) + 0.))) AS steps, count() OVER () AS groups,
  max(max(overlooked)) OVER ()
FROM (
SELECT if(position(attribute_types, {p6:String}) > 0, attributes[{p5:String}], NULL) AS grp,
  toUInt16(intDiv(toUnixTimestamp64Nano(start_time) - {p10:Int64}, {p11:Int64})) AS step,
  count() AS n,
  countIf((position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}]))))) AS m,
  quantileExactStateIf(0.989999999995)(toFloat64OrZero(attributes[{p0:String}]), (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}]))))) AS s,
  max((position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0 OR position(attribute_types, {p8:String}) > 0 OR position(resource, {p6:String}) > 0)) AS overlooked
FROM spans
WHERE project_id = {p12:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p13:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p14:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p15:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p16:Int64}, 'UTC')
  AND ((position(attribute_types, {p1:String}) > 0 AND ((position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))) AND toFloat64OrZero(attributes[{p0:String}]) >= {p17:Float64})) OR position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0)
GROUP BY grp, step)
GROUP BY grp
ORDER BY figure DESC NULLS LAST, grp ASC NULLS LAST
LIMIT {p18:UInt64}
-- p0 = 'http.status_code'
-- p1 = '\x01http.status_code\x02'
-- p3 = '\x01resource.http.status_code\x02'
-- p5 = 'http.route'
-- p6 = '\x01http.route\x02'
-- p8 = '\x01resource.http.route\x02'
-- p10 = 1795184400000000000
-- p11 = 300000000000
-- p12 = 7
-- p13 = 1795184400
-- p14 = 1795188000
-- p15 = 1795184400123456789
-- p16 = 1795188000123456789
-- p17 = 500.0
-- p18 = 10
