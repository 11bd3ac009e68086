SELECT grp, sum(n) AS spans, uniqExactMerge(s) AS figure,
  groupArray((step, n, finalizeAggregation(s))) AS steps, count() OVER () AS groups
FROM (
SELECT greatest(duration, 0) AS grp,
  toUInt16(intDiv(toUnixTimestamp64Nano(start_time) - {p5:Int64}, {p6:Int64})) AS step,
  count() AS n,
  uniqExactStateIf(multiIf(position(attribute_types, {p1:String}) > 0, attributes[{p0:String}], position(attribute_types, {p3:String}) > 0, attributes[{p2:String}], position(resource, {p1:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p4:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03'), ''), (position(attribute_types, {p1:String}) > 0 OR position(attribute_types, {p3:String}) > 0 OR position(resource, {p1:String}) > 0)) AS s
FROM spans
WHERE project_id = {p7:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p8:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p9:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p10:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p11:Int64}, 'UTC')
GROUP BY grp, step)
GROUP BY grp
ORDER BY figure DESC NULLS LAST, concat(toString(intDiv(greatest(grp, 0), 1000000)), '.', leftPad(toString(greatest(grp, 0) % 1000000), 6, '0'))
LIMIT {p12:UInt64}
-- p0 = 'user.id'
-- p1 = '\x01user.id\x02'
-- p2 = 'resource.user.id'
-- p3 = '\x01resource.user.id\x02'
-- p4 = '(?s)\x01user\\.id\x02.([^\x01]*)'
-- p5 = 1795184400000000000
-- p6 = 300000000000
-- p7 = 7
-- p8 = 1795184400
-- p9 = 1795188000
-- p10 = 1795184400123456789
-- p11 = 1795188000123456789
-- p12 = 10
