"""The cost of the gateway itself, beside Rotel: `python -m benchmarks.gateway`.

`sluice gateway` and Rotel as processes, both with a ClickHouse endpoint that counts rows and keeps none. `bodies` are
the requests, `load` sends them from a process of its own, `sink` is the endpoint, `rivals` starts what is measured,
`__main__` runs the rounds and prints.
"""
