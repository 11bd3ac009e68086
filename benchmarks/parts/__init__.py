"""What small, many and old requests do to the tables: `python -m benchmarks.parts`."""
