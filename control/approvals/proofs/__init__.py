"""Proof bundles: submitted, verified, stored as received, and listed (specification 2.8, formats in `proto.proofs`).

The path of a bundle (`submission.ProofSubmission.submit_proof_bundle`), with the statuses of each step:

    bearer                 the caller may write proofs of the project                              -> 401, 404, 403, 429
    Intake.receive         the media type must be a bundle's, the size at most 4 MiB               -> 415, 413, 503
    RequestSlots.taken     three bundles of a caller at once, further ones wait                    -> 429
    store.find_by_digest   the same bytes again: the same answer as the first time                 -> 200
    Intake.read            the signature is verified with the organization's keys, then the shape  -> 400
    _require_subject       the slugs in the bundle must be the slugs of the path                   -> 400
    references             references to issues and approval requests are compared with stored data
    store.create           bundle, links, counts and audit event in one transaction                -> 409, 201

A 201 promises that all bytes are stored, and are returned unchanged later. It does not promise that the bundle is
right. Findings show where the bundle contradicts itself or stored data. They are never a reason to refuse a bundle.

`issuers` has the keys that verify signatures, `bundles` the routes that read stored bundles.
"""
