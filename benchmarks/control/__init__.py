"""What the control service costs: `python -m benchmarks.control [NAME ...]`; tokens, reads, voters, deliveries."""
