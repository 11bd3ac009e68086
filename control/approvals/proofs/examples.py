"""Examples of bodies for `/docs`: a bundle with one claim, as `docs/proofs.md` has it, in each form."""

from typing import Any, Final

from proto.proofs import dsse
from proto.proofs.bundle import PREDICATE_TYPE, STATEMENT_TYPE

_ISSUED: Final = "2026-11-20T15:20:00Z"
_SPECIFICATION: Final = "https://example.com/proofs"
_PATCH: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
BUNDLE: Final[dict[str, Any]] = {
    "formatVersion": "0.1.0",
    "specUri": _SPECIFICATION,
    "bundleId": "run-17.1",
    "issuedAt": _ISSUED,
    "issuer": {"id": "https://ci.example.com", "name": "Shop CI", "softwareVersion": "1.0.0", "keyId": None},
    "subject": {
        "orgSlug": "default",
        "projectSlug": "default",
        "issueId": "iss_01jd6w3m8f9s2k7n4p5q6r7t8v",
        "issueShortId": "DEFAULT-12",
        "fingerprint": "5f3c1a",
        "title": "KeyError: price",
        "runId": "run-17",
        "proposalId": "shop/checkout#42",
        "patch": {
            "diffDigest": f"sha256:{_PATCH}",
            "filesChanged": ["shop/cart.py"],
            "addedLines": 4,
            "removedLines": 1,
        },
        "repository": "shop/checkout",
        "commit": "6dcb09b5b57875f334f61aebed695e2e4193db5e",
        "commitCheckedOut": True,
    },
    "tier": "B",
    "verdict": "PASSED",
    "billable": False,
    "claims": [
        {
            "kind": "suite_green",
            "claimId": "suite",
            "statement": "All tests pass with the patch.",
            "status": "SUPPORTED",
            "recordedAt": "2026-11-20T15:17:03Z",
            "disclosures": [],
            "recheck": None,
            "evidence": {
                "scope": "full",
                "command": "make test",
                "passed": True,
                "exitCode": 0,
                "durationMs": 42_000,
                "testsRun": 310,
                "testsFailed": 0,
                "decidingTest": None,
            },
        }
    ],
}
STATEMENT: Final[dict[str, Any]] = {
    "_type": STATEMENT_TYPE,
    "subject": [{"name": "patch", "digest": {"sha256": _PATCH}}],
    "predicateType": PREDICATE_TYPE,
    "predicate": {
        "formatVersion": "0.1.0",
        "builder": {"id": "https://ci.example.com", "version": {"ci": "1.0.0"}},
        "attestedAt": _ISSUED,
        "author": {"kind": "ai", "agentId": "agent-1", "agentName": "Patcher", "modelId": None},
        "humanApproval": {"approved": False, "approverId": None, "approvedAt": None, "actChainLength": 1},
        "verification": {"tier": "B", "verdict": "PASSED", "billable": False, "specUri": _SPECIFICATION},
        "ledger": BUNDLE | {"bundleId": "run-17.2"},
    },
}
ENVELOPE: Final[dict[str, Any]] = {
    "payload": "eyJmb3JtYXRWZXJzaW9uIjogIjAuMS4wIn0=",
    "payloadType": dsse.BUNDLE_TYPE,
    "signatures": [{"keyid": "2026", "sig": "c2lnbmF0dXJl"}],
}
