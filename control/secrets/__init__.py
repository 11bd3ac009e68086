"""Secrets at rest: encryption under a key ring, the key file, re-encryption under the current key."""
