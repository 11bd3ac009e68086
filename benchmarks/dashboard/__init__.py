"""Whether explore serves a dashboard, and whoever asks beside it: `python -m benchmarks.dashboard`."""
