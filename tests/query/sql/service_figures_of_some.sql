SELECT service_name, count() AS held, countIf(kind IN (2, 5)), countIf(kind IN (2, 5) AND status_code = 2),
  sumIf(toInt128(greatest(duration, 0)), kind IN (2, 5)),
  max((position(attribute_types, {p10:String}) > 0 OR position(resource, {p8:String}) > 0))
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND CRC32(trace_id) % {p5:UInt32} = 0
  AND service_name IN {p6:Array(String)}
  AND ((position(attribute_types, {p8:String}) > 0 AND ((position(attribute_types, concat({p8:String}, 'i')) > 0 OR (position(attribute_types, concat({p8:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p7:String}])))) AND toFloat64OrZero(attributes[{p7:String}]) >= {p12:Float64})) OR position(attribute_types, {p10:String}) > 0 OR position(resource, {p8:String}) > 0)
  AND (environment = {p13:String})
GROUP BY service_name
ORDER BY held DESC, service_name
LIMIT {p14:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 3
-- p6 = ['cart', "it's"]
-- p7 = 'http.status_code'
-- p8 = '\x01http.status_code\x02'
-- p10 = '\x01resource.http.status_code\x02'
-- p12 = 500.0
-- p13 = 'prod'
-- p14 = 2
