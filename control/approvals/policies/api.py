"""`/orgs/{orgSlug}/approval-policies`: list, create, show, change, delete, try."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Arguments, PageOf, route
from chassis.http.route import Tag
from chassis.http.validation import Issues
from control.approvals.policies import store
from control.approvals.policies.rules import (
    ACTION_GLOB_PATTERN,
    ACTION_NAME_PATTERN,
    DEFAULT_TTL_MINUTES,
    MAX_ACTION_LENGTH,
    MAX_APPROVERS,
    MAX_TARGET_TYPE_LENGTH,
    MAX_TTL_MINUTES,
    Effect,
    PolicyQuery,
    RiskClass,
    Rule,
    Source,
    decision_reason,
    rank_rules,
    required_approvals,
)
from control.approvals.policies.store import approval_policies, check_deciders, check_machines, resolve_project_id
from control.http.context import path_id
from control.http.field_types import Name, Slug, Timestamp
from control.routing.arguments import Handlers, Transaction, control_arguments
from control.routing.resource import PageReader, Resource, ids, in_organization, shown_as
from proto.identity import VISIBLE_PATTERN, Role, Scope

MAX_MACHINE_APPROVERS: Final = 50
PATH: Final = "/orgs/{orgSlug}/approval-policies"
NEW: Final = {
    "name": "Two approvals for production",
    "actionPattern": "deploy.production",
    "effect": "ASK",
    "riskClass": "HIGH",
    "minApprovers": 2,
}
_INVALID_BODY: Final = "The request body is not valid."
_READ: Final = bearer(Scope.POLICIES_READ)
_WRITE: Final = bearer(Scope.POLICIES_WRITE)

ActionName = Annotated[
    str,
    Meta(
        max_length=MAX_ACTION_LENGTH,
        pattern=ACTION_NAME_PATTERN,
        description="Must be 2 to 8 lower-case segments joined by dots, such as `domain.verb`.",
    ),
]
ActionPattern = Annotated[
    str,
    Meta(
        max_length=MAX_ACTION_LENGTH,
        pattern=ACTION_GLOB_PATTERN,
        description="Must be an action, in which * matches one segment and a trailing ** matches one or more segments. "
        "It may also be ** alone, which matches every action.",
    ),
]
TargetType = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_TARGET_TYPE_LENGTH,
        pattern=VISIBLE_PATTERN,
        description="Must consist of visible characters, without leading or trailing spaces.",
    ),
]
TtlMinutes = Annotated[int, Meta(ge=1, le=MAX_TTL_MINUTES, description="Minutes until a request expires.")]
MinApprovers = Annotated[
    int, Meta(ge=1, le=MAX_APPROVERS, description="Required number of approvals. Used only if `effect` is ASK.")
]
DecidingRole = Literal["MEMBER", "ADMIN", "OWNER"]  # the names of DECIDING_ROLES
ApproverRoles = Annotated[
    list[DecidingRole],
    Meta(min_length=1, max_length=3, description="Roles that may decide. Used only if `effect` is ASK."),
]
MachineId = Annotated[
    str, Meta(min_length=1, max_length=32, pattern=r"^[0-9a-z_]+(?!\n)$", description="Must be a principal id.")
]
MachineApproverIds = Annotated[
    list[MachineId],
    Meta(
        max_length=MAX_MACHINE_APPROVERS,
        description="Ids of the agents and services that may decide. Used only if `effect` is ASK.",
    ),
]


class NewPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The policy to create. Without `projectSlug`, the policy applies to the whole organization."""

    name: Name
    action_pattern: ActionPattern
    effect: Effect
    risk_class: RiskClass
    project_slug: Slug | None = None
    target_type: TargetType | None = None
    min_approvers: MinApprovers = 1
    approver_roles: ApproverRoles = msgspec.field(default_factory=lambda: ["MEMBER", "ADMIN", "OWNER"])
    machine_approver_ids: MachineApproverIds = []
    ttl_minutes: TtlMinutes = DEFAULT_TTL_MINUTES
    enabled: bool = True


class PolicyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to a policy. Omitted fields are not changed. Existing requests are not affected."""

    name: Name | UnsetType = UNSET
    action_pattern: ActionPattern | UnsetType = UNSET
    effect: Effect | UnsetType = UNSET
    risk_class: RiskClass | UnsetType = UNSET
    target_type: TargetType | UnsetType | None = UNSET
    min_approvers: MinApprovers | UnsetType = UNSET
    approver_roles: ApproverRoles | UnsetType = UNSET
    machine_approver_ids: MachineApproverIds | UnsetType = UNSET
    ttl_minutes: TtlMinutes | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class ApprovalPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """The decision about actions that match a pattern."""

    id: Annotated[str, Meta(pattern=f"^{ids('pol')}$")]
    org_id: str
    project_slug: Annotated[str | None, Meta(description="Null if the policy applies to the whole organization.")]
    name: Name
    action_pattern: ActionPattern
    target_type: Annotated[TargetType | None, Meta(description="Null if the policy applies to every type.")]
    effect: Effect
    risk_class: RiskClass
    min_approvers: MinApprovers
    approver_roles: list[Role]
    machine_approver_ids: MachineApproverIds
    ttl_minutes: TtlMinutes
    enabled: bool
    created_at: Timestamp
    updated_at: Timestamp


class DryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The action to evaluate."""

    action: ActionName
    target_type: TargetType
    project_tag: Slug | None = None


class MatchingRule(msgspec.Struct, frozen=True, rename="camel"):
    """A rule that matches the action."""

    policy_id: Annotated[
        str | None,
        Meta(
            description="Null for a built-in rule, and for the fallback rule, which applies if no other rule matches."
        ),
    ]
    name: str
    policy_source: Source
    action_pattern: str
    target_type: str | None
    effect: Effect


class DryRunResult(msgspec.Struct, frozen=True, rename="camel"):
    """The decision and its reason. `matching` has every rule that matches, the deciding rule first."""

    decision: Effect
    risk_class: RiskClass
    reason: str
    min_approvers: int
    policy_source: Source
    policy_id: str | None
    approver_roles: list[Role]
    machine_approver_ids: list[str]
    ttl_minutes: int
    matching: list[MatchingRule]


_PLACEHOLDERS: Final[Mapping[type[msgspec.Struct], dict[str, str]]] = {
    NewPolicy: {"name": "x", "actionPattern": "**", "effect": "ASK", "riskClass": "LOW"},
    PolicyChange: {},
    DryRun: {"action": "a.b", "targetType": "x"},
}
POLICIES: Final = Resource(
    "policyId",
    ids("pol"),
    Scope.POLICIES_READ,
    approval_policies.c.id,
    in_organization(approval_policies),
    store.SELECT_POLICIES,
    lambda row, _caller: shown_as(ApprovalPolicy, row),
)


class Policies(Handlers):
    """Handlers of approval policies, and their dependencies."""

    TAG: ClassVar = Tag("approval-policies", "Policies that allow actions, deny them, or require approval.")

    def arguments(self) -> Arguments:
        return replace(control_arguments(self.context), read_body=self._read_body)

    @route("GET", PATH, _READ, page="PolicyPage")
    async def list_approval_policies(self, caller: AuthorizationContext, page: PageReader) -> PageOf[ApprovalPolicy]:
        """List policies, newest first."""
        return await page.of(POLICIES, caller)

    @route("POST", PATH, _WRITE, status=201, errors=(409,), example=NEW)
    async def create_approval_policy(self, body: NewPolicy, transaction: Transaction) -> ApprovalPolicy:
        """Create a policy.

        Applies to later requests. Precedence: an organization's DENY, policies of the project, policies of
        the organization, built-in rules. Within each of these, the most specific pattern decides.
        """
        project_id = await _run_check(transaction.connection, transaction.caller, body)
        values = msgspec.structs.asdict(body)
        del values["project_slug"]
        policy_id = await store.create(transaction.connection, transaction.caller.org_id, project_id, values)
        return await _recorded(transaction, "policy.create", policy_id)

    @route("POST", PATH + "/dry-run", _READ, example={"action": "deploy.production", "targetType": "service"})
    async def try_approval_policies(
        self, body: DryRun, caller: AuthorizationContext, connection: AsyncConnection
    ) -> DryRunResult:
        """Evaluate the policies for an action without creating a request.

        Nothing is created, and no notification is sent.
        """
        project_id = await _run_check(connection, caller, body)
        rules = await store.list_enabled_rules(connection, caller.org_id, project_id)
        return _result(rank_rules(rules, PolicyQuery(body.action, body.target_type)))

    @route("GET", PATH + "/{policyId}", _READ)
    async def show_approval_policy(
        self, policy_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> ApprovalPolicy:
        """Show a policy."""
        return await POLICIES.show(connection, caller, policy_id)

    @route("PATCH", PATH + "/{policyId}", _WRITE, example={"minApprovers": 3})
    async def change_approval_policy(
        self, policy_id: str, body: PolicyChange, transaction: Transaction
    ) -> ApprovalPolicy:
        """Change a policy.

        Existing requests are not affected.
        """
        await _run_check(transaction.connection, transaction.caller, body, policy_id)
        values = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
        await store.change(transaction.connection, transaction.caller.org_id, policy_id, values)
        return await _recorded(transaction, "policy.update", policy_id)

    @route("DELETE", PATH + "/{policyId}", _WRITE)
    async def delete_approval_policy(self, policy_id: str, transaction: Transaction) -> None:
        """Delete a policy.

        Existing requests are not affected.
        """
        policy = await POLICIES.show(transaction.connection, transaction.caller, policy_id)
        await POLICIES.delete(transaction.connection, transaction.caller, policy_id)
        await transaction.record("policy.delete", policy_id, {"name": policy.name})

    async def _read_body(self, request: web.Request, type_: type[Any]) -> Any:
        """The body, after a check that the policy in the path exists. Raises NotFound, and BadRequest with all issues.
        If the types have issues, the checks that need the database run here, too. Otherwise, the transaction runs them.
        """
        issues, policy_id = Issues(), request.match_info.get("policyId", "")
        if policy_id:
            async with self.context.database.read() as connection:
                await POLICIES.show(connection, authorization_context(request), path_id(request, "policyId"))
        body = await self.context.read_partial_body(request, type_, _PLACEHOLDERS[type_], issues)
        if issues and body is not None:
            org_id = authorization_context(request).org_id
            async with self.context.database.read() as connection:
                await _check(connection, org_id, body, policy_id, issues)
        issues.raise_if_any(_INVALID_BODY)
        return body


async def _recorded(transaction: Transaction, action: str, policy_id: str) -> ApprovalPolicy:
    """The policy as it is now. The audit event contains the whole policy."""
    policy = await POLICIES.show(transaction.connection, transaction.caller, policy_id)
    await transaction.record(action, policy_id, msgspec.to_builtins(policy))
    return policy


async def _run_check(
    connection: AsyncConnection,
    caller: AuthorizationContext,
    body: NewPolicy | PolicyChange | DryRun,
    policy_id: str = "",
) -> int | None:
    """The id of the project that the body names, None without one. Raises BadRequest, NotFound."""
    issues = Issues()
    found = await _check(connection, caller.org_id, body, policy_id, issues)
    issues.raise_if_any(_INVALID_BODY)
    return found


async def _check(
    connection: AsyncConnection,
    org_id: str,
    body: NewPolicy | PolicyChange | DryRun,
    policy_id: str,
    issues: Issues,
) -> int | None:
    """Add the issues of a body. Returns the id of the project that the body names, None without one. Raises NotFound
    for a policy that does not exist.
    """
    if isinstance(body, DryRun):
        return await resolve_project_id(connection, org_id, body.project_tag, "body.projectTag", issues)
    if isinstance(body, NewPolicy):
        await check_machines(connection, org_id, body.machine_approver_ids, body.approver_roles, issues)
        return await resolve_project_id(connection, org_id, body.project_slug, "body.projectSlug", issues)
    await check_deciders(connection, org_id, policy_id, body.approver_roles, body.machine_approver_ids, issues)
    return None


def _result(ranked: list[Rule]) -> DryRunResult:
    """The decision of the first rule."""
    return shown_as(
        DryRunResult,
        ranked[0],
        decision=ranked[0].effect,
        reason=decision_reason(ranked[0]),
        min_approvers=required_approvals(ranked[0]),
        policy_source=ranked[0].source,
        matching=[shown_as(MatchingRule, rule, policy_source=rule.source) for rule in ranked],
    )
