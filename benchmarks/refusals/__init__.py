"""What a refused export costs beside one that is taken: `python -m benchmarks.refusals`.

One gateway in front of an endpoint that keeps nothing. `sending` repeats one request on several connections, again
after every answer, and on a new connection where the gateway closed the old one; `__main__` runs the kinds and prints.
"""
