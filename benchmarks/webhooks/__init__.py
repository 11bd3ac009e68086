"""The cost of inbound webhooks: `python -m benchmarks.webhooks`.

Each kind is delivered over HTTP to one control process on SQLite, every delivery another one; beside them an
authenticated read of the same process, which the ratio is to. Then the CPU of refusing a wrong signature.
"""
