SELECT fingerprint, tupleElement(facet, 1) AS kind, tupleElement(facet, 2) AS value, sum(occurrences) AS total, toUnixTimestamp64Nano(min(first)), toUnixTimestamp64Nano(max(last)), count() OVER (PARTITION BY fingerprint, kind), argMinIf(value, (min(first), value), value != '') OVER (PARTITION BY fingerprint, kind), argMaxIf(value, (max(last), value), value != '') OVER (PARTITION BY fingerprint, kind)
FROM (
  SELECT fingerprint, release, environment, service_name, source, count() AS occurrences, min(time) AS first, max(time) AS last
  FROM error_occurrences
  WHERE project_id = {p0:UInt64}
    AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC')
    AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
    AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
    AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
    AND (environment = {p5:String})
    AND fingerprint IN (toFixedString(unhex({p6:String}), 16), toFixedString(unhex({p7:String}), 16))
  GROUP BY fingerprint, release, environment, service_name, source
)
ARRAY JOIN [(0, ''), (1, toString(release)), (2, toString(environment)), (3, toString(service_name)), (4, toString(source))] AS facet
GROUP BY fingerprint, kind, value
ORDER BY fingerprint, kind, total DESC, value
LIMIT {p8:UInt64} BY fingerprint, kind
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'prod'
-- p6 = '000102030405060708090a0b0c0d0e0f'
-- p7 = '101112131415161718191a1b1c1d1e1f'
-- p8 = 20
