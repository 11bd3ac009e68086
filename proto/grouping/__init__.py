"""Which errors are one issue: the fingerprint of an exception, under rules that have a fingerprint version.

`fingerprint` computes it in the current version, `messages` normalizes a message, `version_1` has the rules of earlier
releases. Stack traces are parsed by `proto.stack_traces`.
"""
