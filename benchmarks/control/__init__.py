"""The cost of the control service: `python -m benchmarks.control [NAME ...]`; `--help` says what there is."""
