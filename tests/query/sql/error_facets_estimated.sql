WITH kinds AS (
SELECT fingerprint, tupleElement(facet, 1) AS kind, topK(20)(tupleElement(facet, 2)) AS frequent, uniqCombined64(14)(tupleElement(facet, 2)) AS values, argMinIf(tupleElement(facet, 2), (time, tupleElement(facet, 2)), tupleElement(facet, 2) != '') AS first_value, argMaxIf(tupleElement(facet, 2), (time, tupleElement(facet, 2)), tupleElement(facet, 2) != '') AS last_value
FROM error_occurrences
ARRAY JOIN [(0, ''), (1, toString(release)), (2, toString(environment)), (3, toString(service_name)), (4, toString(source))] AS facet
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (environment = {p5:String})
  AND fingerprint IN (toFixedString(unhex({p6:String}), 16), toFixedString(unhex({p7:String}), 16))
GROUP BY fingerprint, kind
), found AS (
SELECT fingerprint, tupleElement(facet, 1) AS kind, tupleElement(facet, 2) AS value, count() AS total, toUnixTimestamp64Nano(min(time)) AS first, toUnixTimestamp64Nano(max(time)) AS last
FROM error_occurrences
ARRAY JOIN [(0, ''), (1, toString(release)), (2, toString(environment)), (3, toString(service_name)), (4, toString(source))] AS facet
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
  AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND (environment = {p5:String})
  AND fingerprint IN (toFixedString(unhex({p6:String}), 16), toFixedString(unhex({p7:String}), 16))
  AND (fingerprint, tupleElement(facet, 1), tupleElement(facet, 2)) GLOBAL IN (SELECT fingerprint, kind, arrayJoin(frequent) FROM kinds)
GROUP BY fingerprint, kind, value
)
SELECT fingerprint, kind, value, total, first, last, values, first_value, last_value
FROM found INNER JOIN kinds USING (fingerprint, kind)
ORDER BY fingerprint, kind, total DESC, value
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'prod'
-- p6 = '000102030405060708090a0b0c0d0e0f'
-- p7 = '101112131415161718191a1b1c1d1e1f'
