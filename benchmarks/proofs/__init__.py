"""Proof bundles: what one costs, how lists behave with a million of them, what hostile ones take:
`python -m benchmarks.proofs`.
"""
