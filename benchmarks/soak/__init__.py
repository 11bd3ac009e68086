"""Hours of what a gateway can take: `python -m benchmarks.soak --minutes 30 --share 0.7`."""
