"""Single sign-on: connections to identity providers, domains, identities, logins, handoff codes; enforcement."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_VERIFIED = sa.text("verified_at IS NOT NULL")


def upgrade() -> None:
    for name in ("sso_enforced", "user_tokens_blocked"):
        op.add_column("organizations", sa.Column(name, sa.Boolean, server_default=sa.false(), nullable=False))
    op.add_column("organizations", sa.Column("break_glass_id", text(32)))
    _connections()
    _settings()
    _domains()
    _identities()
    _logins()
    _assertions()
    _handoff_codes()
    _link_requests()


def _connections() -> None:
    op.create_table(
        "sso_connections",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("protocol", text(8), nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("enforced", sa.Boolean, nullable=False),
        sa.Column("default_role", text(16), nullable=False),
        sa.Column("attribute_mapping", sa.JSON(none_as_null=True)),
        sa.Column("role_mapping", sa.JSON(none_as_null=True)),
        sa.Column("idp_entity_id", text(1_024)),
        sa.Column("idp_sso_url", text(2_048)),
        sa.Column("idp_certificate", sa.LargeBinary),
        sa.Column("idp_certificate_alternates", sa.LargeBinary),
        sa.Column("idp_certificate_alternate_count", sa.Integer, nullable=False),
        sa.Column("certificate_expires_at", UtcTime),
        sa.Column("oidc_issuer", text(2_048)),
        sa.Column("oidc_client_id", text(256)),
        sa.Column("oidc_client_secret", sa.LargeBinary),
        sa.Column("oidc_scopes", sa.JSON, nullable=False),
        sa.Column("tested_at", UtcTime),
        sa.Column("confirmed_by_owner", sa.Boolean, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sso_connections"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_sso_connections_org_id"),
        sa.CheckConstraint("protocol IN ('SAML', 'OIDC')", name="ck_sso_connections_protocol"),
        sa.CheckConstraint("default_role <> 'OWNER'", name="ck_sso_connections_default_role"),
        sa.CheckConstraint("enabled OR NOT enforced", name="ck_sso_connections_enforced"),
        sa.UniqueConstraint("org_id", "protocol", name="uq_sso_connections_org_id_protocol"),
    )


def _settings() -> None:
    op.create_table(
        "sso_settings",
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("mfa_trust", text(16), nullable=False),
        sa.Column("personal_tokens", sa.Boolean, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("org_id", name="pk_sso_settings"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_sso_settings_org_id"),
        sa.CheckConstraint("mfa_trust IN ('NEVER', 'ASSERTED', 'ALWAYS')", name="ck_sso_settings_mfa_trust"),
    )


def _domains() -> None:
    op.create_table(
        "sso_domains",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("domain", text(253), nullable=False),
        sa.Column("challenge", text(64), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("verified_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_sso_domains"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_sso_domains_org_id"),
        sa.UniqueConstraint("org_id", "domain", name="uq_sso_domains_org_id_domain"),
    )
    op.create_index(
        "ix_sso_domains_domain",
        "sso_domains",
        ["domain"],
        unique=True,
        sqlite_where=_VERIFIED,
        postgresql_where=_VERIFIED,
    )


def _identities() -> None:
    op.create_table(
        "sso_identities",
        sa.Column("id", text(32), nullable=False),
        sa.Column("connection_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("subject", text(1_024), nullable=False),
        sa.Column("subject_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("email", text(254), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("last_login_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sso_identities"),
        *_of_connection("sso_identities"),
        _of_member("sso_identities"),
        sa.UniqueConstraint("connection_id", "subject_hash", name="uq_sso_identities_connection_id_subject_hash"),
    )
    op.create_index("ix_sso_identities_org_id_principal_id", "sso_identities", ["org_id", "principal_id"])


def _logins() -> None:
    op.create_table(
        "sso_logins",
        sa.Column("state_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("connection_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("binding_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("request_id", text(64), nullable=False),
        sa.Column("relay_state", text(1_024)),
        sa.Column("link_principal_id", text(32)),
        sa.Column("address_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.Column("used_at", UtcTime),
        sa.PrimaryKeyConstraint("state_hash", name="pk_sso_logins"),
        *_of_connection("sso_logins"),
        _of_user("sso_logins", "link_principal_id"),
    )
    op.create_index("ix_sso_logins_address_hash_created_at", "sso_logins", ["address_hash", "created_at"])
    op.create_index("ix_sso_logins_connection_id", "sso_logins", ["connection_id"])
    op.create_index("ix_sso_logins_expires_at", "sso_logins", ["expires_at"])


def _assertions() -> None:
    op.create_table(
        "sso_assertions",
        sa.Column("connection_id", text(32), nullable=False),
        sa.Column("assertion_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("connection_id", "assertion_hash", name="pk_sso_assertions"),
        *_of_connection("sso_assertions"),
    )
    op.create_index("ix_sso_assertions_expires_at", "sso_assertions", ["expires_at"])


def _handoff_codes() -> None:
    op.create_table(
        "sso_handoff_codes",
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("connection_id", text(32), nullable=False),
        sa.Column("identity_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("methods", sa.JSON, nullable=False),
        sa.Column("provisioned", sa.Boolean, nullable=False),
        sa.Column("next", text(1_024)),
        sa.Column("session_expires_at", UtcTime),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.Column("used_at", UtcTime),
        sa.PrimaryKeyConstraint("hash", name="pk_sso_handoff_codes"),
        *_of_connection("sso_handoff_codes"),
        _of_user("sso_handoff_codes", "principal_id"),
        sa.ForeignKeyConstraint(
            ["identity_id"], ["sso_identities.id"], name="fk_sso_handoff_codes_identity_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_sso_handoff_codes_identity_id", "sso_handoff_codes", ["identity_id"])
    op.create_index("ix_sso_handoff_codes_expires_at", "sso_handoff_codes", ["expires_at"])


def _link_requests() -> None:
    op.create_table(
        "sso_link_requests",
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("session_id", text(32), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.Column("used_at", UtcTime),
        sa.PrimaryKeyConstraint("hash", name="pk_sso_link_requests"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_sso_link_requests_org_id"),
        _of_member("sso_link_requests"),
    )
    op.create_index("ix_sso_link_requests_org_id_principal_id", "sso_link_requests", ["org_id", "principal_id"])
    op.create_index("ix_sso_link_requests_expires_at", "sso_link_requests", ["expires_at"])


def _of_connection(table: str) -> list[sa.ForeignKeyConstraint]:
    return [
        sa.ForeignKeyConstraint(["connection_id"], ["sso_connections.id"], name=f"fk_{table}_connection_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name=f"fk_{table}_org_id"),
    ]


def _of_member(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["org_id", "principal_id"],
        ["memberships.org_id", "memberships.principal_id"],
        name=f"fk_{table}_org_id_principal_id",
        ondelete="CASCADE",
    )


def _of_user(table: str, column: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], ["users.principal_id"], name=f"fk_{table}_{column}")
