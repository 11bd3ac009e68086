"""The effects of hostile clients on good clients: `python -m benchmarks.neighbours`."""
