"""Measures how fast explore serves a dashboard and the other callers meanwhile: `python -m benchmarks.dashboard`."""
