"""Issues: errors that are grouped by fingerprint, with a life."""
