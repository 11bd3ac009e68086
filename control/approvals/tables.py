"""The tables of approval requests and their votes.

The deciding roles and the number of required approvals are copied from the policy into the request, so a later change
of the policy does not affect existing requests.
"""

from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from control.approvals.policies.rules import MAX_ACTION_LENGTH, MAX_TARGET_TYPE_LENGTH, RiskClass
from proto.identity import PrincipalKind

MAX_TARGET_ID_LENGTH: Final = 500
MAX_REASON_LENGTH: Final = 4_096

# The wording must be exactly the wording of the partial indexes, or a database does not use them. A request whose time
# is over counts as open until its expiry is recorded.
OPEN: Final = sa.text("approval_requests.status = 'PENDING' AND NOT approval_requests.expiry_noted")
MARKED_EXPIRED: Final = sa.text("approval_requests.expiry_noted")
DECIDED: Final = sa.text("approval_requests.status <> 'PENDING'")


def _index(name: str, *columns: str, where: str) -> sa.Index:
    condition = sa.text(where)
    return sa.Index(f"ix_approval_requests_{name}", *columns, sqlite_where=condition, postgresql_where=condition)


approval_requests: Final = sa.Table(
    "approval_requests",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("requester_id", text(32), sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("on_behalf_of", text(32)),
    sa.Column("act_chain", sa.JSON, nullable=False),
    sa.Column("circle", sa.JSON, nullable=False),  # the requester's owner group
    sa.Column("action", text(MAX_ACTION_LENGTH), nullable=False),
    sa.Column("risk_class", text(16), nullable=False),
    sa.Column("target_type", text(MAX_TARGET_TYPE_LENGTH), nullable=False),
    sa.Column("target_id", text(MAX_TARGET_ID_LENGTH), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id")),
    sa.Column("status", text(16), nullable=False),  # never EXPIRED: such a request is PENDING after `expires_at`
    sa.Column("min_approvers", sa.Integer, nullable=False),
    sa.Column("approver_roles", sa.JSON, nullable=False),
    sa.Column("machine_approver_ids", sa.JSON, nullable=False),
    sa.Column("policy_id", text(32)),  # no foreign key: the policy may have been deleted
    sa.Column("policy_source", text(16), nullable=False),
    sa.Column("policy_reason", sa.Text, nullable=False),
    sa.Column("decider_id", text(32)),
    sa.Column("decided_at", UtcTime),
    sa.Column("reason", text(MAX_REASON_LENGTH)),
    sa.Column("approvals", sa.Integer),  # the count at the decision; `independent`: whether an approver was independent
    sa.Column("independent", sa.Boolean),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("payload", sa.JSON(none_as_null=True)),
    sa.Column("told_channel_ids", sa.JSON, nullable=False),  # channels to notify of the decision
    sa.Column("expiry_noted", sa.Boolean, nullable=False),
    sa.CheckConstraint("status IN ('PENDING', 'APPROVED', 'REJECTED')", name="status"),
    enum_check("risk_class", RiskClass),
    sa.CheckConstraint("min_approvers >= 1", name="min_approvers"),
    sa.CheckConstraint("(status = 'PENDING') = (decided_at IS NULL)", name="decided"),
    sa.CheckConstraint("status <> 'APPROVED' OR (approvals >= min_approvers AND independent)", name="approved"),
    sa.Index(None, "org_id", "id"),
    _index("decided", "org_id", "status", "id", where="status <> 'PENDING'"),
    _index("noted", "org_id", "id", where="expiry_noted"),
    _index("open", "org_id", "id", "expires_at", where="status = 'PENDING' AND NOT expiry_noted"),
    _index("same", "org_id", "requester_id", "action", "target_id", where="status = 'PENDING' AND NOT expiry_noted"),
    _index("due", "expires_at", "id", where="status = 'PENDING' AND NOT expiry_noted"),
)

approval_votes: Final = sa.Table(
    "approval_votes",
    metadata,
    sa.Column("request_id", text(32), sa.ForeignKey("approval_requests.id"), primary_key=True),
    sa.Column("principal_id", text(32), sa.ForeignKey("principals.id"), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("kind", text(16), nullable=False),
    sa.Column("verdict", text(8), nullable=False),
    sa.Column("reason", text(MAX_REASON_LENGTH)),
    sa.Column("on_behalf_of", text(32)),
    sa.Column("act_chain", sa.JSON, nullable=False),
    sa.Column("circle", sa.JSON, nullable=False),
    sa.Column("token_id", text(32), nullable=False),
    sa.Column("voted_at", UtcTime, nullable=False),
    sa.CheckConstraint("verdict IN ('APPROVE', 'REJECT')", name="verdict"),
    enum_check("kind", PrincipalKind),
)
