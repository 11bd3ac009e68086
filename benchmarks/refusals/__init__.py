"""What a refused export costs beside one that is taken: `python -m benchmarks.refusals`."""
