"""The tables of identity, and functions that generate ids and secrets (their formats are in `proto.identity`).

Every row of an organization contains the `org_id`, and every index that finds such a row contains it too. Ids are text:
a prefix and a ULID (`new_id`), so that they sort by time of creation. Project ids are the exception: they are random
positive 53-bit integers, because DSNs contain them and the telemetry tables are sorted by them. For secrets only the
SHA-256 is stored.

The row of a deleted organization or project is kept without the name. Its slug (`deleted_slug`) occurs in no path, no
request and no other row.
"""

import secrets
import threading
import time
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from chassis.db.database import UtcTime, enum_check, text
from proto.identity import (
    EMAIL_VERIFICATION_PREFIX,
    INVITATION_PREFIX,
    MAX_EMAIL_LENGTH,
    MAX_LOCALE_LENGTH,
    MAX_NAME_LENGTH,
    MAX_PROJECT_ID,
    MAX_SLUG_LENGTH,
    MAX_URL_LENGTH,
    PROJECT_KEY_ENTROPY_BYTES,
    REFRESH_PREFIX,
    SCIM_PREFIX,
    TOKEN_ENTROPY_BYTES,
    PrincipalKind,
    Role,
    encode_project_key,
    encode_token,
)

metadata: Final = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

DELETED_NAME: Final = "(deleted)"  # of organizations, projects and principals

_Id: Final = text(32)
_Json: Final = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
_VERIFIED: Final = sa.text("email_verified")


organizations: Final = sa.Table(
    "organizations",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("slug", text(MAX_SLUG_LENGTH), nullable=False, unique=True),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("monthly_items", sa.BigInteger, server_default="0", nullable=False),  # 0: no quota
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("deleted_at", UtcTime),
    sa.Column("retired_slug", sa.LargeBinary(32)),  # SHA-256 of a deleted organization's slug, which is not reused
    # Whether the organization requires single sign-on, so that passwords and tokens of users do not work, and the owner
    # who may log in with a password nevertheless (NULL: the first owner). There is no foreign key, because SQLite
    # cannot add a foreign key to a table.
    sa.Column("sso_enforced", sa.Boolean, server_default=sa.false(), nullable=False),
    sa.Column("user_tokens_blocked", sa.Boolean, server_default=sa.false(), nullable=False),
    sa.Column("break_glass_id", _Id),
    sa.Index(None, "retired_slug", unique=True),
)

# Accepted items of an organization's projects in a month, "2026-11".
quota_usage: Final = sa.Table(
    "quota_usage",
    metadata,
    sa.Column("org_id", _Id, sa.ForeignKey("organizations.id"), primary_key=True),
    sa.Column("month", text(7), primary_key=True),
    sa.Column("items", sa.BigInteger, nullable=False),
    sa.Column("counted_at", UtcTime),  # start of the last recount in ClickHouse
)

projects: Final = sa.Table(
    "projects",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("org_id", _Id, sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("slug", text(MAX_SLUG_LENGTH), nullable=False),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("sensitive_words", _Json, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("retention_days", sa.Integer),  # NULL: the retention of the settings
    sa.Column("deleted_at", UtcTime),
    # Whether a merged fix resolves issues in the next release or immediately (`control.code`).
    sa.Column("resolve_on_merge", text(16), server_default="next_release", nullable=False),
    sa.Column("exempt_keys", _Json, server_default="[]", nullable=False),
    sa.Column("source_maps_revision", sa.BigInteger, server_default="0", nullable=False),  # number of changes
    sa.UniqueConstraint("org_id", "slug"),
)

project_keys: Final = sa.Table(
    "project_keys",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("org_id", _Id, sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("hash", sa.LargeBinary(32), nullable=False, unique=True),
    sa.Column("hint", text(8), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("rate", sa.Integer),  # requests per second; NULL: the default of the settings, 0: no limit
    sa.Column("revoked_at", UtcTime),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("created_by", _Id, sa.ForeignKey("principals.id")),
    sa.Index(None, "project_id", "id"),
)

principals: Final = sa.Table(
    "principals",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("kind", text(16), nullable=False),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("owner_id", _Id, sa.ForeignKey("principals.id")),
    sa.Column("disabled_at", UtcTime),
    sa.Column("created_at", UtcTime, nullable=False),
    enum_check("kind", PrincipalKind),
    sa.CheckConstraint("(kind = 'user') = (owner_id IS NULL)", name="owner"),
    sa.Index(None, "owner_id"),
)

memberships: Final = sa.Table(
    "memberships",
    metadata,
    sa.Column("org_id", _Id, sa.ForeignKey("organizations.id"), primary_key=True),
    sa.Column("principal_id", _Id, sa.ForeignKey("principals.id"), primary_key=True),
    sa.Column("role", text(16), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("managed", sa.Boolean, server_default=sa.false(), nullable=False),  # by the organization's directory
    enum_check("role", Role),
    sa.Index(None, "principal_id"),
)

access_tokens: Final = sa.Table(
    "access_tokens",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("org_id", _Id, sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("principal_id", _Id, sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("hash", sa.LargeBinary(32), nullable=False, unique=True),
    sa.Column("hint", text(8), nullable=False),
    sa.Column("scopes", _Json),  # NULL: all scopes of the holder's role
    sa.Column("expires_at", UtcTime),
    sa.Column("last_used_at", UtcTime),
    sa.Column("revoked_at", UtcTime),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("minted_with", _Id),  # a token; NULL: a session; no foreign key, because SQLite cannot add one to a table
    sa.Index(None, "org_id", "principal_id", "id"),
    sa.Index(None, "org_id", "minted_with"),
)

# The account of a principal of kind user: its login data. Several accounts may have the same address, and at most one
# of these accounts has verified the address. Each of the others is confined to a home organization, or was closed when
# it was removed from that organization. All accounts of an address have the same password salt
# (`control.identity.users.passwords`).
users: Final = sa.Table(
    "users",
    metadata,
    sa.Column("principal_id", _Id, sa.ForeignKey("principals.id"), primary_key=True),
    sa.Column("email", text(MAX_EMAIL_LENGTH), nullable=False),  # in lower case
    sa.Column("email_verified", sa.Boolean, nullable=False),
    sa.Column("home_org_id", _Id, sa.ForeignKey("organizations.id")),  # NULL: verified, or closed
    sa.Column("password_hash", text(200)),  # argon2id, with its parameters
    sa.Column("totp_secret", sa.LargeBinary(512), info={"sealed": True}),
    sa.Column("totp_confirmed_at", UtcTime),  # NULL: no second factor is required
    sa.Column("totp_step", sa.BigInteger),  # the last accepted one
    sa.Column("locale", text(MAX_LOCALE_LENGTH), nullable=False),
    sa.Column("theme", text(16), nullable=False),
    sa.Column("avatar_url", text(MAX_URL_LENGTH)),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.CheckConstraint("NOT (email_verified AND home_org_id IS NOT NULL)", name="home_org_id"),
    sa.UniqueConstraint("email", "home_org_id"),
    sa.Index(None, "email", unique=True, sqlite_where=_VERIFIED, postgresql_where=_VERIFIED),
)

# Secrets mailed to the address of an account. The user returns the secret to verify the address. At most one secret of
# an account is valid.
email_verifications: Final = sa.Table(
    "email_verifications",
    metadata,
    sa.Column("principal_id", _Id, sa.ForeignKey("users.principal_id"), primary_key=True),
    sa.Column("email", text(MAX_EMAIL_LENGTH), nullable=False),  # the address that the secret was mailed to
    sa.Column("hash", sa.LargeBinary(32), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
)

# Recovery codes: each is accepted once instead of a TOTP code.
recovery_codes: Final = sa.Table(
    "recovery_codes",
    metadata,
    sa.Column("principal_id", _Id, sa.ForeignKey("users.principal_id"), primary_key=True),
    sa.Column("hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("used_at", UtcTime),
)

invitations: Final = sa.Table(
    "invitations",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("org_id", _Id, sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("email", text(MAX_EMAIL_LENGTH), nullable=False),
    sa.Column("role", text(16), nullable=False),
    sa.Column("hash", sa.LargeBinary(32), nullable=False, unique=True),
    sa.Column("created_by", _Id, sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("minted_with", _Id, sa.ForeignKey("access_tokens.id")),  # NULL: a session
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Column("accepted_at", UtcTime),
    sa.Column("accepted_by", _Id, sa.ForeignKey("principals.id")),
    sa.Column("revoked_at", UtcTime),
    sa.Column("mailed", sa.Boolean, server_default=sa.false(), nullable=False),  # if not, the inviter saw the secret
    enum_check("role", Role),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "minted_with"),
)

# A family of refresh tokens, which are revoked together.
sessions: Final = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("org_id", _Id, sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("principal_id", _Id, sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("methods", _Json, nullable=False),  # how the user was authenticated: amr of RFC 8176
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Column("revoked_at", UtcTime),
    sa.Index(None, "principal_id", "org_id"),
)

refresh_tokens: Final = sa.Table(
    "refresh_tokens",
    metadata,
    sa.Column("hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("session_id", _Id, sa.ForeignKey("sessions.id"), nullable=False),
    sa.Column("org_id", _Id, sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Column("used_at", UtcTime),
    sa.Index(None, "session_id"),
)

# For a token that acts for another principal (RFC 8693): the subject, and the chain of actors, the current actor first.
delegations: Final = sa.Table(
    "delegations",
    metadata,
    sa.Column("token_id", _Id, sa.ForeignKey("access_tokens.id"), primary_key=True),
    sa.Column("org_id", _Id, sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("subject_id", _Id, sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("chain", _Json, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
)

# Public halves of the keys with which control processes sign the access tokens of sessions.
signing_keys: Final = sa.Table(
    "signing_keys",
    metadata,
    sa.Column("kid", text(64), primary_key=True),
    sa.Column("public_key", sa.LargeBinary(32), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("seen_at", UtcTime, nullable=False),
    sa.Column("withdrawn_at", UtcTime),
)


def deleted_slug(table: sa.Table) -> sa.ColumnElement[str]:
    """The slug of a deleted row of `organizations` or `projects`. It is unique, and not a valid slug for a request."""
    return sa.literal("~").concat(sa.cast(table.c.id, sa.Text))


_CROCKFORD: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_STEP_BITS: Final = 40  # of the random step between two ids of the same millisecond
_ID_DIGITS: Final = 26  # for 128 bits, five per digit


class _Numbers:
    """128-bit numbers that ascend in this process, also within one millisecond and when the clock is set back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
        with self._lock:
            self._last = max(number, self._last + 1 + secrets.randbits(_STEP_BITS))
            return self._last


_numbers: Final = _Numbers()


def new_id(prefix: str) -> str:
    """`prefix_` and a ULID in lower case: 48 bits of milliseconds and 80 random bits. Ids sort by time of creation, and
    within one process in the order of the calls.
    """
    number = _numbers.next()
    digits = [_CROCKFORD[number >> shift & 31] for shift in range(5 * (_ID_DIGITS - 1), -1, -5)]
    return f"{prefix}_{''.join(digits)}"


def new_project_id() -> int:
    """A random positive integer of 53 bits: exact in JSON everywhere, and it does not reveal the number of projects."""
    return 1 + secrets.randbelow(MAX_PROJECT_ID)


def new_token() -> str:
    """A new personal access token, in plain text."""
    return encode_token(secrets.token_bytes(TOKEN_ENTROPY_BYTES))


def new_invitation() -> str:
    """A new invitation token, in plain text."""
    return encode_token(secrets.token_bytes(TOKEN_ENTROPY_BYTES), INVITATION_PREFIX)


def new_refresh_token() -> str:
    """A new refresh token of a session, in plain text."""
    return encode_token(secrets.token_bytes(TOKEN_ENTROPY_BYTES), REFRESH_PREFIX)


def new_email_verification() -> str:
    """A new secret that verifies an e-mail address, in plain text."""
    return encode_token(secrets.token_bytes(TOKEN_ENTROPY_BYTES), EMAIL_VERIFICATION_PREFIX)


def new_project_key() -> str:
    """A new project key, in plain text."""
    return encode_project_key(secrets.token_bytes(PROJECT_KEY_ENTROPY_BYTES))


def new_scim_token() -> str:
    """A new token of a directory, in plain text."""
    return encode_token(secrets.token_bytes(TOKEN_ENTROPY_BYTES), SCIM_PREFIX)
