"""Proof bundles: submitted, verified, stored as received, found again (specification 2.8; formats in `proto.proofs`).

The path of a bundle (`submission.ProofSubmission.submit_proof_bundle`), with the statuses of each step:

    bearer                 the caller may write proofs of the project                              -> 401, 404, 403, 429
    Intake.receive         a media type of a bundle, at most 4 MiB                                 -> 415, 413, 503
    RequestSlots.taken     three bundles of a caller at once; others wait                          -> 429
    store.find_by_digest   the same bytes again: the answer of the first time                      -> 200
    Intake.read            a signature of a key of the organization, and only then the shape       -> 400
    _require_subject       the slugs in it are the slugs of the path                               -> 400
    references             what it says of issues and approval requests, compared with what is stored
    store.create           bundle, links, counts and audit event in one transaction                -> 409, 201

What a 201 promises: the bytes are stored, whole, and are given back as they came. What it does not promise: that the
bundle is right. Findings say where it contradicts itself or what is known here; they never refuse it.

`issuers` has the keys that signatures are verified with, `bundles` what is read of bundles later.
"""
