"""What grouping costs: the fingerprint of an exception, for each runtime."""
