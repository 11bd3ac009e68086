"""The effects of small, many and old requests on the tables: `python -m benchmarks.parts`."""
