"""The tables of proof bundles and of their issuers' keys, and the types of values in their rows."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from proto.identity import MAX_NAME_LENGTH
from proto.proofs.dsse import MAX_KEY_ID_LENGTH
from proto.proofs.primitives import ProofTier, ProofVerdict


class KeyAlgorithm(StrEnum):
    """The signature algorithm of a key."""

    ED25519 = "ED25519"
    ECDSA_P256 = "ECDSA_P256"


class KeyStatus(StrEnum):
    """Whether signatures of a key count at a time."""

    ACTIVE = "ACTIVE"
    NOT_YET_VALID = "NOT_YET_VALID"
    EXPIRED = "EXPIRED"
    REVOKED = "REVOKED"


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key of an issuer. `issuer`: the `issuer.id` of the bundles that it signs."""

    id: str
    org_id: str
    issuer: str
    name: str
    key_id: str
    algorithm: KeyAlgorithm
    public_key: str
    valid_from: datetime
    valid_until: datetime | None
    revoked_at: datetime | None
    revocation_reason: str | None
    created_by: str | None
    created_at: datetime

    def status_at(self, now: datetime) -> KeyStatus:
        """Whether signatures of the key count at a time."""
        if self.revoked_at is not None:
            return KeyStatus.REVOKED
        if now < self.valid_from:
            return KeyStatus.NOT_YET_VALID
        is_over = self.valid_until is not None and now >= self.valid_until
        return KeyStatus.EXPIRED if is_over else KeyStatus.ACTIVE


class LinkKind(StrEnum):
    """The kind of a resource that a bundle names, besides its issue."""

    APPROVAL_REQUEST = "approval_request"
    TRACE = "trace"


class Link(NamedTuple):
    """A resource that a bundle names, by its id."""

    kind: LinkKind
    target: str


MAX_ISSUER_LENGTH: Final = 300
MAX_PEM_LENGTH: Final = 1_000
MAX_REASON_LENGTH: Final = 500
MAX_MEDIA_TYPE_LENGTH: Final = 100
_REVOKED: Final = "(revoked_at IS NULL) = (revocation_reason IS NULL)"

proof_issuer_keys: Final = sa.Table(
    "proof_issuer_keys",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("issuer", text(MAX_ISSUER_LENGTH), nullable=False),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("key_id", text(MAX_KEY_ID_LENGTH), nullable=False),
    sa.Column("algorithm", text(16), nullable=False),
    sa.Column("public_key", text(MAX_PEM_LENGTH), nullable=False),
    sa.Column("valid_from", UtcTime, nullable=False),
    sa.Column("valid_until", UtcTime),
    sa.Column("revoked_at", UtcTime),
    sa.Column("revocation_reason", text(MAX_REASON_LENGTH)),
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id")),
    sa.Column("created_at", UtcTime, nullable=False),
    enum_check("algorithm", KeyAlgorithm),
    sa.CheckConstraint(_REVOKED, name="revoked"),
    sa.UniqueConstraint("org_id", "key_id"),
)


def _kinds_index(column: str) -> sa.Index:
    """An index for each combination of signature, verdict and tier that an issue, a run or a commit has, by id."""
    return sa.Index(f"ix_proof_bundles_kinds_{column}", "project_id", column, "is_verified", "verdict", "tier", "id")


proof_bundles: Final = sa.Table(
    "proof_bundles",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("bundle_id", text(128), nullable=False),
    sa.Column("is_verified", sa.Boolean, nullable=False),
    sa.Column("issuer_key_id", text(32), sa.ForeignKey("proof_issuer_keys.id")),
    sa.Column("key_id", text(MAX_KEY_ID_LENGTH)),
    sa.Column("submitted_by", text(32), sa.ForeignKey("principals.id")),
    sa.Column("received_at", UtcTime, nullable=False),
    sa.Column("media_type", text(MAX_MEDIA_TYPE_LENGTH), nullable=False),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    # The fields that lists show and filter by. They are stored as the bundle has them, but without NUL.
    sa.Column("issued_at", text(24), nullable=False),
    sa.Column("issuer", text(MAX_ISSUER_LENGTH), nullable=False),
    sa.Column("tier", text(8), nullable=False),
    sa.Column("verdict", text(8), nullable=False),
    sa.Column("billable", sa.Boolean, nullable=False),
    sa.Column("claims", sa.Integer, nullable=False),
    sa.Column("issue_id", text(32)),  # without foreign key: the bundle outlives the issue
    sa.Column("issue_short_id", text(120), nullable=False),
    sa.Column("title", text(400), nullable=False),
    sa.Column("run_id", text(200), nullable=False),
    sa.Column("proposal_id", text(200), nullable=False),
    sa.Column("commit", text(80)),
    sa.Column("errors", sa.Integer, nullable=False),  # findings
    sa.Column("warnings", sa.Integer, nullable=False),
    sa.Column("findings", sa.LargeBinary, nullable=False),  # JSON
    sa.Column("body", sa.LargeBinary, nullable=False),  # as received; the last column, so that lists need not read it
    enum_check("tier", ProofTier),
    enum_check("verdict", ProofVerdict),
    sa.CheckConstraint("is_verified = (issuer_key_id IS NOT NULL)", name="verified"),
    sa.UniqueConstraint("project_id", "bundle_id", "is_verified"),
    sa.Index(None, "org_id"),
    sa.Index(None, "project_id", "id"),
    sa.Index(None, "project_id", "digest"),
    sa.Index(None, "project_id", "issue_id", "id"),
    _kinds_index("issue_id"),
    sa.Index(None, "project_id", "run_id", "id"),
    _kinds_index("run_id"),
    sa.Index(None, "project_id", "commit", "id"),
    _kinds_index("commit"),
    sa.Index(None, "project_id", "is_verified", "verdict", "tier", "id"),
    sa.Index(None, "issuer_key_id"),
)

proof_links: Final = sa.Table(
    "proof_links",
    metadata,
    sa.Column("proof_id", text(32), sa.ForeignKey("proof_bundles.id"), primary_key=True),
    sa.Column("kind", text(16), primary_key=True),
    sa.Column("target", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    enum_check("kind", LinkKind),
    sa.Index(None, "project_id", "kind", "target", "proof_id"),
    sa.Index(None, "org_id"),
)

# The stored bytes of an organization, by project. Adding up a million rows for each new bundle would take too long.
proof_usage: Final = sa.Table(
    "proof_usage",
    metadata,
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("bundles", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("unsigned_bytes", sa.BigInteger, nullable=False),
    sa.Index(None, "org_id"),
)
