SELECT place, key, value, cityHash64(place, key, value) AS pair, sum(held) AS spans,
  grouping(value) AS whole, uniqExact(value) AS distinct, arraySort(groupUniqArray(letter)) AS letters
FROM (
SELECT place, held,
  substring(entry, 1, position(entry, '\x02') - 1) AS key,
  substring(entry, position(entry, '\x02') + 1, 1) AS letter,
  substring(entry, position(entry, '\x02') + 2) AS value
FROM (
SELECT transform(grouping(attribute_types, resource, scope), [3, 5, 6], [0, 1, 2], 0) AS place,
  concat(attribute_types, resource, scope) AS list, count() AS held
FROM spans
WHERE project_id = {p0:UInt64}
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
    OR toStartOfFiveMinutes(start_time) >= toDateTime({p5:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p6:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p7:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p8:Int64}, 'UTC'))
GROUP BY GROUPING SETS ((attribute_types), (resource), (scope)))
ARRAY JOIN splitByChar('\x01', list) AS entry
WHERE entry != '')
GROUP BY GROUPING SETS ((place, key, value), (place, key))
HAVING whole OR (place > 0 AND pair IN {p9:Array(UInt64)})
ORDER BY whole DESC, spans DESC, place, key, value
LIMIT 50001
-- p0 = 7
-- p1 = 1795177200
-- p2 = 1795184400
-- p3 = 1795177200123456789
-- p4 = 1795184400123456789
-- p5 = 1795188000
-- p6 = 1795191600
-- p7 = 1795188000123456789
-- p8 = 1795191600123456789
-- p9 = []
