"""Whether explore keeps exports waiting: `python -m benchmarks.mixed`."""
