"""The audit, approval policies, approval requests and the votes on them."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, format_time, text, to_milliseconds

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_START: Final = bytes(32)
_COLUMNS: Final = ("org_id", "seq", "action", "object_id", "request_id", "act_chain", "data", "prev_hash", "hash")


def upgrade() -> None:
    _audit_events()
    _audit_heads()
    _append_only()
    _begin()
    _approval_policies()
    _approval_requests()
    _approval_votes()


def _audit_events() -> None:
    op.create_table(
        "audit_events",
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("seq", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("at", UtcTime, nullable=False),
        sa.Column("actor_id", text(32)),
        sa.Column("actor_kind", text(16)),
        sa.Column("on_behalf_of", text(32)),
        sa.Column("act_chain", sa.Text, nullable=False),
        sa.Column("token_id", text(32)),
        sa.Column("action", text(100), nullable=False),
        sa.Column("object_id", text(200), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("request_id", text(64), nullable=False),
        sa.Column("prev_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("org_id", "seq", name="pk_audit_events"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_audit_events_org_id"),
    )
    op.create_index("ix_audit_events_org_id_at_seq", "audit_events", ["org_id", "at", "seq"])
    op.create_index("ix_audit_events_org_id_action_seq", "audit_events", ["org_id", "action", "seq"])
    op.create_index("ix_audit_events_org_id_object_id_seq", "audit_events", ["org_id", "object_id", "seq"])
    op.create_index("ix_audit_events_org_id_actor_id_seq", "audit_events", ["org_id", "actor_id", "seq"])


def _audit_heads() -> None:
    op.create_table(
        "audit_heads",
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("org_id", name="pk_audit_heads"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_audit_heads_org_id"),
    )


def _append_only() -> None:
    """No statement changes or deletes an event; who may drop a trigger is seen by the chain. On SQLite a row that an
    INSERT OR REPLACE takes the place of is deleted without the trigger for that.
    """
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER audit_events_no_replace BEFORE INSERT ON audit_events WHEN EXISTS"
            " (SELECT 1 FROM audit_events WHERE rowid = NEW.rowid OR (org_id = NEW.org_id AND seq = NEW.seq))"
            " BEGIN SELECT RAISE(ABORT, 'audit events are only added'); END"
        )
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_events_no_{change.lower()} BEFORE {change} ON audit_events"
                " BEGIN SELECT RAISE(ABORT, 'audit events are only added'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION audit_events_append_only() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'audit events are only added'; END $$"
    )
    for change, each in (("UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
        op.execute(
            f"CREATE TRIGGER audit_events_no_{change.split()[0].lower()} BEFORE {change} ON audit_events"
            f" FOR EACH {each} EXECUTE FUNCTION audit_events_append_only()"
        )


def _begin() -> None:
    """Writes the first event of organizations that are older than the audit: one without events has lost them."""
    events = sa.table("audit_events", *map(sa.column, _COLUMNS), sa.column("at", UtcTime))
    heads = sa.table("audit_heads", *map(sa.column, ("org_id", "seq", "hash")))
    now = to_milliseconds(datetime.now(UTC))
    for org_id in op.get_bind().execute(sa.text("SELECT id FROM organizations ORDER BY id")).scalars().all():
        row = {"org_id": org_id, "seq": 1, "action": "audit.begin", "object_id": org_id, "request_id": "(migration)"}
        digest = _digest(row, now)
        stored = {"at": now, "act_chain": "[]", "data": "{}", "prev_hash": _START, "hash": digest}
        op.execute(events.insert().values(row | stored))
        op.execute(heads.insert().values(org_id=org_id, seq=1, hash=digest))


def _digest(row: dict[str, object], at: datetime) -> bytes:
    """As `control.audit.chain.hash_of` has it of such an event."""
    event = {
        "orgId": row["org_id"],
        "seq": row["seq"],
        "at": format_time(at),
        "actorPrincipalId": None,
        "actorKind": None,
        "onBehalfOfPrincipalId": None,
        "actChain": [],
        "tokenId": None,
        "action": row["action"],
        "objectId": row["object_id"],
        "data": {},
        "requestId": row["request_id"],
        "prevHash": _START.hex(),
    }
    return hashlib.sha256(json.dumps(event, sort_keys=True, separators=(",", ":")).encode()).digest()


def _approval_policies() -> None:
    op.create_table(
        "approval_policies",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger),
        sa.Column("name", text(200), nullable=False),
        sa.Column("action_pattern", text(120), nullable=False),
        sa.Column("target_type", text(120)),
        sa.Column("effect", text(8), nullable=False),
        sa.Column("risk_class", text(16), nullable=False),
        sa.Column("min_approvers", sa.Integer, nullable=False),
        sa.Column("approver_roles", sa.JSON, nullable=False),
        sa.Column("machine_approver_ids", sa.JSON, nullable=False),
        sa.Column("ttl_minutes", sa.Integer, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_approval_policies"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_approval_policies_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_approval_policies_project_id"),
        sa.CheckConstraint("effect IN ('ALLOW', 'ASK', 'DENY')", name="ck_approval_policies_effect"),
        sa.CheckConstraint(
            "risk_class IN ('LOW', 'MEDIUM', 'HIGH', 'CRITICAL')", name="ck_approval_policies_risk_class"
        ),
        sa.CheckConstraint("min_approvers BETWEEN 1 AND 10", name="ck_approval_policies_min_approvers"),
        sa.CheckConstraint("ttl_minutes BETWEEN 1 AND 43200", name="ck_approval_policies_ttl_minutes"),
    )
    op.create_index("ix_approval_policies_org_id_id", "approval_policies", ["org_id", "id"])


def _approval_requests() -> None:
    op.create_table(
        "approval_requests",
        *_what_is_asked(),
        *_what_was_decided(),
        sa.PrimaryKeyConstraint("id", name="pk_approval_requests"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_approval_requests_org_id"),
        sa.ForeignKeyConstraint(["requester_id"], ["principals.id"], name="fk_approval_requests_requester_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_approval_requests_project_id"),
        sa.CheckConstraint("status IN ('PENDING', 'APPROVED', 'REJECTED')", name="ck_approval_requests_status"),
        sa.CheckConstraint(
            "risk_class IN ('LOW', 'MEDIUM', 'HIGH', 'CRITICAL')", name="ck_approval_requests_risk_class"
        ),
        sa.CheckConstraint("min_approvers >= 1", name="ck_approval_requests_min_approvers"),
        sa.CheckConstraint("(status = 'PENDING') = (decided_at IS NULL)", name="ck_approval_requests_decided"),
        sa.CheckConstraint(
            "status <> 'APPROVED' OR (approvals >= min_approvers AND independent)", name="ck_approval_requests_approved"
        ),
    )
    op.create_index("ix_approval_requests_org_id_id", "approval_requests", ["org_id", "id"])
    waiting = "status = 'PENDING' AND NOT expiry_noted"
    for name, columns, where in (
        ("decided", ["org_id", "status", "id"], "status <> 'PENDING'"),
        ("noted", ["org_id", "id"], "expiry_noted"),
        ("open", ["org_id", "id", "expires_at"], waiting),
        ("same", ["org_id", "requester_id", "action", "target_id"], waiting),
        ("due", ["expires_at", "id"], waiting),
    ):
        some = sa.text(where)
        whole = f"ix_approval_requests_{name}"
        op.create_index(whole, "approval_requests", columns, sqlite_where=some, postgresql_where=some)


def _what_is_asked() -> list[sa.Column[object]]:
    return [
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("requester_id", text(32), nullable=False),
        sa.Column("on_behalf_of", text(32)),
        sa.Column("act_chain", sa.JSON, nullable=False),
        sa.Column("circle", sa.JSON, nullable=False),
        sa.Column("action", text(120), nullable=False),
        sa.Column("risk_class", text(16), nullable=False),
        sa.Column("target_type", text(120), nullable=False),
        sa.Column("target_id", text(500), nullable=False),
        sa.Column("project_id", sa.BigInteger),
        sa.Column("status", text(16), nullable=False),
        sa.Column("min_approvers", sa.Integer, nullable=False),
        sa.Column("approver_roles", sa.JSON, nullable=False),
        sa.Column("machine_approver_ids", sa.JSON, nullable=False),
        sa.Column("policy_id", text(32)),
        sa.Column("policy_source", text(16), nullable=False),
        sa.Column("policy_reason", sa.Text, nullable=False),
    ]


def _what_was_decided() -> list[sa.Column[object]]:
    return [
        sa.Column("decider_id", text(32)),
        sa.Column("decided_at", UtcTime),
        sa.Column("reason", text(4096)),
        sa.Column("approvals", sa.Integer),
        sa.Column("independent", sa.Boolean),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("payload", sa.JSON(none_as_null=True)),
        sa.Column("told_channel_ids", sa.JSON, nullable=False),
        sa.Column("expiry_noted", sa.Boolean, nullable=False),
    ]


def _approval_votes() -> None:
    op.create_table(
        "approval_votes",
        sa.Column("request_id", text(32), nullable=False),
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("kind", text(16), nullable=False),
        sa.Column("verdict", text(8), nullable=False),
        sa.Column("reason", text(4096)),
        sa.Column("on_behalf_of", text(32)),
        sa.Column("act_chain", sa.JSON, nullable=False),
        sa.Column("circle", sa.JSON, nullable=False),
        sa.Column("token_id", text(32), nullable=False),
        sa.Column("voted_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("request_id", "principal_id", name="pk_approval_votes"),
        sa.ForeignKeyConstraint(["request_id"], ["approval_requests.id"], name="fk_approval_votes_request_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_approval_votes_principal_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_approval_votes_org_id"),
        sa.CheckConstraint("verdict IN ('APPROVE', 'REJECT')", name="ck_approval_votes_verdict"),
        sa.CheckConstraint("kind IN ('user', 'agent', 'service')", name="ck_approval_votes_kind"),
    )
