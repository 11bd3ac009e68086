"""The table of policies."""

from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from control.approvals.policies.rules import MAX_ACTION_LENGTH, MAX_APPROVERS, MAX_TTL_MINUTES, Effect, RiskClass
from proto.identity import MAX_NAME_LENGTH

MAX_TARGET_TYPE_LENGTH: Final = 120


approval_policies: Final = sa.Table(
    "approval_policies",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id")),  # NULL: of the organization
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("action_pattern", text(MAX_ACTION_LENGTH), nullable=False),
    sa.Column("target_type", text(MAX_TARGET_TYPE_LENGTH)),  # NULL: of any type
    sa.Column("effect", text(8), nullable=False),
    sa.Column("risk_class", text(16), nullable=False),
    sa.Column("min_approvers", sa.Integer, nullable=False),
    sa.Column("approver_roles", sa.JSON, nullable=False),
    sa.Column("machine_approver_ids", sa.JSON, nullable=False),
    sa.Column("ttl_minutes", sa.Integer, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    enum_check("effect", Effect),
    enum_check("risk_class", RiskClass),
    sa.CheckConstraint(f"min_approvers BETWEEN 1 AND {MAX_APPROVERS}", name="min_approvers"),
    sa.CheckConstraint(f"ttl_minutes BETWEEN 1 AND {MAX_TTL_MINUTES}", name="ttl_minutes"),
    sa.Index(None, "org_id", "id"),
)
