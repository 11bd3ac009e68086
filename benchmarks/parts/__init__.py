"""What small, many and old requests do to the tables: `python -m benchmarks.parts`.

`server` is the gateway as a process with the embedded engine that watches its own tables, `load` sends real requests
over sockets at fixed times, `scenarios` says which, `__main__` runs them and prints.
"""
