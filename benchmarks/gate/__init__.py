"""Whether a change makes something worse that worked: `python -m benchmarks.gate`, `make gate`.

Two revisions of the product, as processes, are measured in turns on the same machine in the same minutes; what counts
is the ratio of each pair. docs/adr/018-regressions.md says why so.

    trees       the base, checked out and built beside the tree that one stands in
    sides       the processes of both
    ingest      CPU a span over HTTP, for three kinds of requests
    explores    p95 of ten shapes over equal data
    starts      time and CPU of a start
    memory      what the services hold when they have nothing to do, and after some load
    judgement   ratios to a verdict, and whether a page of docs/adr allows it: pure
"""
