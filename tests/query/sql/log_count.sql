SELECT sum(spans) FROM (
SELECT count() AS spans FROM logs WHERE project_id = {p0:UInt64} AND toStartOfFiveMinutes(time) >= toDateTime({p1:UInt32}, 'UTC') AND toStartOfFiveMinutes(time) <= toDateTime({p2:UInt32}, 'UTC')
UNION ALL SELECT count() AS spans FROM logs WHERE project_id = {p0:UInt64} AND toStartOfFiveMinutes(time) >= toDateTime({p3:UInt32}, 'UTC') AND toStartOfFiveMinutes(time) <= toDateTime({p3:UInt32}, 'UTC') AND time >= fromUnixTimestamp64Nano({p4:Int64}, 'UTC') AND time < fromUnixTimestamp64Nano({p5:Int64}, 'UTC')
UNION ALL SELECT count() AS spans FROM logs WHERE project_id = {p0:UInt64} AND toStartOfFiveMinutes(time) >= toDateTime({p6:UInt32}, 'UTC') AND toStartOfFiveMinutes(time) <= toDateTime({p6:UInt32}, 'UTC') AND time >= fromUnixTimestamp64Nano({p7:Int64}, 'UTC') AND time < fromUnixTimestamp64Nano({p8:Int64}, 'UTC'))
-- p0 = 7
-- p1 = 1795184700
-- p2 = 1795187700
-- p3 = 1795184400
-- p4 = 1795184400123456789
-- p5 = 1795184700000000000
-- p6 = 1795188000
-- p7 = 1795188000000000000
-- p8 = 1795188000123456789
