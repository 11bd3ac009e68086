"""Whether explore serves a dashboard, and whoever asks beside it: `python -m benchmarks.dashboard`.

The service as a process over 350 000 spans of a day; `panels` is what is asked, `asking` asks, `__main__` runs it and
prints.
"""
