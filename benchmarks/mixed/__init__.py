"""Whether explore keeps exports waiting: `python -m benchmarks.mixed`.

`sluice up` as a process, exports at a steady rate over sockets, and many heavy explores at once, again and again.
`ingest` finds the rate and sends, `explores` asks, `__main__` runs them and prints.
"""
