"""The CPU time of the fingerprint of an exception, for each runtime."""
