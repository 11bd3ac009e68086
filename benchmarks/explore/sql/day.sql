-- The spans of benchmarks.storage, with what explore is for. In the last twelve minutes the traces of one flag are slow, and
-- three in five of their spans went through a queue that nobody used before. Exceptions are of twelve kinds. Beside the
-- traces of eight spans there are some of 20, of 1 000 and of 10 000 ({long}).
SELECT * REPLACE (
    if(start_time >= fromUnixTimestamp64Nano({spike}, 'UTC') AND attributes['app.flag'] = 'blue', duration * 8, duration) AS duration,
    if(start_time >= fromUnixTimestamp64Nano({spike}, 'UTC') AND attributes['app.flag'] = 'blue' AND row % 5 < 3,
        mapUpdate(attributes, map('app.queue', 'queue-backed-up')), attributes) AS attributes,
    replaceOne(replaceOne(events, 'TimeoutError', ['Timeout', 'Connection', 'Parse', 'Payment', 'Stock', 'Login', 'Value', 'Key', 'Type', 'State', 'Access', 'Limit'][1 + row % 12] || 'Error'),
        'inventory', ['inventory', 'payment', 'search'][1 + row % 3]) AS events
)
FROM {source}
UNION ALL
{long}
