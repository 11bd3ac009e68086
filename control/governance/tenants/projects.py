"""`/orgs/{orgSlug}/projects`: list, create, show, change."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import NotFound
from chassis.http.access import bearer
from chassis.http.declaration import Arguments, PageOf, route
from chassis.http.route import ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from control.governance.erasures import deletion
from control.governance.erasures.api import Erasure, accepted
from control.http.field_types import ExemptKey, Name, SensitiveWord, Slug, Timestamp
from control.identity.organizations import organization_store
from control.identity.organizations.organization_store import MAX_SENSITIVE_WORDS, ResolveOnMerge, StoredProject
from control.identity.organizations.rules import MAX_EXEMPT_KEYS, find_exempt_key_faults
from control.routing.arguments import Handlers, Transaction, begin, control_arguments
from control.routing.resource import PageReader, shown_as
from proto.identity import Scope

PATH: Final = "/orgs/{orgSlug}/projects"
ONE: Final = PATH + "/{projectSlug}"
_READ: Final = bearer(Scope.PROJECTS_READ)
_WRITE: Final = bearer(Scope.PROJECTS_WRITE)
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


DELETED: Final = ResponseSpec(
    "The project is deleted; its telemetry will be.", json_content(Erasure), 202, {"Location": "Path of the erasure."}
)


@dataclass(frozen=True, slots=True)
class Projects(Handlers):
    """Handlers of projects, and their dependencies. `retention_days`: of the settings, 0: for ever."""

    TAG: ClassVar = Tag("projects", "Projects of an organization.")
    retention_days: int = 0

    def arguments(self) -> Arguments:
        return replace(control_arguments(self.context), read_body=self._read_body)

    @route("GET", PATH, _READ)
    async def list_projects(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Project]:
        """List projects, by slug."""

        async def fetch(connection: AsyncConnection, after: str | None, limit: int) -> Sequence[StoredProject]:
            return await organization_store.list_projects(connection, caller.org_id, after or "", limit)

        return await page.read(("projects", caller.org_id), fetch, _shown, lambda one: one.slug)

    @route("POST", PATH, _WRITE, status=201, errors=(409,), example={"slug": "checkout", "name": "Checkout"})
    async def create_project(self, body: NewProject, transaction: Transaction) -> Project:
        """Create a project.

        409 when the organization has a project with this slug.
        """
        org_id = transaction.caller.org_id
        project = await organization_store.create_project(
            transaction.connection, org_id, body.slug, body.name, retention_days=body.retention_days
        )
        data = {"slug": project.slug, "name": project.name, "retentionDays": project.retention_days}
        await transaction.record("project.create", str(project.id), data)
        # They may have cached that the project does not exist.
        transaction.after_commit(self.context.guards.invalidate_bearers, org_id)
        return _shown(project)

    @route("GET", ONE, _READ)
    async def show_project(
        self, project_slug: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> Project:
        """Show a project."""
        return _shown(_require_project(await organization_store.find_project(connection, caller.org_id, project_slug)))

    @route("PATCH", ONE, _WRITE, example={"sensitiveWords": ["iban"]})
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
        # The cache of its keys includes words and exempt keys.
        transaction.after_commit(self.context.guards.invalidate_project, changed.id)
        return _shown(changed)

    @route("DELETE", ONE, _WRITE, responses=(DELETED,))
    async def delete_project(self, request: web.Request, caller: AuthorizationContext) -> web.StreamResponse:
        """Delete a project with all its telemetry.

        At once it is out of sight, its keys and channels stop working, its policies are gone, and open approval
        requests about it expire; a new project can have its slug. A gateway erases its telemetry afterwards, which the
        erasure shows. Only users may delete a project. This cannot be undone.
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
        """Raises BadRequest, also for a retention longer than that of the settings, and for keys that cannot be
        exempted.
        """
        return (await self.context.read_checked_body(request, body_type, self._check))[0]

    def _check(self, body: NewProject | ProjectChange, issues: Issues) -> None:
        days = body.retention_days
        if isinstance(days, int) and 0 < self.retention_days < days:
            message = f"Must be at most {self.retention_days}, the retention of the settings."
            issues.add("body.retentionDays", message, "too_large")
        if isinstance(body, ProjectChange) and body.exempt_keys is not msgspec.UNSET:
            for index, fault, code in find_exempt_key_faults(body.exempt_keys):
                issues.add(f"body.exemptKeys[{index}]", fault, code)


def _shown(project: StoredProject) -> Project:
    return shown_as(Project, project, id=str(project.id))


def _audit_data(before: StoredProject, changed: StoredProject) -> dict[str, object]:
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


def _require_project(project: StoredProject | None) -> StoredProject:
    if project is None:
        raise NotFound
    return project
