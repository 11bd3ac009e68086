"""Proof bundles: signed records about a code change (specification 2.8). Pure: bytes in, values out.

primitives   strings, digests, times and numbers with their bounds
evidence     what each kind of claim carries
bundle       the bundle with its claims; the ai-authored-change predicate; the resource descriptor
dsse         envelopes: parsed, signed, verified before the payload is parsed
reading      bytes of a bundle or of a payload as values; faults beyond the shape; whether the key that signed counts
semantics    what the shapes cannot say: findings, each an error or a warning
"""
