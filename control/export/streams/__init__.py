"""The four streams: the rows to export, their order, and their published schemas.

schemas             the columns of each stream, and the rules for changing a schema
reading             `StreamReader`: reads the rows of a stream behind a cursor, and reads the same rows again
parquet             rows as an Arrow table, its digest, and its Parquet file
ordered             ERROR_ESSENCES and INGEST_OUTCOMES: rows of ClickHouse in storage order
rollups             ISSUE_ROLLUPS: issues in the order of their changes; RELEASE_HEALTH_ROLLUPS: hours that have changed

`handlers.build_warehouse_routes` gives each stream its reader.
"""
