"""Hours of what a gateway can take: `python -m benchmarks.soak --minutes 30 --share 0.7`.

`sluice up` with its embedded engine, a steady rate at fixed times (`benchmarks.overload.offering`), one line a minute.
"""
