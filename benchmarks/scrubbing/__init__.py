"""What scrubbing finds and what it takes for a secret: `python -m benchmarks.scrubbing` prints rates and versions."""
