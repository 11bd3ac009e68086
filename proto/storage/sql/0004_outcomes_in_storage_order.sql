-- Outcomes have a position in storage order, too: sinks export each once.
ALTER TABLE ingest_outcomes ADD COLUMN IF NOT EXISTS stored_time DateTime64(6, 'UTC')
    DEFAULT if(startsWith(getSetting('log_comment'), 'sluice:insert:'),
               greatest(now64(6, 'UTC'), toDateTime64OrZero(substring(getSetting('log_comment'), 15), 6, 'UTC')),
               toDateTime64(0, 6, 'UTC'))
    CODEC(ZSTD(1));
ALTER TABLE ingest_outcomes ADD INDEX IF NOT EXISTS stored_time_minmax stored_time TYPE minmax GRANULARITY 1;
ALTER TABLE ingest_outcomes MATERIALIZE COLUMN stored_time, MATERIALIZE INDEX stored_time_minmax;
