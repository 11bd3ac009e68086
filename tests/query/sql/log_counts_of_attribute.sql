SELECT grp, sum(n) AS spans, sum(n) AS figure,
  groupArray((step, n, n)) AS steps, count() OVER () AS groups,
  max(max(overlooked)) OVER ()
FROM (
SELECT if((position(attribute_types, {p1:String}) > 0 OR position(resource, {p1:String}) > 0), multiIf(position(attribute_types, {p1:String}) > 0, attributes[{p0:String}], position(resource, {p1:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p4:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03'), ''), NULL) AS grp,
  toUInt16(intDiv(toUnixTimestamp64Nano(time) - {p5:Int64}, {p6:Int64})) AS step,
  count() AS n,
  max((position(attribute_types, {p3:String}) > 0)) AS overlooked
FROM logs
WHERE project_id = {p7:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p8:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p9:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p10:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p11:Int64}, 'UTC')
  AND (severity_number >= {p12:Int64})
  AND ((position(attribute_types, {p1:String}) > 0 OR position(resource, {p1:String}) > 0) OR position(attribute_types, {p3:String}) > 0)
GROUP BY grp, step)
GROUP BY grp
ORDER BY figure DESC NULLS LAST, grp ASC NULLS LAST
LIMIT {p13:UInt64}
-- p0 = 'http.route'
-- p1 = '\x01http.route\x02'
-- p3 = '\x01resource.http.route\x02'
-- p4 = '(?s)\x01http\\.route\x02.([^\x01]*)'
-- p5 = 1795184400000000000
-- p6 = 300000000000
-- p7 = 7
-- p8 = 1795184400
-- p9 = 1795188000
-- p10 = 1795184400123456789
-- p11 = 1795188000123456789
-- p12 = 17
-- p13 = 10
