"""Which errors are one issue: the fingerprint of an exception, under rules that have a version.

`fingerprint` computes it under the current rules, `messages` normalizes a message, `version_1` has the rules of earlier
releases. Stack traces are parsed by `proto.stack_traces`.
"""
