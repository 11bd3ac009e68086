"""What the position of a row in storage order costs: `python -m benchmarks.storage_order`."""
