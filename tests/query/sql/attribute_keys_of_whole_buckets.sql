SELECT place.1 AS name, sum(place.2) AS carried, sum(place.3), sum(place.4) AS beneath, sum(place.5)
FROM (
SELECT CAST(key, 'String') AS key, toInt64(sum(spans)) AS spans, toInt64(sum(numeric)) AS numbers
FROM attribute_keys WHERE project_id = {p0:UInt64} AND bucket >= toDateTime({p1:UInt32}, 'UTC') AND bucket <= toDateTime({p2:UInt32}, 'UTC') AND attribute_keys.key != unhex('ff')
GROUP BY attribute_keys.key
)
ARRAY JOIN if(startsWith(key, 'resource.'), [(key, spans, numbers, 0, 0), (substring(key, 10), 0, 0, spans, numbers)], [(key, spans, numbers, 0, 0)]) AS place
GROUP BY name
HAVING carried > 0 AND lengthUTF8(name) BETWEEN 1 AND {p3:UInt32}
ORDER BY carried + beneath DESC, name
LIMIT {p4:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795187700
-- p3 = 256
-- p4 = 10001
