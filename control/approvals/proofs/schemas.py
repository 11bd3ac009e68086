"""Request and response bodies of proof bundles and of the keys of their issuers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from chassis.db.database import format_time
from control.approvals.proofs.model import (
    ISSUER_KEY_ID_PATTERN,
    PROOF_ID_PATTERN,
    IssuerKey,
    KeyAlgorithm,
    KeyStatus,
    Link,
    LinkKind,
    StoredBundle,
)
from control.approvals.proofs.tables import MAX_ISSUER_LENGTH, MAX_PEM_LENGTH, MAX_REASON_LENGTH
from control.http.field_types import Name, Timestamp, line
from control.http.paging import NextCursor
from control.http.time_input import TimeInput
from proto.proofs.bundle import (
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

DEFAULT_REASON: Final = "(no reason given)"
_Errors = Annotated[int, Meta(ge=0, description="Places where the bundle contradicts itself or what is stored here.")]
_Warnings = Annotated[int, Meta(ge=0, description="Places that a reader should look at twice.")]
_Pem = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_PEM_LENGTH, description="An Ed25519 or ECDSA P-256 key in PEM."),
]
_Issuer = Annotated[str, Meta(min_length=1, max_length=MAX_ISSUER_LENGTH, description="`issuer.id` of its bundles.")]
_KeyId = Annotated[str, line(MAX_KEY_ID_LENGTH)]


class NewIssuerKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The public key to register. `keyId` is by default `sha256:` and the digest of the key, `validFrom` now."""

    issuer: Annotated[str, line(MAX_ISSUER_LENGTH)]
    name: Name
    public_key: _Pem
    key_id: _KeyId | None = None
    valid_from: TimeInput | None = None
    valid_until: TimeInput | None = None


class IssuerKeyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to a key; omitted fields stay as they are. `validUntil` null: without end."""

    name: Name | UnsetType = UNSET
    valid_until: TimeInput | UnsetType | None = UNSET


class IssuerKeyRevocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Why the key is revoked."""

    reason: Annotated[str, line(MAX_REASON_LENGTH)] = DEFAULT_REASON


class IssuerKeyBody(msgspec.Struct, frozen=True, rename="camel"):
    """A public key of an issuer. `status`: whether its signatures count now."""

    id: Annotated[str, Meta(pattern=ISSUER_KEY_ID_PATTERN)]
    issuer: _Issuer
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
    """Whether a key of the organization has signed the bundle; `verified` false: it is not signed. `keyStatus`: what
    the key is worth now; a bundle stays verified when its key expires or is revoked later, but a reader should know.
    """

    verified: bool
    key_id: str | None
    issuer_key_id: Annotated[str | None, Meta(description="Its id at `/orgs/{orgSlug}/proof-issuers`.")]
    key_status: KeyStatus | None


class ProofBundleSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A bundle in a list. Bundles that are not signed say so in `signature`."""

    id: Annotated[str, Meta(pattern=PROOF_ID_PATTERN)]
    bundle_id: Identifier
    received_at: Timestamp
    submitted_by_principal_id: str | None
    media_type: str
    digest: Annotated[Sha256Digest, Meta(description="Of the bytes as received.")]
    size_bytes: int
    signature: SignatureCheck
    issued_at: str
    issuer: str
    tier: ProofTier
    verdict: ProofVerdict
    billable: bool
    claim_count: int
    issue_id: Annotated[str | None, Meta(description="The issue of the project that it is about, if there is one.")]
    issue_short_id: str
    title: str
    run_id: str
    proposal_id: str
    commit: str | None
    error_count: _Errors
    warning_count: _Warnings


class ProofBundlePage(msgspec.Struct, frozen=True, rename="camel"):
    """A page of bundles, newest first."""

    data: list[ProofBundleSummary]
    next_cursor: NextCursor
    has_more: bool


class FindingBody(msgspec.Struct, frozen=True):
    """Something that the shape of a bundle cannot say. `code`: a word for programs."""

    path: str
    message: str
    code: str


class BundleLinks(msgspec.Struct, frozen=True, rename="camel"):
    """What the bundle is about: its issue, and the approval requests and traces that it names, which may not exist."""

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
    """A stored bundle, parsed. `attestation` null: it was handed in without a Statement."""

    bundle: ProofBundle
    attestation: Attestation | None


class ValidationResult(msgspec.Struct, frozen=True, rename="camel"):
    """What handing the bundle in would find. `valid`: its shape and its signature count, and it has no error.
    `signature` null: it was
    not looked at, because the body is no envelope or no signature counts.
    """

    valid: bool
    signature: SignatureCheck | None
    errors: list[FindingBody]
    warnings: list[FindingBody]


def issuer_key_body(key: IssuerKey, now: datetime) -> IssuerKeyBody:
    """The API representation."""
    return IssuerKeyBody(
        id=key.id,
        issuer=key.issuer,
        name=key.name,
        key_id=key.key_id,
        algorithm=key.algorithm,
        public_key=key.public_key,
        status=key.status_at(now),
        valid_from=format_time(key.valid_from),
        valid_until=None if key.valid_until is None else format_time(key.valid_until),
        revoked_at=None if key.revoked_at is None else format_time(key.revoked_at),
        revocation_reason=key.revocation_reason,
        created_by_principal_id=key.created_by,
        created_at=format_time(key.created_at),
    )


def signature_body(key: IssuerKey | None, now: datetime) -> SignatureCheck:
    """Whether a bundle is signed, by the key that has signed it."""
    if key is None:
        return SignatureCheck(verified=False, key_id=None, issuer_key_id=None, key_status=None)
    return SignatureCheck(verified=True, key_id=key.key_id, issuer_key_id=key.id, key_status=key.status_at(now))


def summary_body(bundle: StoredBundle, key: IssuerKey | None, now: datetime) -> ProofBundleSummary:
    """A bundle in a list."""
    origin = bundle.origin
    return ProofBundleSummary(
        id=bundle.id,
        bundle_id=bundle.bundle_id,
        received_at=format_time(origin.received_at),
        submitted_by_principal_id=origin.submitted_by,
        media_type=origin.media_type,
        digest=f"sha256:{origin.digest.hex()}",
        size_bytes=origin.size,
        signature=signature_body(key, now),
        issued_at=bundle.issued_at,
        issuer=bundle.issuer,
        tier=ProofTier(bundle.tier),
        verdict=ProofVerdict(bundle.verdict),
        billable=bundle.billable,
        claim_count=bundle.claims,
        issue_id=bundle.issue_id,
        issue_short_id=bundle.issue_short_id,
        title=bundle.title,
        run_id=bundle.run_id,
        proposal_id=bundle.proposal_id,
        commit=bundle.commit,
        error_count=bundle.errors,
        warning_count=bundle.warnings,
    )


def record_body(
    bundle: StoredBundle, key: IssuerKey | None, findings: Sequence[Finding], links: Sequence[Link], now: datetime
) -> ProofBundleRecord:
    """A stored bundle, without its claims."""
    return ProofBundleRecord(
        **msgspec.structs.asdict(summary_body(bundle, key, now)),
        errors=finding_bodies(findings, Severity.ERROR),
        warnings=finding_bodies(findings, Severity.WARNING),
        links=links_body(bundle.issue_id, links),
    )


def detail_body(record: ProofBundleRecord, bundle: ProofBundle, statement: Statement | None) -> ProofBundleDetail:
    """A stored bundle, parsed."""
    attestation = None if statement is None else attestation_body(statement)
    return ProofBundleDetail(**msgspec.structs.asdict(record), bundle=bundle, attestation=attestation)


def finding_bodies(findings: Sequence[Finding], severity: Severity) -> list[FindingBody]:
    """Those of one severity."""
    return [FindingBody(one.path, one.message, one.code) for one in findings if one.severity is severity]


def links_body(issue_id: str | None, links: Sequence[Link]) -> BundleLinks:
    """What a bundle speaks of."""
    return BundleLinks(
        issue_id,
        [link.target for link in links if link.kind is LinkKind.APPROVAL_REQUEST],
        [link.target for link in links if link.kind is LinkKind.TRACE],
    )


def attestation_body(statement: Statement) -> Attestation:
    """A Statement without its bundle."""
    predicate = statement.predicate
    return Attestation(
        statement.subject,
        statement.predicate_type,
        predicate.builder,
        predicate.attested_at,
        predicate.author,
        predicate.human_approval,
        predicate.verification,
    )
