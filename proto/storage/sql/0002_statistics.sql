-- Newer releases of ClickHouse build statistics of every column while they merge, and write out dictionaries for it row
-- by row: 8192 rows that share a resource of 2 MiB took 16 GiB. No statement of ours uses them. An engine that does not
-- know the setting builds none; `sluice migrate` after its upgrade sets it.
ALTER TABLE spans MODIFY SETTING auto_statistics_types = '';
ALTER TABLE logs MODIFY SETTING auto_statistics_types = '';
ALTER TABLE trace_index MODIFY SETTING auto_statistics_types = '';
ALTER TABLE attribute_keys MODIFY SETTING auto_statistics_types = '';
ALTER TABLE ingest_outcomes MODIFY SETTING auto_statistics_types = '';
ALTER TABLE error_occurrences MODIFY SETTING auto_statistics_types = '';
ALTER TABLE sluice_schema MODIFY SETTING auto_statistics_types = '';
