"""What the control service costs: `python -m benchmarks.control [NAME ...]`; `--help` says what there is."""
