"""The cost of a span from its request to its row, and when it can be read: `python -m benchmarks.end_to_end`.

`product` is `sluice up` with the embedded engine as a process, `engine` inserts the blocks that it makes of the same
requests in a process that does nothing else, `marks` looks when what was acknowledged can be read, `measure` runs the
rounds, `__main__` prints.
"""
