"""Proof bundles: handed in, verified, stored as received, found again (specification 2.8; formats in `proto.proofs`).

The path of a bundle (`submission.ProofSubmission.submit`), with the statuses of each step:

    bearer                 the caller may write proofs of the project                              -> 401, 404, 403, 429
    RequestSlots           three bundles of an organization at once                                -> 429
    Intake.receive         a media type of a bundle, at most 4 MiB                                 -> 415, 413, 503
    find_by_digest         the same bytes again: the answer of the first time                      -> 200
    Intake.read            a signature of a key of the organization, and only then the shape       -> 400
    _require_subject       the slugs in it are those of the path                                   -> 400
    cross_checks           what it says of issues and approval requests, against what is here
    repository.create      bundle, links, counts and audit event in one transaction                -> 409, 201

What a 201 promises: the bytes are stored, whole, and are given back as they came. What it does not promise: that the
bundle is right. Findings say where it contradicts itself or what is known here; they never refuse it.

`issuers` has the keys that signatures are verified with, `bundles` what is read of bundles later.
"""
