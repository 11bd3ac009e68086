"""Policies in the database. Every function runs in the caller's transaction."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.auth.tables import projects
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from control.approvals.policies.model import Effect, RiskClass, Rule, Source
from control.approvals.policies.tables import approval_policies
from proto.identity import Role

MAX_POLICIES: Final = 1_000  # per organization, including its projects: each query evaluates all of them

SELECT_POLICIES: Final = sa.select(approval_policies, projects.c.slug.label("project_slug")).join_from(
    approval_policies, projects, projects.c.id == approval_policies.c.project_id, isouter=True
)


async def create(connection: AsyncConnection, org_id: str, project_id: int | None, values: Mapping[str, Any]) -> str:
    """The id of a new policy. `values`: every column from `name` to `enabled`. Raises Conflict at MAX_POLICIES."""
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
    found = SELECT_POLICIES.where(approval_policies.c.org_id == org_id, approval_policies.c.enabled, in_scope)
    return [_rule(row) for row in await connection.execute(found)]


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
