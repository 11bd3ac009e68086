-- {count} traces of {size} spans each, in the last hour of the day: thirty seconds long, four children to a span.
SELECT * EXCEPT (copy) REPLACE (
    toUInt64(1) AS project_id,
    fromUnixTimestamp64Nano(toInt64({start} + copy * 60000000000 + row * intDiv(30000000000, {size})), 'UTC') AS start_time,
    reinterpretAsFixedString(sipHash128('long', {size}, copy)) AS trace_id,
    reinterpretAsFixedString(cityHash64('long', {size}, copy, row)) AS span_id,
    if(row = 0, toFixedString('', 8), reinterpretAsFixedString(cityHash64('long', {size}, copy, intDiv(row - 1, 4)))) AS parent_span_id,
    cityHash64('long', {size}, copy) AS batch_id
)
FROM (SELECT toUInt32({block}) AS block, one.*, copies.number AS copy FROM ({spans}) AS one CROSS JOIN numbers({count}) AS copies)
