SELECT key, value, cityHash64(key, value) AS pair, sum(held) AS spans, grouping(value) AS whole
FROM (
SELECT grouping(name, service_name, kind, status_code, environment, release, scope_name, scope_version) AS place,
  multiIf(place = 127, 'name', place = 191, 'serviceName', place = 223, 'kind', place = 239, 'statusCode', place = 247, 'environment', place = 251, 'release', place = 253, 'scope.name', 'scope.version') AS key,
  multiIf(place = 127, name, place = 191, service_name, place = 223, ['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'][kind + 1], place = 239, ['UNSET', 'OK', 'ERROR'][status_code + 1], place = 247, environment, place = 251, release, place = 253, scope_name, scope_version) AS value,
  multiIf(place = 127, 1, place = 191, service_name != '', place = 223, 1, place = 239, 1, place = 247, 1, place = 251, release != '', place = 253, scope_name != '', scope_version != '') AS present,
  count() AS held
FROM spans
WHERE project_id = {p0:UInt64}
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
    OR toStartOfFiveMinutes(start_time) >= toDateTime({p5:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p6:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p7:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p8:Int64}, 'UTC'))
GROUP BY GROUPING SETS ((name), (service_name), (kind), (status_code), (environment), (release), (scope_name), (scope_version)))
WHERE present
GROUP BY GROUPING SETS ((key, value), (key))
HAVING if(whole = 1, key IN ('scope.name', 'scope.version'), pair IN {p9:Array(UInt64)})
ORDER BY whole DESC, spans DESC, key, value
LIMIT 5003
-- p0 = 7
-- p1 = 1795177200
-- p2 = 1795184400
-- p3 = 1795177200123456789
-- p4 = 1795184400123456789
-- p5 = 1795188000
-- p6 = 1795191600
-- p7 = 1795188000123456789
-- p8 = 1795191600123456789
-- p9 = [18446744073709551615, 1]
