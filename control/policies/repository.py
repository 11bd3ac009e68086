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
from control.policies.model import Effect, Policy, RiskClass, Rule
from control.policies.tables import approval_policies
from proto.identity import Role

MAX_POLICIES: Final = 1_000  # per organization, including its projects: each query evaluates all of them

_SELECT_POLICIES: Final = sa.select(approval_policies, projects.c.slug.label("project_slug")).join_from(
    approval_policies, projects, projects.c.id == approval_policies.c.project_id, isouter=True
)


async def create(connection: AsyncConnection, org_id: str, project_id: int | None, values: Mapping[str, Any]) -> Policy:
    """`values`: every column from `name` to `enabled`. Raises Conflict when there are MAX_POLICIES."""
    where = approval_policies.c.org_id == org_id
    count = await connection.scalar(sa.select(sa.func.count()).select_from(approval_policies).where(where))
    if (count or 0) >= MAX_POLICIES:
        raise Conflict(f"The organization has {MAX_POLICIES} policies, the maximum. Delete one first.")
    now = to_milliseconds(datetime.now(UTC))
    policy_id = new_id("pol")
    row = {"id": policy_id, "org_id": org_id, "project_id": project_id, "created_at": now, "updated_at": now}
    await connection.execute(approval_policies.insert().values({**row, **_column_values(values)}))
    return await _get(connection, org_id, policy_id)


async def find(connection: AsyncConnection, org_id: str, policy_id: str) -> Policy | None:
    """The organization's policy with this id."""
    found = _SELECT_POLICIES.where(approval_policies.c.org_id == org_id, approval_policies.c.id == policy_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _policy_from_row(row)


async def list_policies(connection: AsyncConnection, org_id: str, before_id: str | None, limit: int) -> list[Policy]:
    """At most `limit` policies, newest first, starting with the first one older than `before_id`."""
    page = (
        _SELECT_POLICIES.where(approval_policies.c.org_id == org_id)
        .order_by(approval_policies.c.id.desc())
        .limit(limit)
    )
    if before_id is not None:
        page = page.where(approval_policies.c.id < before_id)
    return [_policy_from_row(row) for row in (await connection.execute(page)).mappings()]


async def change(connection: AsyncConnection, org_id: str, policy_id: str, values: Mapping[str, Any]) -> Policy:
    """Set the given values; returns the changed policy. Existing requests are not affected. Raises LookupError."""
    where = (approval_policies.c.org_id == org_id) & (approval_policies.c.id == policy_id)
    now = to_milliseconds(datetime.now(UTC))
    await connection.execute(
        approval_policies.update().where(where).values({**_column_values(values), "updated_at": now})
    )
    return await _get(connection, org_id, policy_id)


async def delete(connection: AsyncConnection, org_id: str, policy_id: str) -> bool:
    """False when there is no such policy."""
    where = (approval_policies.c.org_id == org_id) & (approval_policies.c.id == policy_id)
    return (await connection.execute(approval_policies.delete().where(where))).rowcount == 1


async def list_enabled_rules(connection: AsyncConnection, org_id: str, project_id: int | None) -> list[Rule]:
    """Rules of the enabled policies of the organization and, if given, of the project."""
    column = approval_policies.c.project_id
    in_scope = column.is_(None) if project_id is None else column.is_(None) | (column == project_id)
    found = _SELECT_POLICIES.where(approval_policies.c.org_id == org_id, approval_policies.c.enabled, in_scope)
    return [_policy_from_row(row).rule for row in (await connection.execute(found)).mappings()]


async def _get(connection: AsyncConnection, org_id: str, policy_id: str) -> Policy:
    found = await find(connection, org_id, policy_id)
    if found is None:
        raise LookupError(policy_id)
    return found


def _column_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Column values: lists without duplicates, enum members as text."""
    return {
        name: [*dict.fromkeys(map(str, value))] if isinstance(value, list | tuple) else value
        for name, value in values.items()
    }


def _policy_from_row(row: sa.RowMapping) -> Policy:
    return Policy(
        **{
            **row,
            "effect": Effect(row["effect"]),
            "risk_class": RiskClass(row["risk_class"]),
            "approver_roles": tuple(Role(one) for one in row["approver_roles"]),
            "machine_approver_ids": tuple(row["machine_approver_ids"]),
        }
    )
