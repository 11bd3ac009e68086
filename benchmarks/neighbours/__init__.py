"""What good clients notice of hostile ones: `python -m benchmarks.neighbours`."""
