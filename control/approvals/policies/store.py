"""Policies in the database, and the checks of a policy that need the database."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from msgspec import UNSET, UnsetType
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import MembershipStatus, load_membership_statuses, with_owner_chain
from chassis.auth.tables import metadata, new_id, projects
from chassis.db.database import UtcTime, enum_check, text, to_milliseconds
from chassis.errors import Conflict, NotFound
from chassis.http.validation import Issues
from control.approvals.policies.rules import (
    MAX_ACTION_LENGTH,
    MAX_APPROVERS,
    MAX_TARGET_TYPE_LENGTH,
    MAX_TTL_MINUTES,
    Effect,
    RiskClass,
    Rule,
    Source,
)
from control.routing.resource import PROJECT_ID
from proto.identity import MAX_NAME_LENGTH, PrincipalKind, Role

MAX_POLICIES: Final = 1_000  # per organization with its projects, because each query evaluates all of them

approval_policies: Final = sa.Table(
    "approval_policies",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id")),  # NULL: applies to the whole organization
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("action_pattern", text(MAX_ACTION_LENGTH), nullable=False),
    sa.Column("target_type", text(MAX_TARGET_TYPE_LENGTH)),  # NULL: applies to any type
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

SELECT_POLICIES: Final = sa.select(approval_policies, projects.c.slug.label("project_slug")).join_from(
    approval_policies, projects, projects.c.id == approval_policies.c.project_id, isouter=True
)


async def create(connection: AsyncConnection, org_id: str, project_id: int | None, values: Mapping[str, Any]) -> str:
    """Create a policy and return its id. `values`: every column from `name` to `enabled`. Raises Conflict at
    MAX_POLICIES.
    """
    where = approval_policies.c.org_id == org_id
    count = await connection.scalar(sa.select(sa.func.count()).select_from(approval_policies).where(where))
    if (count or 0) >= MAX_POLICIES:
        raise Conflict(f"The organization has {MAX_POLICIES} policies, the maximum. Delete one first.")
    now = to_milliseconds(datetime.now(UTC))
    policy_id = new_id("pol")
    row = {"id": policy_id, "org_id": org_id, "project_id": project_id, "created_at": now, "updated_at": now}
    await connection.execute(approval_policies.insert().values({**row, **_column_values(values)}))
    return policy_id


async def change(connection: AsyncConnection, org_id: str, policy_id: str, values: Mapping[str, Any]) -> None:
    """Set the given values. Existing requests are not affected."""
    where = (approval_policies.c.org_id == org_id) & (approval_policies.c.id == policy_id)
    changed = {**_column_values(values), "updated_at": to_milliseconds(datetime.now(UTC))}
    await connection.execute(approval_policies.update().where(where).values(changed))


async def list_enabled_rules(connection: AsyncConnection, org_id: str, project_id: int | None) -> list[Rule]:
    """Rules of the enabled policies of the organization and, if given, of the project."""
    column = approval_policies.c.project_id
    in_scope = column.is_(None) if project_id is None else column.is_(None) | (column == project_id)
    statement = SELECT_POLICIES.where(approval_policies.c.org_id == org_id, approval_policies.c.enabled, in_scope)
    return [_rule(row) for row in await connection.execute(statement)]


def _column_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Column values: lists without duplicates, enum members as text."""
    return {
        name: [*dict.fromkeys(map(str, value))] if isinstance(value, list | tuple) else value
        for name, value in values.items()
    }


def _rule(row: sa.Row[*tuple[Any, ...]]) -> Rule:
    return Rule(
        name=row.name,
        source=Source.ORGANIZATION if row.project_id is None else Source.PROJECT,
        action_pattern=row.action_pattern,
        effect=Effect(row.effect),
        risk_class=RiskClass(row.risk_class),
        policy_id=row.id,
        target_type=row.target_type,
        min_approvers=row.min_approvers,
        approver_roles=tuple(Role(one) for one in row.approver_roles),
        machine_approver_ids=tuple(row.machine_approver_ids),
        ttl_minutes=row.ttl_minutes,
    )


_MACHINES_PATH: Final = "body.machineApproverIds"


async def check_deciders(
    connection: AsyncConnection,
    org_id: str,
    policy_id: str,
    roles: Sequence[str] | UnsetType,
    machines: Sequence[str] | UnsetType,
    issues: Issues,
) -> None:
    """Check the principals that decide after a change of a policy. UNSET: the roles or machines do not change. Raises
    NotFound for a policy that does not exist.
    """
    stored = sa.select(approval_policies.c.approver_roles, approval_policies.c.machine_approver_ids).where(
        approval_policies.c.org_id == org_id, approval_policies.c.id == policy_id
    )
    policy = (await connection.execute(stored)).one_or_none()
    if policy is None:
        raise NotFound
    if machines is not UNSET:
        await check_machines(connection, org_id, machines, policy.approver_roles if roles is UNSET else roles, issues)
    elif roles is not UNSET:
        machine_issues = Issues()
        await check_machines(connection, org_id, policy.machine_approver_ids, roles, machine_issues)
        if machine_issues:
            message = (
                "With these roles, an agent or service in machineApproverIds cannot decide. Change machineApproverIds "
                "too."
            )
            issues.add("body.approverRoles", message, "cannot_decide")


async def resolve_project_id(
    connection: AsyncConnection, org_id: str, slug: str | None, path: str, issues: Issues
) -> int | None:
    """The id of the organization's project, None without a slug. Adds an issue at `path` for an unknown project."""
    if slug is None:
        return None
    found: int | None = await connection.scalar(PROJECT_ID, {"org_id": org_id, "projectSlug": slug})
    if found is None:
        issues.add(path, "There is no such project.", "unknown")
    return found


async def check_machines(
    connection: AsyncConnection, org_id: str, machines: Sequence[str], roles: Sequence[str], issues: Issues
) -> None:
    """Add an issue for each id that is not an agent or service of the organization. Also add one for each that can
    never decide, because it or one of its owners has none of `roles`.
    """
    found = await load_membership_statuses(connection, org_id, machines) if machines else {}
    for number, one in enumerate(machines):
        if not _is_machine(found, one):
            issues.add(f"{_MACHINES_PATH}[{number}]", "There is no such agent or service.", "unknown")
        elif not _can_decide(found, one, roles):
            issues.add(
                f"{_MACHINES_PATH}[{number}]",
                "Cannot decide. The agent, the service or one of its owners is disabled, has left the organization, "
                "or has none of the approver roles.",
                "cannot_decide",
            )


def _is_machine(memberships: Mapping[str, MembershipStatus], one: str) -> bool:
    return one in memberships and memberships[one].kind is not PrincipalKind.USER and memberships[one].role is not None


def _can_decide(memberships: Mapping[str, MembershipStatus], one: str, roles: Sequence[str]) -> bool:
    statuses = [memberships[each] for each in with_owner_chain([one], memberships)]
    return all(not each.is_disabled and each.role in roles for each in statuses)
