"""`/orgs/{orgSlug}`: show, rename, delete; `/orgs/{orgSlug}/projects`: list, create, show, change, delete."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth import usage
from chassis.auth.model import AuthorizationContext
from chassis.errors import NotFound
from chassis.http.access import bearer
from chassis.http.declaration import Argument, Arguments, ChecksQuery, PageOf, route
from chassis.http.route import Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues, single_value
from control.governance.erasures import deletion
from control.governance.erasures.api import Erasure, accepted, erasure_body
from control.http.field_types import ExemptKey, Name, SensitiveWord, Slug, Timestamp
from control.identity.organizations import organization_store
from control.identity.organizations.rules import MAX_EXEMPT_KEYS, find_exempt_key_faults
from control.routing.arguments import Handlers, Transaction, begin, control_arguments
from control.routing.resource import PageReader, shown_as
from proto.identity import Scope

ORGANIZATION: Final = "/orgs/{orgSlug}"
CONFIRM: Final = Parameter(
    "confirm",
    "query",
    Annotated[str, Meta(min_length=1)],
    "Repeat the slug of the organization to confirm. The deletion cannot be undone.",
    required=True,
    example="acme",
)
ORGANIZATION_DELETED: Final = ResponseSpec(
    "The organization is deleted. Its telemetry will be deleted.", json_content(Erasure), 202
)
_WRITE: Final = bearer(Scope.PROJECTS_WRITE)


class OrganizationChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to an organization."""

    name: Name


class Organization(msgspec.Struct, frozen=True, rename="camel"):
    """A tenant, with its monthly quota and usage."""

    id: str
    slug: Slug
    name: Name
    monthly_items: Annotated[
        int, Meta(description="Monthly quota of spans and log records (calendar month, UTC). 0: unlimited.")
    ]
    used_items: Annotated[int, Meta(description="Usage of this month that gateways have reported so far.")]
    created_at: Timestamp


@dataclass(frozen=True, slots=True)
class ConfirmedSlug(ChecksQuery):
    """The query with the slug to confirm."""

    request: web.Request

    def require(self, slug: str) -> None:
        """Require this slug. Raises BadRequest."""
        issues = Issues()
        confirmed = single_value(self.request.query, CONFIRM.name, issues)
        if confirmed != slug and not issues.has_issue_under("query.confirm"):
            issues.add("query.confirm", "Must repeat the slug of the organization.", "unconfirmed")
        issues.raise_if_any("The query is not valid.")


async def _confirmation(request: web.Request, _stack: AsyncExitStack) -> ConfirmedSlug:
    return ConfirmedSlug(request)


class Organizations(Handlers):
    """Handlers of organizations, and their dependencies."""

    TAG: ClassVar = Tag("organizations", "The organization, its quota and usage.")

    def arguments(self) -> Arguments:
        return control_arguments(self.context, {ConfirmedSlug: Argument(_confirmation, (CONFIRM,))})

    @route("GET", ORGANIZATION, bearer(Scope.PROJECTS_READ))
    async def show_organization(self, caller: AuthorizationContext, connection: AsyncConnection) -> Organization:
        """Show the organization, with its quota and usage."""
        return await _load_organization(connection, caller.org_slug)

    @route("PATCH", ORGANIZATION, _WRITE, example={"name": "Acme"})
    async def change_organization(self, body: OrganizationChange, transaction: Transaction) -> Organization:
        """Rename the organization.

        Its slug cannot be changed, because URLs contain it. Only the operator can set its quota: `sluice limits`.
        """
        connection, caller = transaction.connection, transaction.caller
        await organization_store.rename_organization(connection, caller.org_id, body.name)
        await transaction.record("organization.update", caller.org_id, {"name": body.name})
        return await _load_organization(connection, caller.org_slug)

    @route("DELETE", ORGANIZATION, _WRITE, status=202, responses=(ORGANIZATION_DELETED,))
    async def delete_organization(
        self, request: web.Request, caller: AuthorizationContext, confirmation: ConfirmedSlug
    ) -> Erasure:
        """Delete the organization with all its projects, members and telemetry.

        The organization is hidden at once, and all its keys, tokens, sessions, invitations and channels stop working.
        Sluice erases its rows within minutes, including the accounts of users who belong to no other organization. A
        gateway then erases its telemetry. The operator sees the progress (`sluice erasures`). The slug cannot be used
        again. Only owners may delete an organization. The deletion cannot be undone.
        """
        deletion.require_owner(caller)
        confirmation.require(caller.org_slug)
        async with begin(self.context, request) as transaction:
            connection, caller = transaction.connection, transaction.caller
            deletion.require_owner(caller)
            now = datetime.now(UTC)
            erasure = await deletion.delete_organization(
                connection, caller, caller.org_slug, transaction.request_id, now
            )
        self.context.guards.drop_organization(caller.org_id)
        return erasure_body(erasure)


async def _load_organization(connection: AsyncConnection, slug: str) -> Organization:
    found = await organization_store.find_organization(connection, slug)
    if found is None:
        raise NotFound
    used = await usage.read_usage(connection, f"{datetime.now(UTC):%Y-%m}", [found.id])
    return shown_as(Organization, found, used_items=used.get(found.id, 0))


PROJECTS: Final = "/orgs/{orgSlug}/projects"
PROJECT: Final = PROJECTS + "/{projectSlug}"
_READ: Final = bearer(Scope.PROJECTS_READ)
MAX_RETENTION_DAYS: Final = 36_500
RetentionDays = Annotated[
    int,
    Meta(
        ge=1,
        le=MAX_RETENTION_DAYS,
        description="Age in days after which the project's spans and log records are deleted. It cannot exceed the "
        "retention in the settings. `null`: the retention in the settings.",
    ),
]
_ResolveOnMerge = Annotated[
    organization_store.ResolveOnMerge,
    Meta(
        description="When merging a fix resolves the issues that it fixes: in the next release (`next_release`), or "
        "immediately (`now`)."
    ),
]
_EXEMPT_KEYS: Final = (
    "Complete attribute keys, as stored, which are exempt from scrubbing by key. Card and social security numbers in "
    "the values of these attributes are still scrubbed. Keys that always indicate a secret cannot be exempted."
)


class NewProject(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The project to create."""

    slug: Slug
    name: Name
    retention_days: RetentionDays | None = None


class ProjectChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to a project. Omitted fields are not changed. `sensitiveWords` and `exemptKeys` replace the complete
    lists.
    """

    name: Name | msgspec.UnsetType = msgspec.UNSET
    sensitive_words: (
        Annotated[list[SensitiveWord], msgspec.Meta(max_length=organization_store.MAX_SENSITIVE_WORDS)]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    retention_days: RetentionDays | msgspec.UnsetType | None = msgspec.UNSET
    resolve_on_merge: _ResolveOnMerge | msgspec.UnsetType = msgspec.UNSET
    exempt_keys: (
        Annotated[list[ExemptKey], Meta(max_length=MAX_EXEMPT_KEYS, description="Without duplicates. " + _EXEMPT_KEYS)]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class Project(msgspec.Struct, frozen=True, rename="camel"):
    """A project of an organization."""

    id: Annotated[str, Meta(pattern="^[0-9]+$")]
    slug: Slug
    name: Name
    sensitive_words: Annotated[
        tuple[SensitiveWord, ...],
        Meta(
            description="Values of attributes are scrubbed if their key contains one of these words or of the "
            "built-in words."
        ),
    ]
    created_at: Timestamp
    retention_days: Annotated[
        int | None,
        Meta(
            description="Age in days after which spans and log records are deleted. `null`: the retention in the "
            "settings."
        ),
    ]
    resolve_on_merge: _ResolveOnMerge
    exempt_keys: Annotated[tuple[ExemptKey, ...], Meta(description=_EXEMPT_KEYS)]


PROJECT_DELETED: Final = ResponseSpec(
    "The project is deleted. Its telemetry will be deleted.",
    json_content(Erasure),
    202,
    {"Location": "Path of the erasure."},
)


@dataclass(frozen=True, slots=True)
class Projects(Handlers):
    """Handlers of projects, and their dependencies. `retention_days`: the retention in the settings, in days. 0: for
    ever.
    """

    TAG: ClassVar = Tag("projects", "Projects of an organization.")
    retention_days: int = 0

    def arguments(self) -> Arguments:
        return replace(control_arguments(self.context), read_body=self._read_body)

    @route("GET", PROJECTS, _READ)
    async def list_projects(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Project]:
        """List projects, by slug."""

        async def fetch(
            connection: AsyncConnection, after: str | None, limit: int
        ) -> Sequence[organization_store.StoredProject]:
            return await organization_store.list_projects(connection, caller.org_id, after or "", limit)

        return await page.read(("projects", caller.org_id), fetch, _shown, lambda one: one.slug)

    @route("POST", PROJECTS, _WRITE, status=201, errors=(409,), example={"slug": "checkout", "name": "Checkout"})
    async def create_project(self, body: NewProject, transaction: Transaction) -> Project:
        """Create a project.

        409 if the organization already has a project with this slug.
        """
        org_id = transaction.caller.org_id
        project = await organization_store.create_project(
            transaction.connection, org_id, body.slug, body.name, retention_days=body.retention_days
        )
        data = {"slug": project.slug, "name": project.name, "retentionDays": project.retention_days}
        await transaction.record("project.create", str(project.id), data)
        # Guards may have cached that the project does not exist.
        transaction.after_commit(self.context.guards.invalidate_bearers, org_id)
        return _shown(project)

    @route("GET", PROJECT, _READ)
    async def show_project(
        self, project_slug: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> Project:
        """Show a project."""
        return _shown(_require_project(await organization_store.find_project(connection, caller.org_id, project_slug)))

    @route("PATCH", PROJECT, _WRITE, example={"sensitiveWords": ["iban"]})
    async def change_project(self, project_slug: str, body: ProjectChange, transaction: Transaction) -> Project:
        """Change a project."""
        connection, org_id = transaction.connection, transaction.caller.org_id
        before = _require_project(await organization_store.find_project(connection, org_id, project_slug))
        changed = _require_project(
            await organization_store.change_project(
                connection,
                org_id,
                project_slug,
                name=None if body.name is msgspec.UNSET else body.name,
                sensitive_words=None if body.sensitive_words is msgspec.UNSET else body.sensitive_words,
                retention_days=body.retention_days,
                resolve_on_merge=None if body.resolve_on_merge is msgspec.UNSET else body.resolve_on_merge,
                exempt_keys=None if body.exempt_keys is msgspec.UNSET else body.exempt_keys,
            )
        )
        await transaction.record("project.update", str(changed.id), _audit_data(before, changed))
        # The cached keys of the project include its words and exempt keys.
        transaction.after_commit(self.context.guards.invalidate_project, changed.id)
        return _shown(changed)

    @route("DELETE", PROJECT, _WRITE, responses=(PROJECT_DELETED,))
    async def delete_project(self, request: web.Request, caller: AuthorizationContext) -> web.StreamResponse:
        """Delete a project with all its telemetry.

        The project is hidden at once. Its keys and channels stop working, its policies are deleted, and open approval
        requests about it expire. A new project can use its slug. A gateway then erases the telemetry, and the erasure
        shows the progress. Only users may delete a project. The deletion cannot be undone.
        """
        deletion.require_user(caller)
        async with begin(self.context, request) as transaction:
            caller = transaction.caller
            deletion.require_user(caller)
            erasure = await deletion.delete_project(
                transaction.connection,
                caller,
                caller.path_project_id,
                caller.project_slug or "",
                transaction.request_id,
                datetime.now(UTC),
            )
        self.context.guards.drop_project(caller.org_id, caller.path_project_id)
        return accepted(erasure, caller.org_slug)

    async def _read_body(self, request: web.Request, body_type: type[NewProject] | type[ProjectChange]) -> Any:
        """Read and check the body. Raises BadRequest, also for a retention longer than in the settings, and for keys
        that cannot be exempted.
        """
        return (await self.context.read_checked_body(request, body_type, self._check))[0]

    def _check(self, body: NewProject | ProjectChange, issues: Issues) -> None:
        days = body.retention_days
        if isinstance(days, int) and 0 < self.retention_days < days:
            message = f"Must be at most {self.retention_days}, the retention in the settings."
            issues.add("body.retentionDays", message, "too_large")
        if isinstance(body, ProjectChange) and body.exempt_keys is not msgspec.UNSET:
            for index, fault, code in find_exempt_key_faults(body.exempt_keys):
                issues.add(f"body.exemptKeys[{index}]", fault, code)


def _shown(project: organization_store.StoredProject) -> Project:
    return shown_as(Project, project, id=str(project.id))


def _audit_data(
    before: organization_store.StoredProject, changed: organization_store.StoredProject
) -> dict[str, object]:
    """The project after the change, and the added and removed exempt keys."""
    return {
        "name": changed.name,
        "sensitiveWords": list(changed.sensitive_words),
        "retentionDays": changed.retention_days,
        "resolveOnMerge": changed.resolve_on_merge.value,
        "exemptKeys": {
            "added": [key for key in changed.exempt_keys if key not in before.exempt_keys],
            "removed": [key for key in before.exempt_keys if key not in changed.exempt_keys],
        },
    }


def _require_project(project: organization_store.StoredProject | None) -> organization_store.StoredProject:
    if project is None:
        raise NotFound
    return project
