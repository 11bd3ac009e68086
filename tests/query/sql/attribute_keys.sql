SELECT place.1 AS name, sum(place.2) AS carried, sum(place.3), sum(place.4) AS beneath, sum(place.5)
FROM (
SELECT CAST(key, 'String') AS key, toInt64(sum(spans)) AS spans, toInt64(sum(numeric)) AS numbers
FROM attribute_keys WHERE project_id = {p0:UInt64} AND bucket >= toDateTime({p1:UInt32}, 'UTC') AND bucket <= toDateTime({p2:UInt32}, 'UTC') AND attribute_keys.key != unhex('ff')
GROUP BY attribute_keys.key
UNION ALL
SELECT entry.1 AS key, toInt64(sum(rows)) AS spans, toInt64(sum(rows * entry.2)) AS numbers
FROM (SELECT arrayConcat(
    arrayMap(pair -> (concat('', replaceAll(replaceAll(replaceAll(pair[1], {p9:String}, {p10:String}), {p11:String}, {p12:String}), {p13:String}, {p14:String})), startsWith(pair[2], 'i') OR (startsWith(pair[2], 'd') AND substring(pair[2], 2) NOT IN ('NaN', 'Infinity', '-Infinity'))),
        arrayMap(entry -> splitByChar({p12:String}, entry),
            arrayFilter(entry -> entry != '', splitByChar({p10:String}, attribute_types)))),
    arrayMap(pair -> (concat('resource.', replaceAll(replaceAll(replaceAll(pair[1], {p9:String}, {p10:String}), {p11:String}, {p12:String}), {p13:String}, {p14:String})), startsWith(pair[2], 'i') OR (startsWith(pair[2], 'd') AND substring(pair[2], 2) NOT IN ('NaN', 'Infinity', '-Infinity'))),
        arrayMap(entry -> splitByChar({p12:String}, entry),
            arrayFilter(entry -> entry != '', splitByChar({p10:String}, resource)))),
    arrayMap(pair -> (concat('scope.', replaceAll(replaceAll(replaceAll(pair[1], {p9:String}, {p10:String}), {p11:String}, {p12:String}), {p13:String}, {p14:String})), startsWith(pair[2], 'i') OR (startsWith(pair[2], 'd') AND substring(pair[2], 2) NOT IN ('NaN', 'Infinity', '-Infinity'))),
        arrayMap(entry -> splitByChar({p12:String}, entry),
            arrayFilter(entry -> entry != '', splitByChar({p10:String}, scope)))),
    if(scope_name != '', [('scope.name', 0)], []),
    if(scope_version != '', [('scope.version', 0)], [])) AS found, rows
FROM (SELECT attribute_types, resource, scope, scope_name, scope_version, count() AS rows FROM spans
WHERE project_id = {p0:UInt64} AND ((toStartOfFiveMinutes(start_time) >= toDateTime({p3:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p3:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p4:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p5:Int64}, 'UTC')) OR (toStartOfFiveMinutes(start_time) >= toDateTime({p6:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p6:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p7:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p8:Int64}, 'UTC')))
GROUP BY attribute_types, resource, scope, scope_name, scope_version))
ARRAY JOIN arrayFilter((each, n) -> indexOf(found.1, each.1) = n, found, arrayEnumerate(found)) AS entry
GROUP BY key
UNION ALL
SELECT arrayJoin(arrayFilter(
    (name, text) -> text IN ('NaN', 'Infinity', '-Infinity') AND position(attribute_types, concat({p10:String}, replaceAll(replaceAll(replaceAll(name, {p14:String}, {p13:String}), {p12:String}, {p11:String}), {p10:String}, {p9:String}), {p15:String})) > 0,
    mapKeys(attributes), mapValues(attributes))) AS key, 0 AS spans, -1 AS numbers
FROM spans WHERE project_id = {p0:UInt64} AND ((toStartOfFiveMinutes(start_time) >= toDateTime({p3:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p3:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p4:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p5:Int64}, 'UTC')) OR (toStartOfFiveMinutes(start_time) >= toDateTime({p6:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p6:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p7:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p8:Int64}, 'UTC'))) AND position(attribute_types, {p15:String}) > 0
)
ARRAY JOIN if(startsWith(key, 'resource.'), [(key, spans, numbers, 0, 0), (substring(key, 10), 0, 0, spans, numbers)], [(key, spans, numbers, 0, 0)]) AS place
GROUP BY name
HAVING carried > 0 AND lengthUTF8(name) BETWEEN 1 AND {p16:UInt32}
ORDER BY carried + beneath DESC, name
LIMIT {p17:UInt64}
-- p0 = 7
-- p1 = 1795184700
-- p2 = 1795187700
-- p3 = 1795184400
-- p4 = 1795184400123456789
-- p5 = 1795184700000000000
-- p6 = 1795188000
-- p7 = 1795188000000000000
-- p8 = 1795188000123456789
-- p9 = '\x03A'
-- p10 = '\x01'
-- p11 = '\x03B'
-- p12 = '\x02'
-- p13 = '\x03C'
-- p14 = '\x03'
-- p15 = '\x02d\x01'
-- p16 = 256
-- p17 = 10001
