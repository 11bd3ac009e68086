"""The cost of the position of a row in storage order: `python -m benchmarks.storage_order`."""
