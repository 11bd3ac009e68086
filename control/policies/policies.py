"""`/orgs/{orgSlug}/approval-policies`: list, create, show, change, delete, try."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.paging import PAGE_PARAMETERS, page_body, parse_page_request
from control.policies import repository
from control.policies.evaluation import PolicyQuery, rank_rules
from control.policies.model import Policy
from control.policies.schemas import (
    POLICY_ID_PATTERN,
    ApprovalPolicy,
    DryRun,
    DryRunResult,
    NewPolicy,
    PolicyChange,
    PolicyPage,
    dry_run_body,
    policy_body,
)
from control.policies.validation import Check, check_change, check_dry_run, check_new
from proto.identity import Scope

_POLICY_ID: Final = re.compile(POLICY_ID_PATTERN[1:-1])
_INVALID_BODY: Final = "The request body is not valid."
_PLACEHOLDERS: Final = {"name": "x", "actionPattern": "**", "effect": "ASK", "riskClass": "LOW"}
_ID_PARAMETERS: Final = (Parameter("policyId", "path", Annotated[str, Meta(min_length=1)], "The policy."),)

B = TypeVar("B")

TAG: Final = Tag("approval-policies", "Policies that allow actions, deny them, or require approval.")
LIST: Final = Operation(
    "listApprovalPolicies", TAG, (ResponseSpec("A page of policies.", json_content(PolicyPage)),), PAGE_PARAMETERS
)
CREATE: Final = Operation(
    "createApprovalPolicy",
    TAG,
    (ResponseSpec("The policy.", json_content(ApprovalPolicy), 201),),
    body=Body(
        json_content(NewPolicy),
        example={
            "name": "Two approvals for production",
            "actionPattern": "deploy.production",
            "effect": "ASK",
            "riskClass": "HIGH",
            "minApprovers": 2,
        },
    ),
    error_statuses=(409,),
)
SHOW: Final = Operation(
    "showApprovalPolicy", TAG, (ResponseSpec("The policy.", json_content(ApprovalPolicy)),), _ID_PARAMETERS
)
CHANGE: Final = Operation(
    "changeApprovalPolicy",
    TAG,
    (ResponseSpec("The updated policy.", json_content(ApprovalPolicy)),),
    _ID_PARAMETERS,
    body=Body(json_content(PolicyChange), example={"minApprovers": 3}),
)
DELETE: Final = Operation(
    "deleteApprovalPolicy", TAG, (ResponseSpec("The policy was deleted.", status=204),), _ID_PARAMETERS
)
DRY_RUN: Final = Operation(
    "tryApprovalPolicies",
    TAG,
    (ResponseSpec("The decision and the rules that match.", json_content(DryRunResult)),),
    body=Body(json_content(DryRun), example={"action": "deploy.production", "targetType": "service"}),
)


@dataclass(frozen=True, slots=True)
class Policies:
    """Handlers of approval policies, and their dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/approval-policies"
        one = every + "/{policyId}"
        return [
            Route("GET", every, self.list, bearer(Scope.POLICIES_READ), operation=LIST),
            Route("POST", every, self.create, bearer(Scope.POLICIES_WRITE), operation=CREATE),
            Route("POST", every + "/dry-run", self.dry_run, bearer(Scope.POLICIES_READ), operation=DRY_RUN),
            Route("GET", one, self.show, bearer(Scope.POLICIES_READ), operation=SHOW),
            Route("PATCH", one, self.change, bearer(Scope.POLICIES_WRITE), operation=CHANGE),
            Route("DELETE", one, self.delete, bearer(Scope.POLICIES_WRITE), operation=DELETE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List policies, newest first."""
        org_id = authorization_context(request).org_id
        binding = f"policies of {org_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            found = await repository.list_policies(connection, org_id, page.after, page.limit + 1)
        return json_response(page_body(found, page, policy_body, lambda one: one.id, self.context.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a policy.

        Applies to later requests. Precedence: an organization's DENY, policies of the project, policies of
        the organization, built-in rules. Within a source, the most specific pattern decides.
        """
        body = await self._read_body(request, NewPolicy, _PLACEHOLDERS, check_new)
        values = msgspec.structs.asdict(body)
        del values["project_slug"]
        async with self.context.write_transaction(request) as (connection, caller):
            project_id = await _run_check(check_new, connection, caller.org_id, body)
            policy = await repository.create(connection, caller.org_id, project_id, values)
            await record(connection, caller, "policy.create", policy.id, _audit_data(policy), request_id(request))
        return json_response(policy_body(policy), status=201)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a policy."""
        return json_response(policy_body(await self._load_policy(request)))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a policy.

        Existing requests are not affected.
        """
        policy_id = (await self._load_policy(request)).id
        check = partial(check_change, policy_id)
        body = await self._read_body(request, PolicyChange, {}, check)
        values = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}
        async with self.context.write_transaction(request) as (connection, caller):
            await _run_check(check, connection, caller.org_id, body)
            changed = await repository.change(connection, caller.org_id, policy_id, values)
            await record(connection, caller, "policy.update", policy_id, _audit_data(changed), request_id(request))
        return json_response(policy_body(changed))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a policy.

        Existing requests are not affected.
        """
        policy = await self._load_policy(request)
        async with self.context.write_transaction(request) as (connection, caller):
            if not await repository.delete(connection, caller.org_id, policy.id):
                raise NotFound
            await record(connection, caller, "policy.delete", policy.id, {"name": policy.name}, request_id(request))
        return web.Response(status=204)

    async def dry_run(self, request: web.Request) -> web.StreamResponse:
        """Evaluate the policies for an action without creating a request.

        Nothing is created and nobody is notified.
        """
        body = await self._read_body(request, DryRun, {"action": "a.b", "targetType": "x"}, check_dry_run)
        org_id = authorization_context(request).org_id
        async with self.context.database.read() as connection:
            project_id = await _run_check(check_dry_run, connection, org_id, body)
            rules = await repository.list_enabled_rules(connection, org_id, project_id)
        return json_response(dry_run_body(rank_rules(rules, PolicyQuery(body.action, body.target_type))))

    async def _read_body(
        self, request: web.Request, body_type: type[B], placeholders: Mapping[str, Any], check: Check[B]
    ) -> B:
        """The body. Raises BadRequest with all issues: if the types have any, also those that need the database.
        Without issues, the transaction runs the check.
        """
        issues = Issues()
        body = await self.context.read_partial_body(request, body_type, placeholders, issues)
        if issues and body is not None:
            async with self.context.database.read() as connection:
                await check(connection, authorization_context(request).org_id, body, issues)
        issues.raise_if_any(_INVALID_BODY)
        return cast("B", body)  # None only with an issue

    async def _load_policy(self, request: web.Request) -> Policy:
        policy_id = request.match_info["policyId"]
        if _POLICY_ID.fullmatch(policy_id) is None:  # a path may hold characters that no database column accepts
            raise NotFound
        async with self.context.database.read() as connection:
            found = await repository.find(connection, authorization_context(request).org_id, policy_id)
        if found is None:
            raise NotFound
        return found


async def _run_check(check: Check[B], connection: AsyncConnection, org_id: str, body: B) -> int | None:
    """The result of the check. Raises BadRequest."""
    issues = Issues()
    found = await check(connection, org_id, body, issues)
    issues.raise_if_any(_INVALID_BODY)
    return found


def _audit_data(policy: Policy) -> dict[str, Any]:
    """Data of the audit event: all fields of the policy."""
    data: dict[str, Any] = msgspec.to_builtins(policy_body(policy))
    return data
