"""What a refused export costs beside one that is taken: `python -m benchmarks.refusals`.

One gateway in front of an endpoint that keeps nothing. One request of each kind is repeated on several connections.
"""
