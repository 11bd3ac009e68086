"""The cost of decoding: `python -m benchmarks.codec` prints time per item, memory per request, machine and versions."""
