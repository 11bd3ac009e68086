"""The four streams: what is exported, in which order, and the schema that is published.

schemas             the columns of each stream, and how a schema may change
reading             `StreamReader`: the rows of a stream behind a cursor, and the same rows again
parquet             rows as a table of Arrow, its digest, and its Parquet file
ordered             ERROR_ESSENCES and INGEST_OUTCOMES: rows of ClickHouse in storage order
rollups             ISSUE_ROLLUPS: issues in the order of their changes; RELEASE_HEALTH_ROLLUPS: hours that have changed

`handlers.build_warehouse_routes` gives each stream its reader.
"""
