"""Policy checks that need the database: the project exists, and the listed machines exist and can decide."""

from collections.abc import Mapping, Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import MembershipStatus, load_membership_statuses, with_owner_chain
from chassis.errors import NotFound
from chassis.http.validation import Issues
from control.approvals.policies.tables import approval_policies
from control.routing.resource import PROJECT_ID
from proto.identity import PrincipalKind

_MACHINES_PATH: Final = "body.machineApproverIds"


async def check_deciders(
    connection: AsyncConnection,
    org_id: str,
    policy_id: str,
    roles: Sequence[str] | None,
    machines: Sequence[str] | None,
    issues: Issues,
) -> None:
    """Check who decides after a change of a policy; None: as before. Raises NotFound for a policy that does not
    exist.
    """
    stored = sa.select(approval_policies.c.approver_roles, approval_policies.c.machine_approver_ids).where(
        approval_policies.c.org_id == org_id, approval_policies.c.id == policy_id
    )
    policy = (await connection.execute(stored)).one_or_none()
    if policy is None:
        raise NotFound
    if machines is not None:
        await check_machines(connection, org_id, machines, policy.approver_roles if roles is None else roles, issues)
    elif roles is not None:
        machine_issues = Issues()
        await check_machines(connection, org_id, policy.machine_approver_ids, roles, machine_issues)
        if machine_issues:
            message = "An agent or service in machineApproverIds cannot decide with these roles. Change both."
            issues.add("body.approverRoles", message, "cannot_decide")


async def resolve_project_id(
    connection: AsyncConnection, org_id: str, slug: str | None, path: str, issues: Issues
) -> int | None:
    """The id of the organization's project; None for None. Adds an issue at `path` when there is none."""
    if slug is None:
        return None
    found: int | None = await connection.scalar(PROJECT_ID, {"org_id": org_id, "projectSlug": slug})
    if found is None:
        issues.add(path, "There is no such project.", "unknown")
    return found


async def check_machines(
    connection: AsyncConnection, org_id: str, machines: Sequence[str], roles: Sequence[str], issues: Issues
) -> None:
    """Adds an issue for each id that is no agent or service of the organization, or that can never decide, because it
    or one of its owners has none of `roles`.
    """
    found = await load_membership_statuses(connection, org_id, machines) if machines else {}
    for number, one in enumerate(machines):
        if not _is_machine(found, one):
            issues.add(f"{_MACHINES_PATH}[{number}]", "There is no such agent or service.", "unknown")
        elif not _can_decide(found, one, roles):
            issues.add(
                f"{_MACHINES_PATH}[{number}]",
                "Cannot decide: it or one of its owners is disabled, has left, or has none of the approver roles.",
                "cannot_decide",
            )


def _is_machine(found: Mapping[str, MembershipStatus], one: str) -> bool:
    return one in found and found[one].kind is not PrincipalKind.USER and found[one].role is not None


def _can_decide(found: Mapping[str, MembershipStatus], one: str, roles: Sequence[str]) -> bool:
    statuses = [found[each] for each in with_owner_chain([one], found)]
    return all(not each.is_disabled and each.role in roles for each in statuses)
