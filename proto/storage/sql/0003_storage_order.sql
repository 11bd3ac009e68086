-- When ClickHouse stored a row: one value per insert. With batch_id and row it is the row's position in storage order, which
-- followers read by (docs/adr/020-storage-order.md). The gateway sends a floor with each insert, in its log_comment:
-- `sluice:insert:SECONDS.MICROSECONDS`. Rows without it have 1970-01-01: those of earlier releases, whose parts lack the
-- column, and for which this expression is evaluated when they are read.
ALTER TABLE spans ADD COLUMN IF NOT EXISTS stored_time DateTime64(6, 'UTC')
    DEFAULT if(startsWith(getSetting('log_comment'), 'sluice:insert:'),
               greatest(now64(6, 'UTC'), toDateTime64OrZero(substring(getSetting('log_comment'), 15), 6, 'UTC')),
               toDateTime64(0, 6, 'UTC'))
    CODEC(ZSTD(1));
ALTER TABLE logs ADD COLUMN IF NOT EXISTS stored_time DateTime64(6, 'UTC')
    DEFAULT if(startsWith(getSetting('log_comment'), 'sluice:insert:'),
               greatest(now64(6, 'UTC'), toDateTime64OrZero(substring(getSetting('log_comment'), 15), 6, 'UTC')),
               toDateTime64(0, 6, 'UTC'))
    CODEC(ZSTD(1));
ALTER TABLE error_occurrences ADD COLUMN IF NOT EXISTS stored_time DateTime64(6, 'UTC')
    DEFAULT if(startsWith(getSetting('log_comment'), 'sluice:insert:'),
               greatest(now64(6, 'UTC'), toDateTime64OrZero(substring(getSetting('log_comment'), 15), 6, 'UTC')),
               toDateTime64(0, 6, 'UTC'))
    CODEC(ZSTD(1));
-- A reader of what was stored last skips all older granules.
ALTER TABLE spans ADD INDEX IF NOT EXISTS stored_time_minmax stored_time TYPE minmax GRANULARITY 1;
ALTER TABLE logs ADD INDEX IF NOT EXISTS stored_time_minmax stored_time TYPE minmax GRANULARITY 1;
ALTER TABLE error_occurrences ADD INDEX IF NOT EXISTS stored_time_minmax stored_time TYPE minmax GRANULARITY 1;
-- Parts of earlier releases get the column and the index in the background; until then readers evaluate the expression.
ALTER TABLE spans MATERIALIZE COLUMN stored_time, MATERIALIZE INDEX stored_time_minmax;
ALTER TABLE logs MATERIALIZE COLUMN stored_time, MATERIALIZE INDEX stored_time_minmax;
ALTER TABLE error_occurrences MATERIALIZE COLUMN stored_time, MATERIALIZE INDEX stored_time_minmax;
