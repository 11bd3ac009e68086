"""The cost of a refused export beside one that is taken: `python -m benchmarks.refusals`."""
