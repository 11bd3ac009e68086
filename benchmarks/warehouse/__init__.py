"""The cost of an export: `python -m benchmarks.warehouse`.

A million stored errors are exported to an object store in memory, once by a sink, with everything that makes it exact,
and once by hand: the same columns by clickhouse-connect as Arrow, to Parquet, all at once.
"""
