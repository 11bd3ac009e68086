"""What of a policy only the store can tell: whether its project is one, and whether its machines can decide at all."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.membership_status import MembershipStatus, load_membership_statuses, with_owner_chain
from chassis.errors import NotFound
from chassis.http.validation import Issues
from control.identity import organization_repository
from control.policies import repository
from control.policies.schemas import DryRun, NewPolicy, PolicyChange
from proto.identity import PrincipalKind

B = TypeVar("B")

# Records issues of the organization's body; the answer is the id of the project it names, None for none.
Check = Callable[[AsyncConnection, str, B, Issues], Awaitable[int | None]]

_MACHINES_PATH: Final = "body.machineApproverIds"


async def check_new(connection: AsyncConnection, org_id: str, body: NewPolicy, issues: Issues) -> int | None:
    """Of a policy that is to be made."""
    await _check_machines(connection, org_id, body.machine_approver_ids, body.approver_roles, issues)
    return await resolve_project_id(connection, org_id, body.project_slug, "body.projectSlug", issues)


async def check_change(
    policy_id: str, connection: AsyncConnection, org_id: str, body: PolicyChange, issues: Issues
) -> None:
    """Of a policy that is to be changed: who decides afterwards. Raises NotFound for one that is gone."""
    policy = await repository.find(connection, org_id, policy_id)
    if policy is None:
        raise NotFound
    roles = policy.approver_roles if body.approver_roles is msgspec.UNSET else body.approver_roles
    if body.machine_approver_ids is not msgspec.UNSET:
        await _check_machines(connection, org_id, body.machine_approver_ids, roles, issues)
    elif body.approver_roles is not msgspec.UNSET:
        barred = Issues()
        await _check_machines(connection, org_id, policy.machine_approver_ids, roles, barred)
        if barred:
            message = "A listed agent or service could not decide; give machineApproverIds as well."
            issues.add("body.approverRoles", message, "cannot_decide")


async def check_dry_run(connection: AsyncConnection, org_id: str, body: DryRun, issues: Issues) -> int | None:
    """Of a request that is not made."""
    return await resolve_project_id(connection, org_id, body.project_tag, "body.projectTag", issues)


async def resolve_project_id(
    connection: AsyncConnection, org_id: str, slug: str | None, path: str, issues: Issues
) -> int | None:
    """Id of the organization's project; None for None. Records an issue, blaming `path`, when there is none."""
    if slug is None:
        return None
    found = await organization_repository.find_project(connection, org_id, slug)
    if found is None:
        issues.add(path, "There is no such project.", "unknown")
    return None if found is None else found.id


async def _check_machines(
    connection: AsyncConnection, org_id: str, machines: Sequence[str], roles: Sequence[str], issues: Issues
) -> None:
    """Records an issue for each that is no agent or service of the organization, or that can never decide, for lack of
    one of `roles` in it or in an owner of it.
    """
    found = await load_membership_statuses(connection, org_id, machines) if machines else {}
    for number, one in enumerate(machines):
        if not _is_machine(found, one):
            issues.add(f"{_MACHINES_PATH}[{number}]", "There is no such agent or service.", "unknown")
        elif not _can_decide(found, one, roles):
            issues.add(
                f"{_MACHINES_PATH}[{number}]",
                "It cannot decide: it or an owner of it is disabled, has left, or has no role that decides.",
                "cannot_decide",
            )


def _is_machine(found: Mapping[str, MembershipStatus], one: str) -> bool:
    return one in found and found[one].kind is not PrincipalKind.USER and found[one].role is not None


def _can_decide(found: Mapping[str, MembershipStatus], one: str, roles: Sequence[str]) -> bool:
    everyone = [found[each] for each in with_owner_chain([one], found)]
    return all(not each.is_disabled and each.role in roles for each in everyone)
