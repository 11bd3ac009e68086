"""The tables of single sign-on. Secrets that a browser or a dashboard holds are stored as SHA-256. Secrets of a
provider are encrypted.
"""

import hashlib
from enum import StrEnum
from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from proto.identity import MAX_EMAIL_LENGTH, MAX_URL_LENGTH, Role

MAX_ENTITY_ID_LENGTH: Final = 1_024  # SAML core 8.3.6
MAX_SUBJECT_LENGTH: Final = 1_024
MAX_RELAY_STATE_LENGTH: Final = 1_024
MAX_DOMAIN_LENGTH: Final = 253
MAX_CLIENT_ID_LENGTH: Final = 256


def hash_text(text: str) -> bytes:
    """The stored form of a text of any characters that is only compared."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class Protocol(StrEnum):
    """The protocol of the identity provider."""

    SAML = "SAML"
    OIDC = "OIDC"


class MfaTrust(StrEnum):
    """When a login through the provider counts as a login with a second factor."""

    NEVER = "NEVER"
    ASSERTED = "ASSERTED"  # when the provider says so: `amr`, `acr`, the authentication context of SAML
    ALWAYS = "ALWAYS"


# An organization has at most one connection per protocol.
sso_connections: Final = sa.Table(
    "sso_connections",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("protocol", text(8), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("enforced", sa.Boolean, nullable=False),
    sa.Column("default_role", text(16), nullable=False),
    sa.Column("attribute_mapping", sa.JSON(none_as_null=True)),
    sa.Column("role_mapping", sa.JSON(none_as_null=True)),
    sa.Column("idp_entity_id", text(MAX_ENTITY_ID_LENGTH)),
    sa.Column("idp_sso_url", text(MAX_URL_LENGTH)),
    sa.Column("idp_certificate", sa.LargeBinary, info={"sealed": True}),  # PEM
    sa.Column("idp_certificate_alternates", sa.LargeBinary, info={"sealed": True}),  # a JSON list of PEM
    sa.Column("idp_certificate_alternate_count", sa.Integer, nullable=False),
    sa.Column("certificate_expires_at", UtcTime),  # the first of its certificates to expire
    sa.Column("oidc_issuer", text(MAX_URL_LENGTH)),
    sa.Column("oidc_client_id", text(MAX_CLIENT_ID_LENGTH)),
    sa.Column("oidc_client_secret", sa.LargeBinary, info={"sealed": True}),
    sa.Column("oidc_scopes", sa.JSON, nullable=False),
    sa.Column("tested_at", UtcTime),  # the first successful login to the provider that is configured now
    sa.Column("confirmed_by_owner", sa.Boolean, nullable=False),  # an owner confirmed provider and certificates
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    enum_check("protocol", Protocol),
    sa.CheckConstraint(f"default_role <> '{Role.OWNER}'", name="default_role"),
    sa.CheckConstraint("enabled OR NOT enforced", name="enforced"),
    sa.UniqueConstraint("org_id", "protocol"),
)

# The organization's settings for all its connections. No row: the defaults.
sso_settings: Final = sa.Table(
    "sso_settings",
    metadata,
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), primary_key=True),
    sa.Column("mfa_trust", text(16), nullable=False),
    sa.Column("personal_tokens", sa.Boolean, nullable=False),  # whether tokens of users work under enforcement
    sa.Column("updated_at", UtcTime, nullable=False),
    enum_check("mfa_trust", MfaTrust),
)

# Domains of e-mail addresses. They are proven by a DNS record, or by the operator.
sso_domains: Final = sa.Table(
    "sso_domains",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("domain", text(MAX_DOMAIN_LENGTH), nullable=False),  # in lower case, IDNA A-labels
    sa.Column("challenge", text(64), nullable=False),  # the text that the DNS record must contain
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("verified_at", UtcTime),
    sa.UniqueConstraint("org_id", "domain"),
    sa.Index(
        None,
        "domain",
        unique=True,
        sqlite_where=sa.text("verified_at IS NOT NULL"),
        postgresql_where=sa.text("verified_at IS NOT NULL"),
    ),
)


def _of_member() -> sa.ForeignKeyConstraint:
    """The row is deleted with the membership, so that a removed member has no link, and nothing to spend."""
    return sa.ForeignKeyConstraint(
        ["org_id", "principal_id"], ["memberships.org_id", "memberships.principal_id"], ondelete="CASCADE"
    )


# The account of each subject. The address of the account is not part of the link.
sso_identities: Final = sa.Table(
    "sso_identities",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("connection_id", text(32), sa.ForeignKey("sso_connections.id"), nullable=False),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("subject", text(MAX_SUBJECT_LENGTH), nullable=False),
    sa.Column("subject_hash", sa.LargeBinary(32), nullable=False),  # unique: 1 024 characters exceed an index row
    sa.Column("principal_id", text(32), nullable=False),
    sa.Column("email", text(MAX_EMAIL_LENGTH), nullable=False),  # the last address from the provider
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("last_login_at", UtcTime, nullable=False),
    _of_member(),
    sa.UniqueConstraint("connection_id", "subject_hash"),
    sa.Index(None, "org_id", "principal_id"),
)

# Begun logins. A state is used once, within minutes, by the browser that began the login.
sso_logins: Final = sa.Table(
    "sso_logins",
    metadata,
    sa.Column("state_hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("connection_id", text(32), sa.ForeignKey("sso_connections.id"), nullable=False),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("binding_hash", sa.LargeBinary(32), nullable=False),  # of the browser's cookie
    sa.Column("request_id", text(64), nullable=False),  # SAML: the id of the request; OIDC: empty
    sa.Column("relay_state", text(MAX_RELAY_STATE_LENGTH)),
    sa.Column("link_principal_id", text(32), sa.ForeignKey("users.principal_id")),  # the account to link
    sa.Column("address_hash", sa.LargeBinary(32), nullable=False),  # of the client
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Column("used_at", UtcTime),
    sa.Index(None, "address_hash", "created_at"),
    sa.Index(None, "connection_id"),
    sa.Index(None, "expires_at"),
)

# Accepted assertions, until they expire, so that none is accepted twice.
sso_assertions: Final = sa.Table(
    "sso_assertions",
    metadata,
    sa.Column("connection_id", text(32), sa.ForeignKey("sso_connections.id"), primary_key=True),
    sa.Column("assertion_hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Index(None, "expires_at"),
)

# One-time codes. Spending a code creates the session.
sso_handoff_codes: Final = sa.Table(
    "sso_handoff_codes",
    metadata,
    sa.Column("hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("connection_id", text(32), sa.ForeignKey("sso_connections.id"), nullable=False),
    sa.Column("identity_id", text(32), sa.ForeignKey("sso_identities.id", ondelete="CASCADE"), nullable=False),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("principal_id", text(32), sa.ForeignKey("users.principal_id"), nullable=False),
    sa.Column("methods", sa.JSON, nullable=False),  # of the session
    sa.Column("provisioned", sa.Boolean, nullable=False),
    sa.Column("next", text(MAX_RELAY_STATE_LENGTH)),
    sa.Column("session_expires_at", UtcTime),  # limit of the provider
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Column("used_at", UtcTime),
    sa.Index(None, "identity_id"),
    sa.Index(None, "expires_at"),
)

# A link that a user has asked for, in a session of the account. It begins one login, which links the account.
sso_link_requests: Final = sa.Table(
    "sso_link_requests",
    metadata,
    sa.Column("hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("principal_id", text(32), nullable=False),
    sa.Column("session_id", text(32), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Column("used_at", UtcTime),
    _of_member(),
    sa.Index(None, "org_id", "principal_id"),
    sa.Index(None, "expires_at"),
)
