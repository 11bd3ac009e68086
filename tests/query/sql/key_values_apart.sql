SELECT source, uniqUpTo(50)(pair)
FROM (
SELECT source, value, cityHash64(source, value) AS pair
FROM (SELECT [toString(attributes[{p0:String}]),
  toString(attributes[{p2:String}])] AS texts, [position(attribute_types, {p1:String}) > 0, position(attribute_types, {p3:String}) > 0] AS places
FROM spans
WHERE project_id = {p4:UInt64}
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p5:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p6:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p7:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p8:Int64}, 'UTC')
    OR toStartOfFiveMinutes(start_time) >= toDateTime({p9:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p10:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p11:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p12:Int64}, 'UTC')))
ARRAY JOIN range(2) AS source, texts AS value, places AS present
WHERE present)
GROUP BY source
ORDER BY source
-- p0 = 'a'
-- p1 = '\x01a\x02'
-- p2 = "'"
-- p3 = "\x01'\x02"
-- p4 = 7
-- p5 = 1795177200
-- p6 = 1795184400
-- p7 = 1795177200123456789
-- p8 = 1795184400123456789
-- p9 = 1795188000
-- p10 = 1795191600
-- p11 = 1795188000123456789
-- p12 = 1795191600123456789
