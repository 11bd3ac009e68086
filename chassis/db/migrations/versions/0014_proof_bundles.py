"""Proof bundles, the keys of their issuers, and what they speak of."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _issuer_keys()
    _bundles()
    _links()
    op.create_table(
        "proof_usage",
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("bundles", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("unsigned_bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("project_id", name="pk_proof_usage"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_proof_usage_project_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_proof_usage_org_id"),
    )
    op.create_index("ix_proof_usage_org_id", "proof_usage", ["org_id"])


def _issuer_keys() -> None:
    op.create_table(
        "proof_issuer_keys",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("issuer", text(300), nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("key_id", text(200), nullable=False),
        sa.Column("algorithm", text(16), nullable=False),
        sa.Column("public_key", text(1_000), nullable=False),
        sa.Column("valid_from", UtcTime, nullable=False),
        sa.Column("valid_until", UtcTime),
        sa.Column("revoked_at", UtcTime),
        sa.Column("revocation_reason", text(500)),
        sa.Column("created_by", text(32)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_proof_issuer_keys"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_proof_issuer_keys_org_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_proof_issuer_keys_created_by"),
        sa.UniqueConstraint("org_id", "key_id", name="uq_proof_issuer_keys_org_id_key_id"),
        sa.CheckConstraint("algorithm IN ('ED25519', 'ECDSA_P256')", name="ck_proof_issuer_keys_algorithm"),
        sa.CheckConstraint("(revoked_at IS NULL) = (revocation_reason IS NULL)", name="ck_proof_issuer_keys_revoked"),
    )


def _bundles() -> None:
    op.create_table(
        "proof_bundles",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.Column("bundle_id", text(128), nullable=False),
        sa.Column("is_verified", sa.Boolean, nullable=False),
        sa.Column("issuer_key_id", text(32)),
        sa.Column("key_id", text(200)),
        sa.Column("submitted_by", text(32)),
        sa.Column("received_at", UtcTime, nullable=False),
        sa.Column("media_type", text(100), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("issued_at", text(24), nullable=False),
        sa.Column("issuer", text(300), nullable=False),
        sa.Column("tier", text(8), nullable=False),
        sa.Column("verdict", text(8), nullable=False),
        sa.Column("billable", sa.Boolean, nullable=False),
        sa.Column("claims", sa.Integer, nullable=False),
        sa.Column("issue_id", text(32)),
        sa.Column("issue_short_id", text(120), nullable=False),
        sa.Column("title", text(400), nullable=False),
        sa.Column("run_id", text(200), nullable=False),
        sa.Column("proposal_id", text(200), nullable=False),
        sa.Column("commit", text(80)),
        sa.Column("errors", sa.Integer, nullable=False),
        sa.Column("warnings", sa.Integer, nullable=False),
        sa.Column("findings", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_proof_bundles"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_proof_bundles_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_proof_bundles_project_id"),
        sa.ForeignKeyConstraint(["issuer_key_id"], ["proof_issuer_keys.id"], name="fk_proof_bundles_issuer_key_id"),
        sa.ForeignKeyConstraint(["submitted_by"], ["principals.id"], name="fk_proof_bundles_submitted_by"),
        sa.UniqueConstraint(
            "project_id", "bundle_id", "is_verified", name="uq_proof_bundles_project_id_bundle_id_is_verified"
        ),
        sa.CheckConstraint("tier IN ('A', 'B', 'C', 'VOID', 'NONE')", name="ck_proof_bundles_tier"),
        sa.CheckConstraint("verdict IN ('PASSED', 'VOID', 'FAILED')", name="ck_proof_bundles_verdict"),
        sa.CheckConstraint("is_verified = (issuer_key_id IS NOT NULL)", name="ck_proof_bundles_verified"),
    )
    for columns in (
        ("org_id",),
        ("project_id", "id"),
        ("project_id", "digest"),
        ("project_id", "issue_id", "id"),
        ("project_id", "run_id", "id"),
        ("project_id", "commit", "id"),
        ("project_id", "is_verified", "verdict", "tier", "id"),
        ("issuer_key_id",),
    ):
        op.create_index(f"ix_proof_bundles_{'_'.join(columns)}", "proof_bundles", list(columns))
    for column in ("issue_id", "run_id", "commit"):
        kinds = ["project_id", column, "is_verified", "verdict", "tier", "id"]
        op.create_index(f"ix_proof_bundles_kinds_{column}", "proof_bundles", kinds)


def _links() -> None:
    op.create_table(
        "proof_links",
        sa.Column("proof_id", text(32), nullable=False),
        sa.Column("kind", text(16), nullable=False),
        sa.Column("target", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("proof_id", "kind", "target", name="pk_proof_links"),
        sa.ForeignKeyConstraint(["proof_id"], ["proof_bundles.id"], name="fk_proof_links_proof_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_proof_links_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_proof_links_project_id"),
        sa.CheckConstraint("kind IN ('approval_request', 'trace')", name="ck_proof_links_kind"),
    )
    op.create_index(
        "ix_proof_links_project_id_kind_target_proof_id", "proof_links", ["project_id", "kind", "target", "proof_id"]
    )
    op.create_index("ix_proof_links_org_id", "proof_links", ["org_id"])
