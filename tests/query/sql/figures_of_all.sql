SELECT grp0, sum(n) AS spans,
  if(sum(n0) = 0, NULL, maxIf(s0, n0 > 0)) AS figure0,
  sum(m1) AS figure1,
  uniqExactMerge(s2) AS figure2,
  if(sum(n1) = 0, NULL, if(sum(m3) = 0 OR NOT isFinite(quantilesExactMerge(0.949999999995, 0.998999999995)(s3)[1]), NULL, quantilesExactMerge(0.949999999995, 0.998999999995)(s3)[1] + 0.)) AS figure3,
  if(sum(n1) = 0, NULL, if(sum(m3) = 0 OR NOT isFinite(quantilesExactMerge(0.949999999995, 0.998999999995)(s3)[2]), NULL, quantilesExactMerge(0.949999999995, 0.998999999995)(s3)[2] + 0.)) AS figure4,
  CAST(NULL, 'Nullable(Float64)') AS figure5,
  groupArray((step, n, if(n0 = 0, NULL, s0), m1, finalizeAggregation(s2), if(n1 = 0, NULL, if(m3 = 0 OR NOT isFinite(finalizeAggregation(s3)[1]), NULL, finalizeAggregation(s3)[1] + 0.)), if(n1 = 0, NULL, if(m3 = 0 OR NOT isFinite(finalizeAggregation(s3)[2]), NULL, finalizeAggregation(s3)[2] + 0.)), CAST(NULL, 'Nullable(Float64)'))) AS steps, count() OVER () AS groups
FROM (
WITH ((['UNSET', 'OK', 'ERROR'][status_code + 1] = {p10:String})) AS covered0, ((multiIf(position(attribute_types, {p12:String}) > 0, (position(attribute_types, concat({p12:String}, 'i')) > 0 OR (position(attribute_types, concat({p12:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p11:String}])))) AND toFloat64OrZero(attributes[{p11:String}]) >= {p16:Float64}, position(attribute_types, {p14:String}) > 0, (position(attribute_types, concat({p14:String}, 'i')) > 0 OR (position(attribute_types, concat({p14:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p13:String}])))) AND toFloat64OrZero(attributes[{p13:String}]) >= {p16:Float64}, position(resource, {p12:String}) > 0, (position(resource, concat({p12:String}, 'i')) > 0 OR (position(resource, concat({p12:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p15:String}))))) AND toFloat64OrZero(extract(resource, {p15:String})) >= {p16:Float64}, 0))) AS covered1
SELECT 0 AS grp0,
  toUInt16(intDiv(toUnixTimestamp64Nano(start_time) - {p17:Int64}, {p18:Int64})) AS step,
  count() AS n,
  countIf(covered0) AS n0,
  maxIf(greatest(duration, 0), covered0) AS s0,
  countIf((covered0 AND (position(attribute_types, {p1:String}) > 0 OR position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0))) AS m1,
  countIf(covered1) AS n1,
  uniqExactStateIf(multiIf(position(attribute_types, {p6:String}) > 0, attributes[{p5:String}], position(attribute_types, {p8:String}) > 0, attributes[{p7:String}], position(resource, {p6:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p9:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03'), ''), (covered1 AND (position(attribute_types, {p6:String}) > 0 OR position(attribute_types, {p8:String}) > 0 OR position(resource, {p6:String}) > 0))) AS s2,
  countIf((covered1 AND multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0))) AS m3,
  quantilesExactStateIf(0.949999999995, 0.998999999995)(multiIf(position(attribute_types, {p1:String}) > 0, toFloat64OrZero(attributes[{p0:String}]), position(attribute_types, {p3:String}) > 0, toFloat64OrZero(attributes[{p2:String}]), position(resource, {p1:String}) > 0, toFloat64OrZero(extract(resource, {p4:String})), 0.), (covered1 AND multiIf(position(attribute_types, {p1:String}) > 0, (position(attribute_types, concat({p1:String}, 'i')) > 0 OR (position(attribute_types, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p0:String}])))), position(attribute_types, {p3:String}) > 0, (position(attribute_types, concat({p3:String}, 'i')) > 0 OR (position(attribute_types, concat({p3:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p2:String}])))), position(resource, {p1:String}) > 0, (position(resource, concat({p1:String}, 'i')) > 0 OR (position(resource, concat({p1:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(extract(resource, {p4:String}))))), 0))) AS s3
FROM spans
WHERE project_id = {p19:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p20:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p21:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p22:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p23:Int64}, 'UTC')
GROUP BY grp0, step)
GROUP BY grp0
ORDER BY figure0 DESC NULLS LAST
LIMIT {p24:UInt64}
-- p0 = 'size'
-- p1 = '\x01size\x02'
-- p2 = 'resource.size'
-- p3 = '\x01resource.size\x02'
-- p4 = '(?s)\x01size\x02.([^\x01]*)'
-- p5 = 'user.id'
-- p6 = '\x01user.id\x02'
-- p7 = 'resource.user.id'
-- p8 = '\x01resource.user.id\x02'
-- p9 = '(?s)\x01user\\.id\x02.([^\x01]*)'
-- p10 = 'ERROR'
-- p11 = 'http.status_code'
-- p12 = '\x01http.status_code\x02'
-- p13 = 'resource.http.status_code'
-- p14 = '\x01resource.http.status_code\x02'
-- p15 = '(?s)\x01http\\.status_code\x02.([^\x01]*)'
-- p16 = 500.0
-- p17 = 1795184400000000000
-- p18 = 15000000000
-- p19 = 7
-- p20 = 1795184400
-- p21 = 1795188000
-- p22 = 1795184400123456789
-- p23 = 1795188000123456789
-- p24 = 1
