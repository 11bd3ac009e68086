SELECT source, sum(spans), count(),
  arraySlice(arraySort(p -> (-toInt64(p.3), p.2),
    groupArrayIf((pair, value, spans), (spans >= {p0:UInt64} AND lengthUTF8(value) <= 1024))), 1, 1001)
FROM (
SELECT any(source) AS source, any(value) AS value, pair, count() AS spans
FROM (
SELECT key AS source, value, cityHash64(key, value) AS pair
FROM (SELECT mapKeys(attributes) AS keys, mapValues(attributes) AS texts
FROM spans
WHERE project_id = {p1:UInt64}
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p2:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p3:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p4:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p5:Int64}, 'UTC'))
  AND (['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'][kind + 1] = {p6:String}))
ARRAY JOIN keys AS key, texts AS value
WHERE key IN {p7:Array(String)})
GROUP BY pair)
GROUP BY source
ORDER BY source
-- p0 = 5
-- p1 = 7
-- p2 = 1795184400
-- p3 = 1795188000
-- p4 = 1795184400123456789
-- p5 = 1795188000123456789
-- p6 = 'SERVER'
-- p7 = ['http.route', "'"]
