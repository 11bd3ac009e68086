"""`/orgs/{orgSlug}/projects`: list, create, show, change."""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.access import bearer, reach
from chassis.errors import NotFound
from chassis.identity import registry
from chassis.identity.registry import MAX_SENSITIVE_WORDS
from chassis.operation import Answer, Body, Operation, Tag, json_content
from chassis.relational import format_time
from chassis.web import Route, json_response, request_id
from control.audit.record import record
from control.desk import Desk
from control.names import Moment, Name, SensitiveWord, Slug
from control.paging import PAGE, NextCursor, page_body, requested_page
from proto.identity import Scope


class NewProject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A project to be made."""

    slug: Slug
    name: Name


class ProjectChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What changes of a project; what is not given stays. `sensitiveWords` replaces the whole list."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    sensitive_words: (
        Annotated[list[SensitiveWord], msgspec.Meta(max_length=MAX_SENSITIVE_WORDS)] | msgspec.UnsetType
    ) = msgspec.UNSET


class Project(msgspec.Struct, frozen=True, rename="camel"):
    """A project of an organization."""

    id: Annotated[str, Meta(pattern="^[0-9]+$")]
    slug: Slug
    name: Name
    sensitive_words: Annotated[
        tuple[SensitiveWord, ...],
        Meta(description="Parts of attribute keys whose values are scrubbed, besides those that always are."),
    ]
    created_at: Moment


class ProjectPage(msgspec.Struct, rename="camel"):
    """A page of projects, by slug."""

    data: list[Project]
    next_cursor: NextCursor
    has_more: bool


TAG: Final = Tag("projects", "Projects of an organization.")
LIST: Final = Operation("listProjects", TAG, (Answer("A page.", json_content(ProjectPage)),), PAGE)
CREATE: Final = Operation(
    "createProject",
    TAG,
    (Answer("The project.", json_content(Project), 201),),
    body=Body(json_content(NewProject), example={"slug": "checkout", "name": "Checkout"}),
    refused=(409,),
)
SHOW: Final = Operation("showProject", TAG, (Answer("The project.", json_content(Project)),))
CHANGE: Final = Operation(
    "changeProject",
    TAG,
    (Answer("The project as it is now.", json_content(Project)),),
    body=Body(json_content(ProjectChange), example={"sensitiveWords": ["iban"]}),
)


@dataclass(frozen=True, slots=True)
class Projects:
    """The handlers, with what they need."""

    desk: Desk

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, one = "/orgs/{orgSlug}/projects", "/orgs/{orgSlug}/projects/{projectSlug}"
        return [
            Route("GET", every, self.list, bearer(Scope.PROJECTS_READ), operation=LIST),
            Route("POST", every, self.create, bearer(Scope.PROJECTS_WRITE), operation=CREATE),
            Route("GET", one, self.show, bearer(Scope.PROJECTS_READ), operation=SHOW),
            Route("PATCH", one, self.change, bearer(Scope.PROJECTS_WRITE), operation=CHANGE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List projects, by slug."""
        org_id = reach(request).org_id
        binding = f"projects of {org_id}".encode()
        page = requested_page(request, self.desk.cursors, binding)
        async with self.desk.database.read() as connection:
            found = await registry.list_projects(connection, org_id, page.after or "", page.limit + 1)
        return json_response(page_body(found, page, project_body, lambda one: one.slug, self.desk.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a project.

        409 when the organization has one of this slug.
        """
        body = await self.desk.read(request, NewProject)
        async with self.desk.change(request) as (connection, caller):
            made = await registry.create_project(connection, caller.org_id, body.slug, body.name)
            told = {"slug": made.slug, "name": made.name}
            await record(connection, caller, "project.create", str(made.id), told, request_id(request))
        self.desk.checks.forget_bearers(caller.org_id)  # it may remember that there was no such project
        return json_response(project_body(made), status=201)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a project."""
        async with self.desk.database.read() as connection:
            found = await registry.find_project(connection, reach(request).org_id, request.match_info["projectSlug"])
        return json_response(project_body(_existing(found)))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a project."""
        body = await self.desk.read(request, ProjectChange)
        async with self.desk.change(request) as (connection, caller):
            changed = _existing(
                await registry.change_project(
                    connection,
                    caller.org_id,
                    request.match_info["projectSlug"],
                    name=None if body.name is msgspec.UNSET else body.name,
                    sensitive_words=None if body.sensitive_words is msgspec.UNSET else body.sensitive_words,
                )
            )
            told = {"name": changed.name, "sensitiveWords": list(changed.sensitive_words)}
            await record(connection, caller, "project.update", str(changed.id), told, request_id(request))
        self.desk.checks.forget_project(changed.id)  # its keys carry the words
        return json_response(project_body(changed))


def project_body(project: registry.Project) -> Project:
    """As the API shows it."""
    return Project(
        id=str(project.id),
        slug=project.slug,
        name=project.name,
        sensitive_words=project.sensitive_words,
        created_at=format_time(project.created_at),
    )


def _existing(project: registry.Project | None) -> registry.Project:
    if project is None:
        raise NotFound
    return project
