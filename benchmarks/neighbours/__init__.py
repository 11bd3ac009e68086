"""What good clients notice of hostile ones: `python -m benchmarks.neighbours`.

The same gateway and good clients as in `benchmarks.overload`, at a part of what the gateway can take; beside them, one
after the other, what `hostile` has. `__main__` runs them and prints.
"""
