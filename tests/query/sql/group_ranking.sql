SELECT grp, n, if(m = 0 OR NOT isFinite(s), NULL, s + 0.) AS figure, count() OVER () AS groups,
  max(overlooked) OVER ()
FROM (
SELECT if(position(attribute_types, {p6:String}) > 0, attributes[{p5:String}], NULL) AS grp,
  count() AS n,
  countIf((position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}]))))) AS m,
  quantileExactIf(0.989999999995)(toFloat64OrZero(attributes[{p0:String}]), (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}]))))) AS s,
  max((position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0 OR position(attribute_types, {p8:String}) > 0 OR position(resource, {p6:String}) > 0)) AS overlooked
FROM spans
WHERE project_id = {p10:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p11:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p12:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p13:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p14:Int64}, 'UTC')
  AND ((position(attribute_types, {p1:String}) > 0 AND ((position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))) AND toFloat64OrZero(attributes[{p0:String}]) >= {p15:Float64})) OR position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0)
GROUP BY grp)
ORDER BY figure DESC NULLS LAST, grp ASC NULLS LAST
LIMIT {p16:UInt64}
-- p0 = 'http.status_code'
-- p1 = '\x01http.status_code\x02'
-- p3 = '\x01resource.http.status_code\x02'
-- p5 = 'http.route'
-- p6 = '\x01http.route\x02'
-- p8 = '\x01resource.http.route\x02'
-- p10 = 7
-- p11 = 1795184400
-- p12 = 1795188000
-- p13 = 1795184400123456789
-- p14 = 1795188000123456789
-- p15 = 500.0
-- p16 = 10
