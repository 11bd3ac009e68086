SELECT attribute_types, replaceRegexpAll(replaceRegexpAll(resource, {p5:String}, {p6:String}), {p7:String}, {p8:String}) AS resource_types, replaceRegexpAll(replaceRegexpAll(scope, {p5:String}, {p6:String}), {p7:String}, {p8:String}) AS scope_types, scope_name != '' AS named, scope_version != '' AS versioned, count()
FROM logs
WHERE project_id = {p0:UInt64}
  AND ((toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC') AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC') AND time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC') AND time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')))
GROUP BY attribute_types, resource_types, scope_types, named, versioned
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = '\x02d(?:NaN|-?Infinity)\x01'
-- p6 = '\x02s\x01'
-- p7 = '\x02(.)[^\x01]*'
-- p8 = '\x02\\1'
