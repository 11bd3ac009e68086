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
