"""Proof bundles: what one costs, how lists behave with a million of them, what hostile ones take.

    python -m benchmarks.proofs [--count N] [--stored N] [--database sqlite|postgresql|both] [--together] [PART ...]

The parts: `parts` (verify, parse and check in this process, beside json and securesystemslib), `bundles` (handed in to
`sluice control`, beside an authenticated read), `lists` (pages of a project with many bundles, beside one with a few,
and the plans of those that are slow), `hostile` (eight bodies of up to 4 MiB at once, of as many organizations: memory,
CPU, the longest time that another request waits).
"""
