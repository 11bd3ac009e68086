"""The cost of issues, and how far they are behind: `python -m benchmarks.issues`."""
