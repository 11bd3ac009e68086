"""Proof bundles: signed records about a code change (specification 2.8). All functions are pure.

primitives   strings, digests, times and numbers with their bounds
evidence     the evidence of each kind of claim
bundle       the bundle with its claims, the ai-authored-change predicate, and the resource descriptor
dsse         envelopes: parsing, signing, and verification before the payload is parsed
reading      reads bundles and payloads, finds errors that the types do not exclude, and checks trust in a key
semantics    checks whether the parts of a bundle agree: findings, which are errors or warnings
"""
