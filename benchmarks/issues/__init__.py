"""What issues cost, and how far they are behind: `python -m benchmarks.issues`.

`counting`: a store full of error occurrences is counted from the beginning; beside it the same rows are only read. The
ratio is that of one process. `lag`: `sluice up` takes errors at a steady rate; the lag is the time from the answer to
an export until the issues count what was in it.
"""
