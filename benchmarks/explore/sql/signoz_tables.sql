-- Traces as SigNoz lays them out, by its documentation ("Traces schema") and its published migrations: typed Maps, a bucket of half an hour and a
-- fingerprint of the resource in the sort key, its skip indexes, its side tables. Left out: the ALIAS columns of older
-- releases, the JSON copy of the resource, the table of all values. Added: the project, first in the sort keys, as in the others.
CREATE TABLE signoz_index_v3
(
    project_id           UInt64 CODEC(Delta, ZSTD(1)),
    ts_bucket_start      UInt64 CODEC(DoubleDelta, LZ4),
    resource_fingerprint String CODEC(ZSTD(1)),
    timestamp            DateTime64(9, 'UTC') CODEC(DoubleDelta, LZ4),
    trace_id             FixedString(32) CODEC(ZSTD(1)),
    span_id              String CODEC(ZSTD(1)),
    trace_state          String CODEC(ZSTD(1)),
    parent_span_id       String CODEC(ZSTD(1)),
    flags                UInt32 CODEC(T64, ZSTD(1)),
    name                 LowCardinality(String) CODEC(ZSTD(1)),
    kind                 Int8 CODEC(T64, ZSTD(1)),
    kind_string          String CODEC(ZSTD(1)),
    duration_nano        UInt64 CODEC(T64, ZSTD(1)),
    status_code          Int16 CODEC(T64, ZSTD(1)),
    status_message       String CODEC(ZSTD(1)),
    status_code_string   String CODEC(ZSTD(1)),
    attributes_string    Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    attributes_number    Map(LowCardinality(String), Float64) CODEC(ZSTD(1)),
    attributes_bool      Map(LowCardinality(String), Bool) CODEC(ZSTD(1)),
    resources_string     Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    events               Array(String) CODEC(ZSTD(2)),
    links                String CODEC(ZSTD(1)),
    response_status_code LowCardinality(String) CODEC(ZSTD(1)),
    external_http_url    LowCardinality(String) CODEC(ZSTD(1)),
    http_url             LowCardinality(String) CODEC(ZSTD(1)),
    external_http_method LowCardinality(String) CODEC(ZSTD(1)),
    http_method          LowCardinality(String) CODEC(ZSTD(1)),
    http_host            LowCardinality(String) CODEC(ZSTD(1)),
    db_name              LowCardinality(String) CODEC(ZSTD(1)),
    db_operation         LowCardinality(String) CODEC(ZSTD(1)),
    has_error            Bool CODEC(T64, ZSTD(1)),
    is_remote            LowCardinality(String) CODEC(ZSTD(1)),
    `resource_string_service$$name`        LowCardinality(String) DEFAULT resources_string['service.name'] CODEC(ZSTD(1)),
    `attribute_string_http$$route`         LowCardinality(String) DEFAULT attributes_string['http.route'] CODEC(ZSTD(1)),
    `attribute_string_messaging$$system`   LowCardinality(String) DEFAULT attributes_string['messaging.system'] CODEC(ZSTD(1)),
    `attribute_string_messaging$$operation` LowCardinality(String) DEFAULT attributes_string['messaging.operation'] CODEC(ZSTD(1)),
    `attribute_string_db$$system`          LowCardinality(String) DEFAULT attributes_string['db.system'] CODEC(ZSTD(1)),
    `attribute_string_rpc$$system`         LowCardinality(String) DEFAULT attributes_string['rpc.system'] CODEC(ZSTD(1)),
    `attribute_string_rpc$$service`        LowCardinality(String) DEFAULT attributes_string['rpc.service'] CODEC(ZSTD(1)),
    `attribute_string_rpc$$method`         LowCardinality(String) DEFAULT attributes_string['rpc.method'] CODEC(ZSTD(1)),
    `attribute_string_peer$$service`       LowCardinality(String) DEFAULT attributes_string['peer.service'] CODEC(ZSTD(1)),
    INDEX idx_trace_id trace_id TYPE tokenbf_v1(10000, 5, 0) GRANULARITY 1,
    INDEX idx_span_id span_id TYPE tokenbf_v1(5000, 5, 0) GRANULARITY 1,
    INDEX idx_duration duration_nano TYPE minmax GRANULARITY 1,
    INDEX idx_name name TYPE ngrambf_v1(4, 5000, 2, 0) GRANULARITY 1,
    INDEX idx_kind kind TYPE minmax GRANULARITY 4,
    INDEX idx_http_route `attribute_string_http$$route` TYPE bloom_filter GRANULARITY 4,
    INDEX idx_http_url http_url TYPE bloom_filter GRANULARITY 4,
    INDEX idx_http_host http_host TYPE bloom_filter GRANULARITY 4,
    INDEX idx_http_method http_method TYPE bloom_filter GRANULARITY 4,
    INDEX idx_timestamp timestamp TYPE minmax GRANULARITY 1,
    INDEX idx_rpc_method `attribute_string_rpc$$method` TYPE bloom_filter GRANULARITY 4,
    INDEX idx_response_status_code response_status_code TYPE set(0) GRANULARITY 1,
    INDEX idx_status_code_string status_code_string TYPE set(3) GRANULARITY 4,
    INDEX idx_kind_string kind_string TYPE set(5) GRANULARITY 4,
    INDEX attributes_string_idx_key mapKeys(attributes_string) TYPE tokenbf_v1(1024, 2, 0) GRANULARITY 1,
    INDEX attributes_string_idx_val mapValues(attributes_string) TYPE ngrambf_v1(4, 5000, 2, 0) GRANULARITY 1,
    INDEX attributes_number_idx_key mapKeys(attributes_number) TYPE tokenbf_v1(1024, 2, 0) GRANULARITY 1,
    INDEX attributes_number_idx_val mapValues(attributes_number) TYPE bloom_filter GRANULARITY 1,
    INDEX attributes_bool_idx_key mapKeys(attributes_bool) TYPE tokenbf_v1(1024, 2, 0) GRANULARITY 1,
    INDEX resources_string_idx_key mapKeys(resources_string) TYPE tokenbf_v1(1024, 2, 0) GRANULARITY 1,
    INDEX resources_string_idx_val mapValues(resources_string) TYPE ngrambf_v1(4, 5000, 2, 0) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(timestamp)
ORDER BY (project_id, ts_bucket_start, resource_fingerprint, has_error, name, timestamp)
SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1;

CREATE TABLE traces_v3_resource
(
    project_id              UInt64,
    labels                  String CODEC(ZSTD(5)),
    fingerprint             String CODEC(ZSTD(1)),
    seen_at_ts_bucket_start Int64 CODEC(Delta(8), ZSTD(1)),
    INDEX idx_labels lower(labels) TYPE ngrambf_v1(4, 1024, 3, 0) GRANULARITY 1,
    INDEX idx_labels_v1 labels TYPE ngrambf_v1(4, 1024, 3, 0) GRANULARITY 1
)
ENGINE = ReplacingMergeTree
PARTITION BY toDate(seen_at_ts_bucket_start)
ORDER BY (project_id, labels, fingerprint, seen_at_ts_bucket_start)
SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1;

CREATE TABLE trace_summary
(
    project_id UInt64,
    trace_id   String CODEC(ZSTD(1)),
    start      SimpleAggregateFunction(min, DateTime64(9, 'UTC')) CODEC(ZSTD(1)),
    end        SimpleAggregateFunction(max, DateTime64(9, 'UTC')) CODEC(ZSTD(1)),
    num_spans  SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toDate(end)
ORDER BY (project_id, trace_id)
SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1;

CREATE TABLE signoz_error_index_v2
(
    project_id          UInt64,
    timestamp           DateTime64(9, 'UTC') CODEC(DoubleDelta, LZ4),
    errorID             FixedString(32) CODEC(ZSTD(1)),
    groupID             FixedString(32) CODEC(ZSTD(1)),
    traceID             FixedString(32) CODEC(ZSTD(1)),
    spanID              String CODEC(ZSTD(1)),
    serviceName         LowCardinality(String) CODEC(ZSTD(1)),
    exceptionType       LowCardinality(String) CODEC(ZSTD(1)),
    exceptionMessage    String CODEC(ZSTD(1)),
    exceptionStacktrace String CODEC(ZSTD(1)),
    exceptionEscaped    Bool CODEC(T64, ZSTD(1)),
    resourceTagsMap     Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    INDEX idx_error_id errorID TYPE bloom_filter GRANULARITY 4,
    INDEX idx_resourceTagsMapKeys mapKeys(resourceTagsMap) TYPE bloom_filter(0.01) GRANULARITY 64,
    INDEX idx_resourceTagsMapValues mapValues(resourceTagsMap) TYPE bloom_filter(0.01) GRANULARITY 64
)
ENGINE = MergeTree
PARTITION BY toDate(timestamp)
ORDER BY (project_id, timestamp, groupID)
SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1
