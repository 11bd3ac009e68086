SELECT source, sum(spans), count(),
  arraySlice(arraySort(p -> (-toInt64(p.3), p.2),
    groupArrayIf((pair, value, spans), (spans >= {p0:UInt64} AND lengthUTF8(value) <= 1024))), 1, 1001)
FROM (
SELECT any(source) AS source, any(value) AS value, pair, count() AS spans
FROM (
SELECT source, value, cityHash64(source, value) AS pair
FROM (SELECT [toString(concat(toString(intDiv(greatest(duration, 0), 1000000)), '.', leftPad(toString(greatest(duration, 0) % 1000000), 6, '0'))),
  toString(release),
  toString(multiIf(position(attribute_types, {p2:String}) > 0, attributes[{p1:String}], position(attribute_types, {p4:String}) > 0, attributes[{p3:String}], position(resource, {p2:String}) > 0, replaceAll(replaceAll(replaceAll(extract(resource, {p5:String}), '\x03A', '\x01'), '\x03B', '\x02'), '\x03C', '\x03'), ''))] AS texts, [1, release != '', (position(attribute_types, {p2:String}) > 0 OR position(attribute_types, {p4:String}) > 0 OR position(resource, {p2:String}) > 0)] AS places
FROM spans
WHERE project_id = {p6:UInt64}
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p7:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p8:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p9:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p10:Int64}, 'UTC'))
  AND (['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'][kind + 1] = {p11:String}))
ARRAY JOIN range(3) AS source, texts AS value, places AS present
WHERE present)
GROUP BY pair)
GROUP BY source
ORDER BY source
-- p0 = 5
-- p1 = 'host'
-- p2 = '\x01host\x02'
-- p3 = 'resource.host'
-- p4 = '\x01resource.host\x02'
-- p5 = '(?s)\x01host\x02.([^\x01]*)'
-- p6 = 7
-- p7 = 1795184400
-- p8 = 1795188000
-- p9 = 1795184400123456789
-- p10 = 1795188000123456789
-- p11 = 'SERVER'
