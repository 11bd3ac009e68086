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

from chassis.access import bearer, reach
from chassis.errors import NotFound
from chassis.operation import Answer, Body, Operation, Parameter, Tag, json_content
from chassis.validation import Issues
from chassis.web import Route, json_response, request_id
from control.audit.record import record
from control.desk import Desk
from control.paging import PAGE, page_body, requested_page
from control.policies import store
from control.policies.bodies import (
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
from control.policies.checks import Check, check_change, check_dry_run, check_new
from control.policies.engine import Question, ranked
from control.policies.model import Policy
from proto.identity import Scope

_ID: Final = re.compile(POLICY_ID_PATTERN[1:-1])
_NOT_VALID: Final = "The request body is not valid."
_STAND_INS: Final = {"name": "x", "actionPattern": "**", "effect": "ASK", "riskClass": "LOW"}
_OF_ONE: Final = (Parameter("policyId", "path", Annotated[str, Meta(min_length=1)], "The policy."),)

B = TypeVar("B")

TAG: Final = Tag("approval-policies", "Which actions are allowed, asked about or denied.")
LIST: Final = Operation("listApprovalPolicies", TAG, (Answer("A page.", json_content(PolicyPage)),), PAGE)
CREATE: Final = Operation(
    "createApprovalPolicy",
    TAG,
    (Answer("The policy.", json_content(ApprovalPolicy), 201),),
    body=Body(
        json_content(NewPolicy),
        example={
            "name": "Two people for production",
            "actionPattern": "deploy.production",
            "effect": "ASK",
            "riskClass": "HIGH",
            "minApprovers": 2,
        },
    ),
    refused=(409,),
)
SHOW: Final = Operation("showApprovalPolicy", TAG, (Answer("The policy.", json_content(ApprovalPolicy)),), _OF_ONE)
CHANGE: Final = Operation(
    "changeApprovalPolicy",
    TAG,
    (Answer("The policy as it is now.", json_content(ApprovalPolicy)),),
    _OF_ONE,
    body=Body(json_content(PolicyChange), example={"minApprovers": 3}),
)
DELETE: Final = Operation("deleteApprovalPolicy", TAG, (Answer("It is deleted.", status=204),), _OF_ONE)
DRY_RUN: Final = Operation(
    "tryApprovalPolicies",
    TAG,
    (Answer("What it would get, and why.", json_content(DryRunResult)),),
    body=Body(json_content(DryRun), example={"action": "deploy.production", "targetType": "service"}),
)


@dataclass(frozen=True, slots=True)
class Policies:
    """The handlers, with what they work with."""

    desk: Desk

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
        org_id = reach(request).org_id
        binding = f"policies of {org_id}".encode()
        page = requested_page(request, self.desk.cursors, binding)
        async with self.desk.database.read() as connection:
            found = await store.list_policies(connection, org_id, page.after, page.limit + 1)
        return json_response(page_body(found, page, policy_body, lambda one: one.id, self.desk.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a policy.

        It decides requests from now on. An organization's DENY comes before all; then policies of the project, those of
        the organization, the built-in table. Among those of one place the more specific pattern decides.
        """
        body = await self._read(request, NewPolicy, _STAND_INS, check_new)
        values = msgspec.structs.asdict(body)
        del values["project_slug"]
        async with self.desk.change(request) as (connection, caller):
            project_id = await _checked(check_new, connection, caller.org_id, body)
            made = await store.create(connection, caller.org_id, project_id, values)
            await record(connection, caller, "policy.create", made.id, _told(made), request_id(request))
        return json_response(policy_body(made), status=201)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a policy."""
        return json_response(policy_body(await self._seen(request)))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a policy.

        Requests that were made before keep what they have.
        """
        policy_id = (await self._seen(request)).id
        check = partial(check_change, policy_id)
        body = await self._read(request, PolicyChange, {}, check)
        values = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}
        async with self.desk.change(request) as (connection, caller):
            await _checked(check, connection, caller.org_id, body)
            changed = await store.change(connection, caller.org_id, policy_id, values)
            await record(connection, caller, "policy.update", policy_id, _told(changed), request_id(request))
        return json_response(policy_body(changed))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a policy.

        Requests that were made before keep what they have.
        """
        policy = await self._seen(request)
        async with self.desk.change(request) as (connection, caller):
            if not await store.delete(connection, caller.org_id, policy.id):
                raise NotFound
            await record(connection, caller, "policy.delete", policy.id, {"name": policy.name}, request_id(request))
        return web.Response(status=204)

    async def dry_run(self, request: web.Request) -> web.StreamResponse:
        """Try what a request would get, and why.

        Nothing is made and nobody is told.
        """
        body = await self._read(request, DryRun, {"action": "a.b", "targetType": "x"}, check_dry_run)
        org_id = reach(request).org_id
        async with self.desk.database.read() as connection:
            project_id = await _checked(check_dry_run, connection, org_id, body)
            rules = await store.rules(connection, org_id, project_id)
        return json_response(dry_run_body(ranked(rules, Question(body.action, body.target_type))))

    async def _read(self, request: web.Request, shape: type[B], stand_ins: Mapping[str, Any], check: Check[B]) -> B:
        """Every fault of the body is told: where it has one, also what only the store can tell. Else that is seen in
        the transaction, where it counts.
        """
        issues = Issues()
        body = await self.desk.read_mended(request, shape, stand_ins, issues)
        if issues and body is not None:
            async with self.desk.database.read() as connection:
                await check(connection, reach(request).org_id, body, issues)
        issues.raise_if_any(_NOT_VALID)
        return cast("B", body)  # None only with an issue

    async def _seen(self, request: web.Request) -> Policy:
        policy_id = request.match_info["policyId"]
        if _ID.fullmatch(policy_id) is None:  # a path may hold what no database column takes
            raise NotFound
        async with self.desk.database.read() as connection:
            found = await store.find(connection, reach(request).org_id, policy_id)
        if found is None:
            raise NotFound
        return found


async def _checked(check: Check[B], connection: AsyncConnection, org_id: str, body: B) -> int | None:
    """What the check finds. Raises BadRequest."""
    issues = Issues()
    found = await check(connection, org_id, body, issues)
    issues.raise_if_any(_NOT_VALID)
    return found


def _told(policy: Policy) -> dict[str, Any]:
    """For the audit: all that the policy says."""
    told: dict[str, Any] = msgspec.to_builtins(policy_body(policy))
    return told
