"""What the control service costs."""
