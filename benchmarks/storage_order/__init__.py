"""What the position of a row in storage order costs: `python -m benchmarks.storage_order`.

Two databases, one with the tables before migration 0003 and one with it, get the same blocks in turns; the ratio of CPU
is that of pairs. The size of the column is that of simulated exporters, which send every few seconds, so that rows of
many inserts lie side by side in a merged part.
"""
