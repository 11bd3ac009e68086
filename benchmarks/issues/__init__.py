"""What issues cost, and how far they are behind: `python -m benchmarks.issues`."""
