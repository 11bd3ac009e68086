"""Approvals, policies and audit on a real socket, with a clock that tests move and channels that only note."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import new_id, principals
from chassis.db.database import Database
from control.approvals.policies.rules import DECIDING_ROLES, Effect, RiskClass
from control.identity.organizations import organization_store
from control.identity.organizations.organization_store import StoredOrganization
from control.notify.channels.tables import notification_channels
from control.notify.deliveries.outbox import DeliveryResult, EnqueueResult
from proto.identity import ROLE_SCOPES, PrincipalKind, Role, Scope
from tests.chassis.auth.tenants import Clock, Tenant
from tests.control.conftest import Control

REQUESTS: Final = "/orgs/acme/approval-requests"
POLICIES: Final = "/orgs/acme/approval-policies"
AUDIT: Final = "/orgs/acme/audit"
ASKED: Final = {"action": "deploy.production", "targetType": "service", "targetId": "checkout"}


# The columns of a policy that requires approval of everything.
POLICY: Final[dict[str, Any]] = {
    "name": "x",
    "action_pattern": "**",
    "target_type": None,
    "effect": Effect.ASK,
    "risk_class": RiskClass.LOW,
    "min_approvers": 5,
    "approver_roles": list(DECIDING_ROLES),
    "machine_approver_ids": [],
    "ttl_minutes": 60,
    "enabled": True,
}


@dataclass
class RecordingSender:
    """Stands in for what sends: says what it was given, and delivers all that can be."""

    seen: list[Sequence[EnqueueResult]] = field(default_factory=list)

    async def send_now(self, queued: Sequence[EnqueueResult], budget_s: float = 3.0) -> list[DeliveryResult]:  # noqa: ARG002  # it never takes long
        self.seen.append(queued)
        return [DeliveryResult(one.channel_id, one.kind, one.error is None, one.error) for one in queued]


@dataclass
class Member:
    """Someone who can call."""

    id: str
    token: str


@dataclass
class Office(Control):
    """The service with two tenants in it."""

    clock: Clock
    attempts: RecordingSender

    def now(self) -> datetime:
        return self.clock.now()

    async def ask(self, by: Member | None = None, **body: Any) -> dict[str, Any]:
        """An approval request that waits."""
        status, answer, _ = await self.call("POST", REQUESTS, ASKED | body, None if by is None else by.token)
        assert status == 201, answer
        found: dict[str, Any] = answer["request"]
        return found

    async def vote(self, verb: str, asked: dict[str, Any], by: Member, **body: Any) -> tuple[int, Any]:
        given: Any = body or (None if verb == "approve" else {"reason": "No."})
        path = f"{REQUESTS}/{asked['id']}/{verb}"
        if given is None:
            headers = {"Content-Type": "application/json"}
            status, answer, _ = await self.call("POST", path, token=by.token, data=b"null", headers=headers)
        else:
            status, answer, _ = await self.call("POST", path, given, by.token)
        return status, answer

    async def member(self, role: Role = Role.MEMBER, scopes: frozenset[Scope] | None = None) -> Member:
        return await new_member(self.checks.database, self.acme, role, scopes)

    async def machine(
        self, owner: Member, kind: PrincipalKind = PrincipalKind.AGENT, role: Role = Role.MEMBER
    ) -> Member:
        return await new_machine(self.checks.database, self.acme, owner.id, kind, role)

    async def policy(self, **body: Any) -> dict[str, Any]:
        made = {"name": "Rule", "actionPattern": "deploy.**", "effect": "ASK", "riskClass": "HIGH"} | body
        status, answer, _ = await self.call("POST", POLICIES, made)
        assert status == 201, answer
        found: dict[str, Any] = answer
        return found

    async def audit(self, **query: str) -> list[dict[str, Any]]:
        """Events, oldest first."""
        _, page, _ = await self.call("GET", AUDIT, params={"limit": "100"} | query)
        return [*reversed(page["data"])]


def context(
    org: StoredOrganization,
    principal_id: str,
    kind: PrincipalKind = PrincipalKind.USER,
    owner_id: str | None = None,
    behalf_id: str | None = None,
    role: Role = Role.MEMBER,
) -> AuthorizationContext:
    """What a guard knows of who has all scopes of this role, and may act for another one."""
    return AuthorizationContext(
        principal_id=principal_id,
        token_id="tok",  # an id
        org_id=org.id,
        org_slug=org.slug,
        role=role,
        scopes=ROLE_SCOPES[role],
        kind=kind,
        owner_id=owner_id,
        on_behalf_of=behalf_id,
        act_chain=() if behalf_id is None else (principal_id,),
    )


async def new_member(
    database: Database, tenant: Tenant, role: Role = Role.MEMBER, scopes: frozenset[Scope] | None = None
) -> Member:
    async with database.write() as connection:
        made = await organization_store.create_principal(connection, PrincipalKind.USER, role.title())
        await organization_store.add_membership(connection, tenant.organization.id, made.id, role)
        token = await organization_store.create_token(connection, tenant.organization.id, made.id, "t", scopes=scopes)
    return Member(made.id, token.secret)


async def new_machine(
    database: Database, tenant: Tenant, owner_id: str, kind: PrincipalKind, role: Role = Role.MEMBER
) -> Member:
    """An agent or service with a token that acts for nobody."""
    async with database.write() as connection:
        made = await organization_store.create_principal(connection, kind, "Bot", owner_id)
        await organization_store.add_membership(connection, tenant.organization.id, made.id, role)
        token = await organization_store.create_token(connection, tenant.organization.id, made.id, "t")
    return Member(made.id, token.secret)


async def hand_over(office: Office, machine: Member, owner: Member) -> None:
    """The agent or service belongs to another owner from now on."""
    async with office.checks.database.write() as connection:
        await connection.execute(principals.update().where(principals.c.id == machine.id).values(owner_id=owner.id))


async def set_role(office: Office, member: Member, role: Role) -> None:
    async with office.checks.database.write() as connection:
        await organization_store.set_role(connection, office.acme.organization.id, member.id, role)


async def remove(office: Office, member: Member) -> None:
    """They leave the organization."""
    async with office.checks.database.write() as connection:
        await organization_store.remove_membership(connection, office.acme.organization.id, member.id)


async def narrow_token(office: Office, holder: Member, *scopes: Scope) -> Member:
    """The same member with another token, which has these scopes alone."""
    async with office.checks.database.write() as connection:
        made = await organization_store.create_token(
            connection, office.acme.organization.id, holder.id, "narrow", scopes=frozenset(scopes)
        )
    return Member(holder.id, made.secret)


async def new_channel(
    database: Database, tenant: Tenant, project_id: int | None = None, *, enabled: bool = True
) -> str:
    """A channel that nothing is sent to: its config is no config."""
    row: dict[str, Any] = {"id": new_id("chn"), "org_id": tenant.organization.id, "project_id": project_id}
    row |= {"name": "x", "kind": "webhook", "config": b"x", "enabled": enabled}
    async with database.write() as connection:
        now = tenant.organization.created_at
        await connection.execute(notification_channels.insert().values(created_at=now, updated_at=now, **row))
    return str(row["id"])
