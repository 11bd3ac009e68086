"""Request and response bodies of proof bundles and of their issuers' keys, and examples for `/docs`. The example is the
bundle with one claim of `docs/proofs.md`, in each form.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from control.approvals.proofs.tables import (
    MAX_ISSUER_LENGTH,
    MAX_PEM_LENGTH,
    MAX_REASON_LENGTH,
    IssuerKey,
    KeyAlgorithm,
    KeyStatus,
)
from control.http.field_types import Name, TimeInput, Timestamp, line
from control.routing.resource import ids, shown_as
from proto.proofs import dsse
from proto.proofs.bundle import (
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    Builder,
    ChangeAuthor,
    HumanApproval,
    ProofBundle,
    ResourceDescriptor,
    Statement,
    Verification,
)
from proto.proofs.dsse import MAX_KEY_ID_LENGTH
from proto.proofs.primitives import Identifier, ProofTier, ProofVerdict, Sha256Digest
from proto.proofs.semantics import Finding, Severity

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


S = TypeVar("S", bound="ProofBundleSummary")

DEFAULT_REASON: Final = "(no reason given)"
_Errors = Annotated[
    int,
    Meta(ge=0, description="Number of errors: places where the bundle contradicts itself or stored data."),
]
_Warnings = Annotated[
    int,
    Meta(ge=0, description="Number of warnings: places of the bundle that a person should check."),
]
_Pem = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_PEM_LENGTH, description="An Ed25519 or ECDSA P-256 key in PEM."),
]


class NewIssuerKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The public key to register. `keyId` is by default `sha256:` and the digest of the key, `validFrom` the present
    time.
    """

    issuer: Annotated[str, line(MAX_ISSUER_LENGTH)]
    name: Name
    public_key: _Pem
    key_id: Annotated[str, line(MAX_KEY_ID_LENGTH)] | None = None
    valid_from: TimeInput | None = None
    valid_until: TimeInput | None = None


class IssuerKeyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to a key. Omitted fields are not changed. `validUntil` null: the validity does not end."""

    name: Name | UnsetType = UNSET
    valid_until: TimeInput | UnsetType | None = UNSET


class IssuerKeyRevocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The reason of the revocation."""

    reason: Annotated[str, line(MAX_REASON_LENGTH)] = DEFAULT_REASON


class IssuerKeyBody(msgspec.Struct, frozen=True, rename="camel"):
    """A public key of an issuer. `status`: whether its signatures count now."""

    id: Annotated[str, Meta(pattern=f"^{ids('pik')}$")]
    issuer: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_ISSUER_LENGTH,
            description="The value of `issuer.id` in bundles of this issuer.",
        ),
    ]
    name: str
    key_id: str
    algorithm: KeyAlgorithm
    public_key: _Pem
    status: KeyStatus
    valid_from: Timestamp
    valid_until: Timestamp | None
    revoked_at: Timestamp | None
    revocation_reason: str | None
    created_by_principal_id: str | None
    created_at: Timestamp


class IssuerKeyList(msgspec.Struct, frozen=True):
    """All keys of the organization, oldest first. `sluice proof verify --keys` reads this."""

    data: list[IssuerKeyBody]


class SignatureCheck(msgspec.Struct, frozen=True, rename="camel"):
    """Whether a key of the organization has signed the bundle. `verified` false: the bundle is not signed. `keyStatus`:
    the present status of the key. A bundle stays verified when its key expires or is revoked later.
    """

    verified: bool
    key_id: str | None
    issuer_key_id: Annotated[
        str | None, Meta(description="The id of the key in the list `/orgs/{orgSlug}/proof-issuers`.")
    ]
    key_status: KeyStatus | None


class ProofBundleSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A bundle in a list. `signature` says whether the bundle is signed."""

    id: Annotated[str, Meta(pattern=f"^{ids('prf')}$")]
    bundle_id: Identifier
    received_at: Timestamp
    submitted_by_principal_id: str | None
    media_type: str
    digest: Annotated[Sha256Digest, Meta(description="Digest of the bytes as received.")]
    size_bytes: int
    signature: SignatureCheck
    issued_at: str
    issuer: str
    tier: ProofTier
    verdict: ProofVerdict
    billable: bool
    claim_count: int
    issue_id: Annotated[
        str | None, Meta(description="The issue of the project that the bundle is about. Null if there is none.")
    ]
    issue_short_id: str
    title: str
    run_id: str
    proposal_id: str
    commit: str | None
    error_count: _Errors
    warning_count: _Warnings


class FindingBody(msgspec.Struct, frozen=True):
    """An error or warning that a schema cannot express. `code` identifies its kind."""

    path: str
    message: str
    code: str


class BundleLinks(msgspec.Struct, frozen=True, rename="camel"):
    """The issue that the bundle is about, and the approval requests and traces that it names. They may not exist."""

    issue_id: str | None
    approval_request_ids: list[str]
    trace_ids: list[str]


class ProofBundleRecord(ProofBundleSummary, frozen=True, kw_only=True, rename="camel"):
    """A stored bundle, without its claims."""

    errors: list[FindingBody]
    warnings: list[FindingBody]
    links: BundleLinks


class Attestation(msgspec.Struct, frozen=True, rename="camel"):
    """The in-toto Statement around a bundle, without the bundle."""

    subject: list[ResourceDescriptor]
    predicate_type: str
    builder: Builder
    attested_at: str
    author: ChangeAuthor
    human_approval: HumanApproval
    verification: Verification


class ProofBundleDetail(ProofBundleRecord, frozen=True, kw_only=True, rename="camel"):
    """A stored bundle, parsed. `attestation` null: the bundle was submitted without a Statement."""

    bundle: ProofBundle
    attestation: Attestation | None


class ValidationResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result that submitting the bundle would have. `valid`: the shape is right, the signature counts, and there is
    no error. `signature` null: not checked, because the body is not an envelope or no signature counts.
    """

    valid: bool
    signature: SignatureCheck | None
    errors: list[FindingBody]
    warnings: list[FindingBody]


def issuer_key_body(key: IssuerKey, now: datetime) -> IssuerKeyBody:
    """The key at the time `now`, as a response body."""
    return shown_as(IssuerKeyBody, key, status=key.status_at(now), created_by_principal_id=key.created_by)


def signature_body(key: IssuerKey | None, now: datetime) -> SignatureCheck:
    """The signature of a bundle as a response body. `key`: the key that signed the bundle, None if it is not signed."""
    if key is None:
        return SignatureCheck(verified=False, key_id=None, issuer_key_id=None, key_status=None)
    return SignatureCheck(verified=True, key_id=key.key_id, issuer_key_id=key.id, key_status=key.status_at(now))


def summary_body(type_: type[S], row: Any, key: IssuerKey | None, now: datetime, **further: Any) -> S:
    """A row of `proof_bundles` as a summary, or as a record, which has `further` fields. `key`: the key that signed the
    bundle, if it is signed.
    """
    return shown_as(
        type_,
        row,
        submitted_by_principal_id=row.submitted_by,
        digest=f"sha256:{bytes(row.digest).hex()}",
        size_bytes=row.size,
        signature=signature_body(key, now),
        claim_count=row.claims,
        error_count=row.errors,
        warning_count=row.warnings,
        **further,
    )


def detail_body(record: ProofBundleRecord, bundle: ProofBundle, statement: Statement | None) -> ProofBundleDetail:
    """A stored bundle, parsed."""
    attestation = None
    if statement is not None:
        around = {"subject": statement.subject, "predicate_type": statement.predicate_type}
        attestation = shown_as(Attestation, statement.predicate, **around)
    return shown_as(ProofBundleDetail, record, bundle=bundle, attestation=attestation)


def finding_bodies(findings: Sequence[Finding], severity: Severity) -> list[FindingBody]:
    """The findings of one severity."""
    return [FindingBody(one.path, one.message, one.code) for one in findings if one.severity is severity]
