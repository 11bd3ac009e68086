-- The telemetry tables. Every row of a table belongs to one insert block (batch_id) and is numbered in it (row).
-- Partitions are days of the row's own time in UTC; the gateway sends one block per table and day. All times are UTC.
-- non_replicated_deduplication_window makes a repeated block with the same token a no-op on a plain MergeTree
-- (the default, 0, would store it twice). {fsync} is 1 on the embedded engine, where no replica holds a second copy.
-- stored_time: when ClickHouse stored the row, one value per insert. With batch_id and row it is the row's position in storage
-- order, which followers read by (docs/adr/020-storage-order.md). The gateway sends a floor with each insert, in its
-- log_comment: `sluice:insert:SECONDS.MICROSECONDS`. A reader of what was stored last skips all older granules.
-- {retention:EXPR} becomes the TTL of the retention setting, or nothing where rows are kept for ever. {bucketed} splits
-- the Maps of merged parts by key, so that a reader of one attribute reads little else; nothing where ClickHouse cannot.

CREATE TABLE IF NOT EXISTS spans
(
    project_id                        UInt64 CODEC(Delta, ZSTD(1)),
    start_time                        DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    -- end minus start in nanoseconds, negative where a clock ran backwards; readers show greatest(duration, 0)
    duration                          Int64 CODEC(ZSTD(1)),
    trace_id                          FixedString(16) CODEC(ZSTD(1)),
    span_id                           FixedString(8) CODEC(ZSTD(1)),
    -- all zero: a root span
    parent_span_id                    FixedString(8) CODEC(ZSTD(1)),
    trace_state                       String CODEC(ZSTD(1)),
    flags                             UInt32 CODEC(ZSTD(1)),
    name                              LowCardinality(String) CODEC(ZSTD(1)),
    kind                              UInt8 CODEC(ZSTD(1)),
    status_code                       UInt8 CODEC(ZSTD(1)),
    status_message                    String CODEC(ZSTD(1)),
    service_name                      LowCardinality(String) CODEC(ZSTD(1)),
    environment                       LowCardinality(String) CODEC(ZSTD(1)),
    release                           LowCardinality(String) CODEC(ZSTD(1)),
    -- every attribute in its canonical text; attribute_types has their keys in order with their types (docs/codec.md)
    attributes                        Map(LowCardinality(String), String) CODEC(ZSTD(3)),
    attribute_types                   LowCardinality(String) CODEC(ZSTD(1)),
    dropped_attributes_count          UInt32 CODEC(ZSTD(1)),
    -- JSON lists, empty string for none
    events                            String CODEC(ZSTD(1)),
    dropped_events_count              UInt32 CODEC(ZSTD(1)),
    links                             String CODEC(ZSTD(1)),
    dropped_links_count               UInt32 CODEC(ZSTD(1)),
    -- all attributes of the resource, with their types, as one text: readers evaluate it once per dictionary entry
    resource                          LowCardinality(String) CODEC(ZSTD(1)),
    resource_dropped_attributes_count UInt32 CODEC(ZSTD(1)),
    resource_schema_url               LowCardinality(String) CODEC(ZSTD(1)),
    entity_refs                       LowCardinality(String) CODEC(ZSTD(1)),
    scope_name                        LowCardinality(String) CODEC(ZSTD(1)),
    scope_version                     LowCardinality(String) CODEC(ZSTD(1)),
    scope                             LowCardinality(String) CODEC(ZSTD(1)),
    scope_dropped_attributes_count    UInt32 CODEC(ZSTD(1)),
    scope_schema_url                  LowCardinality(String) CODEC(ZSTD(1)),
    -- what was cut: a JSON list of the path and the size as sent of each text; empty text for nothing (docs/codec.md)
    truncations                       String CODEC(ZSTD(1)),
    batch_id                          UInt64 CODEC(ZSTD(1)),
    row                               UInt32 CODEC(Delta, ZSTD(1)),
    stored_time                       DateTime64(6, 'UTC')
        DEFAULT if(startsWith(getSetting('log_comment'), 'sluice:insert:'),
                   greatest(now64(6, 'UTC'), toDateTime64OrZero(substring(getSetting('log_comment'), 15), 6, 'UTC')),
                   toDateTime64(0, 6, 'UTC'))
        CODEC(ZSTD(1)),
    INDEX stored_time_minmax stored_time TYPE minmax GRANULARITY 1,
    INDEX trace_id_bloom trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX duration_minmax duration TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(start_time)
ORDER BY (project_id, toStartOfFiveMinutes(start_time), service_name, name, start_time)
{retention:toDate(start_time)}
SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
         fsync_after_insert = {fsync}, fsync_part_directory = {fsync}{bucketed};

CREATE TABLE IF NOT EXISTS logs
(
    project_id                        UInt64 CODEC(Delta, ZSTD(1)),
    -- time_unix_nano, else observed_time_unix_nano, else the time of receipt: time_source 0, 1, 2 says which
    time                              DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    time_source                       UInt8 CODEC(ZSTD(1)),
    -- 1970-01-01 where the record carries none
    observed_time                     DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    -- all zero: the record belongs to no trace
    trace_id                          FixedString(16) CODEC(ZSTD(1)),
    span_id                           FixedString(8) CODEC(ZSTD(1)),
    flags                             UInt32 CODEC(ZSTD(1)),
    severity_number                   UInt8 CODEC(ZSTD(1)),
    severity_text                     LowCardinality(String) CODEC(ZSTD(1)),
    event_name                        LowCardinality(String) CODEC(ZSTD(1)),
    body                              String CODEC(ZSTD(1)),
    -- the type letter of docs/codec.md: s, i, d, b, x, a, m, n
    body_type                         LowCardinality(String) CODEC(ZSTD(1)),
    service_name                      LowCardinality(String) CODEC(ZSTD(1)),
    environment                       LowCardinality(String) CODEC(ZSTD(1)),
    release                           LowCardinality(String) CODEC(ZSTD(1)),
    attributes                        Map(LowCardinality(String), String) CODEC(ZSTD(3)),
    attribute_types                   LowCardinality(String) CODEC(ZSTD(1)),
    dropped_attributes_count          UInt32 CODEC(ZSTD(1)),
    -- all attributes of the resource, with their types, as one text: readers evaluate it once per dictionary entry
    resource                          LowCardinality(String) CODEC(ZSTD(1)),
    resource_dropped_attributes_count UInt32 CODEC(ZSTD(1)),
    resource_schema_url               LowCardinality(String) CODEC(ZSTD(1)),
    entity_refs                       LowCardinality(String) CODEC(ZSTD(1)),
    scope_name                        LowCardinality(String) CODEC(ZSTD(1)),
    scope_version                     LowCardinality(String) CODEC(ZSTD(1)),
    scope                             LowCardinality(String) CODEC(ZSTD(1)),
    scope_dropped_attributes_count    UInt32 CODEC(ZSTD(1)),
    scope_schema_url                  LowCardinality(String) CODEC(ZSTD(1)),
    -- what was cut: a JSON list of the path and the size as sent of each text; empty text for nothing (docs/codec.md)
    truncations                       String CODEC(ZSTD(1)),
    batch_id                          UInt64 CODEC(ZSTD(1)),
    row                               UInt32 CODEC(Delta, ZSTD(1)),
    stored_time                       DateTime64(6, 'UTC')
        DEFAULT if(startsWith(getSetting('log_comment'), 'sluice:insert:'),
                   greatest(now64(6, 'UTC'), toDateTime64OrZero(substring(getSetting('log_comment'), 15), 6, 'UTC')),
                   toDateTime64(0, 6, 'UTC'))
        CODEC(ZSTD(1)),
    INDEX stored_time_minmax stored_time TYPE minmax GRANULARITY 1,
    INDEX trace_id_bloom trace_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(time)
ORDER BY (project_id, toStartOfFiveMinutes(time), service_name, time)
{retention:toDate(time)}
SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
         fsync_after_insert = {fsync}, fsync_part_directory = {fsync}{bucketed};

-- Where a trace lies in time: one row per batch, day, trace and signal (1 spans, 2 logs), merged by ClickHouse.
CREATE TABLE IF NOT EXISTS trace_index
(
    project_id UInt64,
    trace_id   FixedString(16),
    signal     UInt8,
    day        Date,
    min_time   SimpleAggregateFunction(min, DateTime64(9, 'UTC')) CODEC(Delta, ZSTD(1)),
    max_time   SimpleAggregateFunction(max, DateTime64(9, 'UTC')) CODEC(Delta, ZSTD(1)),
    items      SimpleAggregateFunction(sum, UInt64)
)
ENGINE = AggregatingMergeTree
PARTITION BY day
ORDER BY (project_id, trace_id, signal, day)
{retention:day}
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
         fsync_after_insert = {fsync}, fsync_part_directory = {fsync};

-- How many spans carried a key, per five minutes of start time; `numeric` of them as a finite number.
-- Resource and scope attributes stand under "resource." and "scope.", as the explore API names them.
CREATE TABLE IF NOT EXISTS attribute_keys
(
    project_id UInt64,
    bucket     DateTime('UTC'),
    key        LowCardinality(String),
    spans      UInt64,
    numeric    UInt64
)
ENGINE = SummingMergeTree((spans, numeric))
PARTITION BY toDate(bucket)
ORDER BY (project_id, bucket, key)
{retention:toDate(bucket)}
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
         fsync_after_insert = {fsync}, fsync_part_directory = {fsync};

-- What became of every item: rows are written once and never changed. `time` is the time of receipt.
CREATE TABLE IF NOT EXISTS ingest_outcomes
(
    project_id   UInt64,                    -- 0: refused before a project was known
    time         DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    signal       LowCardinality(String),    -- traces, logs
    outcome      LowCardinality(String),    -- accepted, rejected, refused
    reason       LowCardinality(String),    -- empty for accepted
    items        UInt64,                    -- 0 for refused: the body was not read
    requests     UInt64,
    wire_bytes   UInt64,
    -- of the accepted items, how many were changed on the way, by what was done to them
    modified     Map(LowCardinality(String), UInt64),
    batch_id     UInt64,
    row          UInt32,
    stored_time  DateTime64(6, 'UTC')
        DEFAULT if(startsWith(getSetting('log_comment'), 'sluice:insert:'),
                   greatest(now64(6, 'UTC'), toDateTime64OrZero(substring(getSetting('log_comment'), 15), 6, 'UTC')),
                   toDateTime64(0, 6, 'UTC'))
        CODEC(ZSTD(1)),
    INDEX stored_time_minmax stored_time TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(time)
ORDER BY (project_id, time, batch_id, row)
{retention:toDate(time)}
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
         fsync_after_insert = {fsync}, fsync_part_directory = {fsync};

-- One row per exception: an `exception` event of a span, or a log record of severity ERROR or above that carries
-- exception.* attributes.
CREATE TABLE IF NOT EXISTS error_occurrences
(
    project_id   UInt64,
    time         DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    fingerprint  FixedString(16),
    -- the version of the rules that made it (docs/adr/041-upgrade-of-grouping.md)
    fingerprint_version UInt8 DEFAULT 1 CODEC(ZSTD(1)),
    type         LowCardinality(String),
    message      String CODEC(ZSTD(1)),
    stacktrace   String CODEC(ZSTD(3)),
    source       LowCardinality(String),    -- span, log
    trace_id     FixedString(16),
    span_id      FixedString(8),
    service_name LowCardinality(String),
    environment  LowCardinality(String),
    release      LowCardinality(String),
    batch_id     UInt64,
    row          UInt32,
    stored_time  DateTime64(6, 'UTC')
        DEFAULT if(startsWith(getSetting('log_comment'), 'sluice:insert:'),
                   greatest(now64(6, 'UTC'), toDateTime64OrZero(substring(getSetting('log_comment'), 15), 6, 'UTC')),
                   toDateTime64(0, 6, 'UTC'))
        CODEC(ZSTD(1)),
    INDEX stored_time_minmax stored_time TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(time)
ORDER BY (project_id, toStartOfFiveMinutes(time), fingerprint, time)
{retention:toDate(time)}
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
         fsync_after_insert = {fsync}, fsync_part_directory = {fsync};

-- Newer releases of ClickHouse build statistics of every column while they merge, and write out dictionaries for it row
-- by row: 8192 rows that share a resource of 2 MiB took 16 GiB. No statement of ours uses them. An engine that does not
-- know the setting builds none; `sluice migrate` after its upgrade sets it.
ALTER TABLE spans MODIFY SETTING auto_statistics_types = '';
ALTER TABLE logs MODIFY SETTING auto_statistics_types = '';
ALTER TABLE trace_index MODIFY SETTING auto_statistics_types = '';
ALTER TABLE attribute_keys MODIFY SETTING auto_statistics_types = '';
ALTER TABLE ingest_outcomes MODIFY SETTING auto_statistics_types = '';
ALTER TABLE error_occurrences MODIFY SETTING auto_statistics_types = '';
-- A merge holds the dictionaries of all parts that it reads, 4.6 bytes for each of their bytes; without this it may read a
-- hundred at once.
ALTER TABLE spans MODIFY SETTING max_parts_to_merge_at_once = 8;
ALTER TABLE logs MODIFY SETTING max_parts_to_merge_at_once = 8;
ALTER TABLE sluice_schema MODIFY SETTING auto_statistics_types = '';
