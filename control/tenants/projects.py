"""`/orgs/{orgSlug}/projects`: list, create, show, change."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.erasures import deletion
from control.erasures.requests import accepted
from control.erasures.schemas import Erasure
from control.http.context import HandlerContext
from control.http.field_types import ExemptKey, Name, SensitiveWord, Slug, Timestamp
from control.http.paging import PAGE_PARAMETERS, NextCursor, page_body, parse_page_request
from control.identity import organization_repository
from control.identity.exempt_keys import MAX_EXEMPT_KEYS, find_exempt_key_faults
from control.identity.organization_repository import MAX_SENSITIVE_WORDS, ResolveOnMerge
from proto.identity import Scope

MAX_RETENTION_DAYS: Final = 36_500
RetentionDays = Annotated[
    int,
    Meta(
        ge=1,
        le=MAX_RETENTION_DAYS,
        description="Age at which spans and log records of the project are deleted, in days; at most that of the "
        "settings. Null: that of the settings.",
    ),
]
_ResolveOnMerge = Annotated[
    ResolveOnMerge,
    Meta(
        description="What a merge of a fix does to its issues: they are resolved in the next release (`next_release`), "
        "or at once (`now`)."
    ),
]
_EXEMPT_KEYS: Final = (
    "Complete keys of attributes, as stored, whose values are not scrubbed for their key. Card and social security "
    "numbers in them are scrubbed nevertheless. Keys that always indicate a secret cannot be exempted."
)
B = TypeVar("B", "NewProject", "ProjectChange")


class NewProject(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The project to create."""

    slug: Slug
    name: Name
    retention_days: RetentionDays | None = None


class ProjectChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to a project; omitted fields stay as they are. `sensitiveWords` and `exemptKeys` replace the complete
    lists.
    """

    name: Name | msgspec.UnsetType = msgspec.UNSET
    sensitive_words: (
        Annotated[list[SensitiveWord], msgspec.Meta(max_length=MAX_SENSITIVE_WORDS)] | msgspec.UnsetType
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
            description="Values of attributes whose keys contain one of these words are scrubbed, as are those of "
            "built-in words."
        ),
    ]
    created_at: Timestamp
    retention_days: Annotated[
        int | None,
        Meta(description="Age at which spans and log records are deleted, in days. Null: that of the settings."),
    ]
    resolve_on_merge: _ResolveOnMerge
    exempt_keys: Annotated[tuple[ExemptKey, ...], Meta(description=_EXEMPT_KEYS)]


class ProjectPage(msgspec.Struct, rename="camel"):
    """A page of projects, by slug."""

    data: list[Project]
    next_cursor: NextCursor
    has_more: bool


TAG: Final = Tag("projects", "Projects of an organization.")
LIST: Final = Operation("listProjects", TAG, (ResponseSpec("A page.", json_content(ProjectPage)),), PAGE_PARAMETERS)
CREATE: Final = Operation(
    "createProject",
    TAG,
    (ResponseSpec("The project.", json_content(Project), 201),),
    body=Body(json_content(NewProject), example={"slug": "checkout", "name": "Checkout"}),
    error_statuses=(409,),
)
SHOW: Final = Operation("showProject", TAG, (ResponseSpec("The project.", json_content(Project)),))
CHANGE: Final = Operation(
    "changeProject",
    TAG,
    (ResponseSpec("The updated project.", json_content(Project)),),
    body=Body(json_content(ProjectChange), example={"sensitiveWords": ["iban"]}),
)
DELETE: Final = Operation(
    "deleteProject",
    TAG,
    (
        ResponseSpec(
            "The project is deleted; its telemetry will be.",
            json_content(Erasure),
            202,
            {"Location": "Path of the erasure."},
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Projects:
    """Handlers of projects, and their dependencies. `retention_days`: of the settings, 0: for ever."""

    context: HandlerContext
    retention_days: int = 0

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, one = "/orgs/{orgSlug}/projects", "/orgs/{orgSlug}/projects/{projectSlug}"
        return [
            Route("GET", every, self.list, bearer(Scope.PROJECTS_READ), operation=LIST),
            Route("POST", every, self.create, bearer(Scope.PROJECTS_WRITE), operation=CREATE),
            Route("GET", one, self.show, bearer(Scope.PROJECTS_READ), operation=SHOW),
            Route("PATCH", one, self.change, bearer(Scope.PROJECTS_WRITE), operation=CHANGE),
            Route("DELETE", one, self.delete, bearer(Scope.PROJECTS_WRITE), operation=DELETE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List projects, by slug."""
        org_id = authorization_context(request).org_id
        binding = f"projects of {org_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            found = await organization_repository.list_projects(connection, org_id, page.after or "", page.limit + 1)
        return json_response(page_body(found, page, project_body, lambda one: one.slug, self.context.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a project.

        409 when the organization has a project with this slug.
        """
        body = await self._read_body(request, NewProject)
        async with self.context.write_transaction(request) as (connection, caller):
            project = await organization_repository.create_project(
                connection, caller.org_id, body.slug, body.name, retention_days=body.retention_days
            )
            data = {"slug": project.slug, "name": project.name, "retentionDays": project.retention_days}
            await record(connection, caller, "project.create", str(project.id), data, request_id(request))
        self.context.guards.invalidate_bearers(caller.org_id)  # it may have cached that the project does not exist
        return json_response(project_body(project), status=201)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a project."""
        async with self.context.database.read() as connection:
            found = await organization_repository.find_project(
                connection, authorization_context(request).org_id, request.match_info["projectSlug"]
            )
        return json_response(project_body(_require_project(found)))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a project."""
        body = await self._read_body(request, ProjectChange)
        async with self.context.write_transaction(request) as (connection, caller):
            slug = request.match_info["projectSlug"]
            before = _require_project(await organization_repository.find_project(connection, caller.org_id, slug))
            changed = _require_project(
                await organization_repository.change_project(
                    connection,
                    caller.org_id,
                    slug,
                    name=None if body.name is msgspec.UNSET else body.name,
                    sensitive_words=None if body.sensitive_words is msgspec.UNSET else body.sensitive_words,
                    retention_days=body.retention_days,
                    resolve_on_merge=None if body.resolve_on_merge is msgspec.UNSET else body.resolve_on_merge,
                    exempt_keys=None if body.exempt_keys is msgspec.UNSET else body.exempt_keys,
                )
            )
            data = _audit_data(before, changed)
            await record(connection, caller, "project.update", str(changed.id), data, request_id(request))
        self.context.guards.invalidate_project(changed.id)  # the cache of its keys includes words and exempt keys
        return json_response(project_body(changed))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a project with all its telemetry.

        At once it is out of sight, its keys and channels stop working, its policies are gone, and open approval
        requests about it expire; a new project can have its slug. A gateway erases its telemetry afterwards, which the
        erasure shows. Only users may delete a project. This cannot be undone.
        """
        deletion.require_user(authorization_context(request))
        async with self.context.write_transaction(request) as (connection, caller):
            deletion.require_user(caller)
            project_id, slug = _path_project(caller)
            now = datetime.now(UTC)
            erasure = await deletion.delete_project(connection, caller, project_id, slug, request_id(request), now)
        self.context.guards.drop_project(caller.org_id, project_id)
        return accepted(erasure, caller.org_slug)

    async def _read_body(self, request: web.Request, body_type: type[B]) -> B:
        """Raises BadRequest, also for a retention longer than that of the settings, and for keys that cannot be
        exempted.
        """
        issues = Issues()
        body = await self.context.read_partial_body(request, body_type, {}, issues)
        days = None if body is None else body.retention_days
        if isinstance(days, int) and 0 < self.retention_days < days:
            message = f"Must be at most {self.retention_days}, the retention of the settings."
            issues.add("body.retentionDays", message, "too_large")
        if isinstance(body, ProjectChange) and body.exempt_keys is not msgspec.UNSET:
            for index, fault, code in find_exempt_key_faults(body.exempt_keys):
                issues.add(f"body.exemptKeys[{index}]", fault, code)
        issues.raise_if_any("The request body is not valid.")
        if body is None:
            raise TypeError("a missing body must have issues")
        return body


def project_body(project: organization_repository.StoredProject) -> Project:
    """The API representation."""
    return Project(
        id=str(project.id),
        slug=project.slug,
        name=project.name,
        sensitive_words=project.sensitive_words,
        created_at=format_time(project.created_at),
        retention_days=project.retention_days,
        resolve_on_merge=project.resolve_on_merge,
        exempt_keys=project.exempt_keys,
    )


def _audit_data(
    before: organization_repository.StoredProject, changed: organization_repository.StoredProject
) -> dict[str, object]:
    """The project after the change, and how its exempt keys differ."""
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


def _require_project(project: organization_repository.StoredProject | None) -> organization_repository.StoredProject:
    if project is None:
        raise NotFound
    return project


def _path_project(caller: AuthorizationContext) -> tuple[int, str]:
    if caller.project_id is None or caller.project_slug is None:
        raise LookupError("the path has no project")
    return caller.project_id, caller.project_slug
