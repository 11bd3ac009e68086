SELECT signal, toUnixTimestamp64Nano(min(min_time)), toUnixTimestamp64Nano(max(max_time))
FROM trace_index
WHERE project_id = {p0:UInt64}
  AND trace_id = toFixedString(unhex({p1:String}), 16)
GROUP BY signal
-- p0 = 7
-- p1 = '000102030405060708090a0b0c0d0e0f'
