-- Beside otel_traces (benchmarks.storage): where a trace lies in time, as the exporter's view fills it; with the project.
CREATE TABLE otel_traces_trace_id_ts
(
    ProjectId UInt64,
    TraceId   String CODEC(ZSTD(1)),
    Start     SimpleAggregateFunction(min, DateTime) CODEC(ZSTD(1)),
    End       SimpleAggregateFunction(max, DateTime) CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toStartOfWeek(Start)
ORDER BY (ProjectId, TraceId)
SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1
