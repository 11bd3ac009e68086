SELECT sum(spans) FROM (
SELECT count() AS spans FROM spans WHERE project_id = {p0:UInt64} AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p1:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p2:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p3:Int64}, 'UTC'))
-- p0 = 7
-- p1 = 1795188000
-- p2 = 1795188000123456788
-- p3 = 1795188000123456789
