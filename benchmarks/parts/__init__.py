"""What small, many and old requests do to the tables: `python -m benchmarks.parts`.

`server` is `sluice up` with the embedded engine, which looks at its tables often, `load` says what is sent, `__main__`
runs the scenarios and prints.
"""
