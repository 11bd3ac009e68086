"""The grouping of errors into issues: the fingerprint of an exception, by rules that have a fingerprint version.

`fingerprint` computes the fingerprint of the current version, `messages` normalizes a message, and `version_1` has the
rules of earlier releases. `proto.stack_traces` parses stack traces.
"""
