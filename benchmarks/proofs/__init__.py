"""Proof bundles: what one costs, how lists behave with a million of them, what hostile ones take.

    python -m benchmarks.proofs [--count N] [--stored N] [--database sqlite|postgresql|both] [PART ...]

The parts: `parts` (verify, parse and check in this process, beside json and securesystemslib), `bundles` (handed in to
`sluice control`, beside an authenticated read), `lists` (pages of a project with many bundles, beside one with a few),
`hostile` (bodies of 4 MiB: memory, CPU, the longest time that another request waits).
"""
