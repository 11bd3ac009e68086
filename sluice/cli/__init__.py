"""One module per sub-command of `sluice`."""
