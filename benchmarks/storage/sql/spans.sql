-- Spans number {first} to {first} + {count} of {rows} in one day, in the order in which they arrive; a function of their number alone.
-- 5 projects, the first sends four fifths; 25 services of 12 operations; traces of 8 spans. 12 attributes of text, two
-- of them like identifiers (a user out of 200 000, an order that is new with each trace), 3 numbers, and for one span in
-- 2 000 a rare attribute. 8 attributes of the resource. One span in 33 failed and carries an exception event.
WITH
    intDiv(number, 8) AS trace,
    number % 8 AS step,
    (x -> (cityHash64('unit', x) % 1000003) / 1000003) AS unit,
    if(cityHash64('project', trace) % 5 < 4, 1, 2 + cityHash64('small', trace) % 4) AS project,
    toUInt32(pow(400, unit(trace))) - 1 AS template,                      -- the one at rank r as often as 1 / r
    (template * 7 + intDiv(step, 2) * 3) % 25 AS service,
    (template + step * 5) % 12 AS operation,
    cityHash64('failed', number) % 33 = 0 AS failed,
    cityHash64('instance', number) % 4 AS instance,
    concat('svc-', toString(service)) AS service_name_,
    concat('2.', toString(service % 4), '.', toString(intDiv(number * 3, {rows}))) AS release_,
    if(service % 9 = 0, 'staging', 'production') AS environment_,
    [200, 200, 200, 200, 201, 204, 304, 404][1 + number % 8] AS usual,
    toString(if(failed, 500 + number % 4, usual)) AS code,
    toString(toUInt32(exp(5 + 7 * unit(number)))) AS bytes,
    toString(toUInt32(pow(100000, unit(number + 1))) / 100) AS total
SELECT
    toUInt64(project) AS project_id,
    fromUnixTimestamp64Nano(
        toInt64(1795132800000000000 + trace * intDiv(86400000000000 * 8, {rows}) + step * 1700000
            + cityHash64('start', number) % 1500000), 'UTC') AS start_time,
    toInt64(exp(11 + service % 5 + 4.8 * unit(number + 2))) AS duration,
    reinterpretAsFixedString(sipHash128(trace)) AS trace_id,
    reinterpretAsFixedString(cityHash64('span', number)) AS span_id,
    if(step = 0, toFixedString('', 8), reinterpretAsFixedString(cityHash64('span', trace * 8 + intDiv(step - 1, 2)))) AS parent_span_id,
    '' AS trace_state,
    toUInt32(257) AS flags,
    concat(['GET', 'GET', 'POST', 'PUT', 'GET', 'DELETE'][1 + operation % 6], ' /api/v', toString(1 + service % 3), '/things-', toString(operation), '/{id}') AS name,
    toUInt8(1 + number % 5) AS kind,
    toUInt8(if(failed, 2, 0)) AS status_code,
    if(failed, 'no answer from inventory within 2 s', '') AS status_message,
    if(failed, '[{"time":"2026-11-20T12:00:00.000000000Z","name":"exception","attributes":{"exception.type":"TimeoutError","exception.message":"no answer from inventory within 2 s"}}]', '') AS events,
    toUInt32(0) AS dropped_events_count,
    '' AS links,
    toUInt32(0) AS dropped_links_count,
    service_name_ AS service_name,
    environment_ AS environment,
    release_ AS release,
    mapConcat(
        map(
            'http.request.method', ['GET', 'GET', 'POST', 'PUT', 'GET', 'DELETE'][1 + operation % 6],
            'http.route', concat('/api/v', toString(1 + service % 3), '/things-', toString(operation), '/{id}'),
            'url.scheme', 'https',
            'server.address', concat(service_name_, '.shop.example'),
            'user_agent.original', concat('Mozilla/5.0 (X11; Linux x86_64) Browser/', toString(100 + cityHash64('agent', trace) % 40), '.0'),
            'network.protocol.version', ['1.1', '2', '2', '3'][1 + trace % 4],
            'cloud.zone', ['eu-1a', 'eu-1b', 'eu-1c', 'us-1a', 'us-1b', 'us-1c'][1 + (service + instance) % 6],
            'app.tenant', concat('tenant-', toString(toUInt32(pow(500, unit(trace + 3))) - 1)),
            'app.flag', ['control', 'blue', 'green', 'off'][1 + cityHash64('flag', trace) % 4],
            'app.queue', concat('queue-', toString((service + operation) % 17)),
            'enduser.id', concat('user-', toString(cityHash64('user', trace) % 200000)),
            'app.order.id', lower(hex(cityHash64('order', trace))),
            'http.response.status_code', code,
            'http.response.body.size', bytes,
            'app.cart.total', total),
        if(number % 2000 = 77, map('app.debug.reason', 'sampled by hand'), CAST(map(), 'Map(String, String)'))) AS attributes,
    concat(
        '\x01', arrayStringConcat(arrayMap(key -> concat(key, '\x02', if(has(mapKeys(numbers), key), 'i', 's')), mapKeys(attributes)), '\x01'), '\x01') AS attribute_types,
    map('http.response.status_code', toFloat64(code), 'http.response.body.size', toFloat64(bytes), 'app.cart.total', toFloat64(total)) AS numbers,
    toUInt32(0) AS dropped_attributes_count,
    map(
        'service.name', service_name_,
        'service.version', release_,
        'deployment.environment.name', environment_,
        'host.name', concat('node-', toString((service * 4 + instance) % 60)),
        'k8s.pod.name', concat(service_name_, '-7d9f', lower(hex(toUInt16(service * 977 + instance * 13)))),
        'telemetry.sdk.name', 'opentelemetry',
        'telemetry.sdk.language', ['java', 'go', 'python', 'nodejs'][1 + service % 4],
        'telemetry.sdk.version', ['1.58.0', '1.41.0', '1.45.2', '2.4.0'][1 + service % 4]) AS resource_attributes,
    concat(
        '\x01', arrayStringConcat(arrayMap((key, text) -> concat(key, '\x02s', text), mapKeys(resource_attributes), mapValues(resource_attributes)), '\x01'), '\x01') AS resource,
    toUInt32(0) AS resource_dropped_attributes_count,
    'https://opentelemetry.io/schemas/1.36.0' AS resource_schema_url,
    '' AS entity_refs,
    concat('example.instrumentation.', toString(service % 7)) AS scope_name,
    '0.61b0' AS scope_version,
    '' AS scope,
    toUInt32(0) AS scope_dropped_attributes_count,
    '' AS scope_schema_url,
    '' AS truncations,
    cityHash64('batch', intDiv(number, {block})) AS batch_id,
    toUInt32(number % {block}) AS row
FROM numbers({first}, {count})
