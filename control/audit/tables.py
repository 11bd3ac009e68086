"""The tables of the audit log. Sluice only appends events, and never changes or deletes them. The events of a deleted
organization lose their content (`erased`). The database permits no other change.
"""

from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, text

MAX_ACTION_LENGTH: Final = 100
MAX_OBJECT_ID_LENGTH: Final = 200
SALT_BYTES: Final = 16
ERASED: Final = "(erased)"  # replaces a text that a client or an administrator chose

audit_events: Final = sa.Table(
    "audit_events",
    metadata,
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),  # 1, 2, 3 and so on in each organization
    sa.Column("at", UtcTime, nullable=False),
    # No foreign keys to principals and tokens: an event outlives its objects.
    sa.Column("actor_id", text(32)),  # NULL: the system, or a caller who is not logged in
    sa.Column("actor_kind", text(16)),
    sa.Column("on_behalf_of", text(32)),
    sa.Column("act_chain", sa.Text, nullable=False),  # JSON, as it was hashed
    sa.Column("token_id", text(32)),
    sa.Column("action", text(MAX_ACTION_LENGTH), nullable=False),
    sa.Column("object_id", text(MAX_OBJECT_ID_LENGTH), nullable=False),
    sa.Column("data", sa.Text, nullable=False),  # JSON, as it was hashed: a JSON column would reformat it
    sa.Column("request_id", text(64), nullable=False),
    sa.Column("prev_hash", sa.LargeBinary(32), nullable=False),
    sa.Column("hash", sa.LargeBinary(32), nullable=False),
    sa.Column("salt", sa.LargeBinary(SALT_BYTES)),  # NULL: the event is older than salts, or erased
    sa.Column("erased", sa.Boolean, server_default=sa.false(), nullable=False),
    sa.Index(None, "org_id", "at", "seq"),
    sa.Index(None, "org_id", "action", "seq"),
    sa.Index(None, "org_id", "object_id", "seq"),
    sa.Index(None, "org_id", "actor_id", "seq"),
)

# The last event of each organization, to detect events that were removed at the end.
audit_heads: Final = sa.Table(
    "audit_heads",
    metadata,
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.LargeBinary(32), nullable=False),
    sa.Column("sealed", sa.Boolean, server_default=sa.false(), nullable=False),  # the organization is erased: no events
)
