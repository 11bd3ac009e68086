SELECT count(), 0
FROM spans
WHERE project_id = {p0:UInt64}
  AND (toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
    OR toStartOfFiveMinutes(start_time) >= toDateTime({p5:UInt32}, 'UTC') AND toStartOfFiveMinutes(start_time) <= toDateTime({p6:UInt32}, 'UTC') AND start_time >= fromUnixTimestamp64Nano({p7:Int64}, 'UTC') AND start_time < fromUnixTimestamp64Nano({p8:Int64}, 'UTC'))
-- p0 = 7
-- p1 = 1795177200
-- p2 = 1795184400
-- p3 = 1795177200123456789
-- p4 = 1795184400123456789
-- p5 = 1795188000
-- p6 = 1795191600
-- p7 = 1795188000123456789
-- p8 = 1795191600123456789
