SELECT grp0, sum(n) AS spans,
  if(sum(n0) = 0, NULL, maxIf(s0, n0 > 0)) AS figure0,
  sum(m1) AS figure1,
  uniqExactMerge(s2) AS figure2,
  if(sum(n1) = 0, NULL, if(sum(m3) = 0 OR NOT isFinite(quantilesExactMerge(0.949999999995, 0.998999999995)(s3)[1]), NULL, quantilesExactMerge(0.949999999995, 0.998999999995)(s3)[1] + 0.)) AS figure3,
  if(sum(n1) = 0, NULL, if(sum(m3) = 0 OR NOT isFinite(quantilesExactMerge(0.949999999995, 0.998999999995)(s3)[2]), NULL, quantilesExactMerge(0.949999999995, 0.998999999995)(s3)[2] + 0.)) AS figure4,
  CAST(NULL, 'Nullable(Float64)') AS figure5,
  groupArray((step, n, if(n0 = 0, NULL, s0), m1, finalizeAggregation(s2), if(n1 = 0, NULL, if(m3 = 0 OR NOT isFinite(finalizeAggregation(s3)[1]), NULL, finalizeAggregation(s3)[1] + 0.)), if(n1 = 0, NULL, if(m3 = 0 OR NOT isFinite(finalizeAggregation(s3)[2]), NULL, finalizeAggregation(s3)[2] + 0.)), CAST(NULL, 'Nullable(Float64)'))) AS steps, count() OVER () AS groups,
  max(max(overlooked)) OVER ()
FROM (
WITH ((['UNSET', 'OK', 'ERROR'][status_code + 1] = {p10:String})) AS covered0, (((position(attribute_types, {p12:String}) > 0 AND ((position(attribute_types, concat({p12:String}, 'i')) > 0 OR (position(attribute_types, concat({p12:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p11:String}])))) AND toFloat64OrZero(attributes[{p11:String}]) >= {p16:Float64})) OR position(attribute_types, {p14:String}) > 0 OR position(resource, {p12:String}) > 0)) AS covered1
SELECT if(position(attribute_types, {p18:String}) > 0, attributes[{p17:String}], NULL) AS grp0,
  toUInt16(intDiv(toUnixTimestamp64Nano(start_time) - {p22:Int64}, {p23:Int64})) AS step,
  count() AS n,
  countIf(covered0) AS n0,
  maxIf(greatest(duration, 0), covered0) AS s0,
  countIf((covered0 AND position(attribute_types, {p1:String}) > 0)) AS m1,
  countIf(covered1) AS n1,
  uniqExactStateIf(attributes[{p5:String}], (covered1 AND position(attribute_types, {p6:String}) > 0)) AS s2,
  countIf((covered1 AND (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))))) AS m3,
  quantilesExactStateIf(0.949999999995, 0.998999999995)(toFloat64OrZero(attributes[{p0:String}]), (covered1 AND (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))))) AS s3,
  max((position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0 OR position(attribute_types, {p8:String}) > 0 OR position(resource, {p6:String}) > 0 OR position(attribute_types, {p14:String}) > 0 OR position(resource, {p12:String}) > 0 OR position(attribute_types, {p20:String}) > 0 OR position(resource, {p18:String}) > 0)) AS overlooked
FROM spans
WHERE project_id = {p24:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p25:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p26:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p27:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p28:Int64}, 'UTC')
  AND ((position(attribute_types, {p12:String}) > 0 AND ((position(attribute_types, concat({p12:String}, 'i')) > 0 OR (position(attribute_types, concat({p12:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p11:String}])))) AND toFloat64OrZero(attributes[{p11:String}]) >= {p16:Float64})) OR position(attribute_types, {p14:String}) > 0 OR position(resource, {p12:String}) > 0)
GROUP BY grp0, step)
GROUP BY grp0
ORDER BY figure0 DESC NULLS LAST, grp0 ASC NULLS LAST
LIMIT {p29:UInt64}
-- p0 = 'size'
-- p1 = '\x01size\x02'
-- p3 = '\x01resource.size\x02'
-- p5 = 'user.id'
-- p6 = '\x01user.id\x02'
-- p8 = '\x01resource.user.id\x02'
-- p10 = 'ERROR'
-- p11 = 'http.status_code'
-- p12 = '\x01http.status_code\x02'
-- p14 = '\x01resource.http.status_code\x02'
-- p16 = 500.0
-- p17 = 'http.route'
-- p18 = '\x01http.route\x02'
-- p20 = '\x01resource.http.route\x02'
-- p22 = 1795184400000000000
-- p23 = 15000000000
-- p24 = 7
-- p25 = 1795184400
-- p26 = 1795188000
-- p27 = 1795184400123456789
-- p28 = 1795188000123456789
-- p29 = 10
