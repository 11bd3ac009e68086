SELECT if(key = unhex('ff'), '', toString(key)) AS name, sum(spans), sum(numeric)
FROM attribute_keys
WHERE project_id = {p0:UInt64}
  AND bucket >= toDateTime({p1:UInt32}, 'UTC')
  AND bucket <= toDateTime({p2:UInt32}, 'UTC')
  AND key != ''
GROUP BY key
LIMIT {p3:UInt64}
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 10001
