"""The tables of directories: the users and groups that an organization's directory has provisioned over SCIM, and the
tokens of the directory.

A provisioned user is a person as the directory describes it. Its principal is the account of this person in Sluice.
NULL: the person has no account yet, because it was never active, or has no e-mail address. Values that filters and
orders compare are stored beside the document, in the form that comparisons use (`user_store.fold`).
"""

from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, text
from proto.identity import MAX_NAME_LENGTH

MAX_TEXT_LENGTH: Final = 256  # of texts that filters compare
_FOLDED: Final = text(4 * MAX_TEXT_LENGTH)  # some letters become longer in lower case

scim_tokens: Final = sa.Table(
    "scim_tokens",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("hash", sa.LargeBinary(32), nullable=False, unique=True),
    sa.Column("hint", text(8), nullable=False),
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime),
    sa.Column("last_used_at", UtcTime),
    sa.Column("revoked_at", UtcTime),  # may be in the future if the token was rotated
    sa.Index(None, "org_id", "id"),
)

# The successor of the agents and services of a person whom the directory removes. Without a row, they are retired.
scim_settings: Final = sa.Table(
    "scim_settings",
    metadata,
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), primary_key=True),
    sa.Column("successor_id", text(32), sa.ForeignKey("principals.id")),  # NULL: they are retired
    sa.Column("updated_at", UtcTime, nullable=False),
)

scim_users: Final = sa.Table(
    "scim_users",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("principal_id", text(32), sa.ForeignKey("users.principal_id")),
    sa.Column("owns_account", sa.Boolean, nullable=False),  # true: the directory made the account; false: found one
    sa.Column("user_name", _FOLDED, nullable=False),
    sa.Column("external_id", text(MAX_TEXT_LENGTH)),
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Column("display_name", _FOLDED),
    sa.Column("family_name", _FOLDED),
    sa.Column("given_name", _FOLDED),
    sa.Column("document", sa.JSON, nullable=False),  # as the directory has written it, without id, meta and groups
    sa.Column("version", sa.BigInteger, nullable=False),  # counts changes: the ETag
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    sa.UniqueConstraint("org_id", "user_name"),
    sa.UniqueConstraint("org_id", "principal_id"),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "org_id", "external_id"),
    sa.Index(None, "org_id", "display_name"),
    sa.Index(None, "principal_id"),
)

scim_user_emails: Final = sa.Table(
    "scim_user_emails",
    metadata,
    sa.Column("user_id", text(32), sa.ForeignKey("scim_users.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("value", _FOLDED),
    sa.Column("type", _FOLDED),
    sa.Column("is_primary", sa.Boolean),
    sa.Index(None, "value", "org_id"),  # filters know only the value
)

scim_groups: Final = sa.Table(
    "scim_groups",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("display_name", text(MAX_TEXT_LENGTH), nullable=False),  # as the directory writes it
    sa.Column("display_name_folded", _FOLDED, nullable=False),
    sa.Column("external_id", text(MAX_TEXT_LENGTH)),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "org_id", "display_name_folded"),
    sa.Index(None, "org_id", "external_id"),
)

scim_group_members: Final = sa.Table(
    "scim_group_members",
    metadata,
    sa.Column("group_id", text(32), sa.ForeignKey("scim_groups.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("user_id", text(32), sa.ForeignKey("scim_users.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Index(None, "user_id"),
    sa.Index(None, "org_id"),
)
