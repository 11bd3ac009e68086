"""Recall and false matches of scrubbing: `python -m benchmarks.scrubbing` prints rates and versions."""
