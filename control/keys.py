"""`/orgs/{orgSlug}/projects/{projectSlug}/keys`: list, create, revoke."""

import re
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.access import bearer, reach
from chassis.cursor import CursorSigner
from chassis.errors import NotFound
from chassis.identity import registry
from chassis.identity.checks import Checks
from chassis.identity.model import Reach
from chassis.operation import Answer, Body, Operation, Parameter, Tag, json_content
from chassis.relational import format_time
from chassis.validation import read_json
from chassis.web import Route, json_response
from control.names import Moment, Name
from control.paging import PAGE, NextCursor, page_body, requested_page
from proto.identity import Scope, format_dsn

_KEY_ID: Final = re.compile(r"key_[0-9a-z]{26}")


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key to be made."""

    name: Name


class ProjectKey(msgspec.Struct, frozen=True, rename="camel"):
    """A project key, without its secret."""

    id: Annotated[str, Meta(pattern=f"^{_KEY_ID.pattern}$")]
    name: Name
    hint: Annotated[str, Meta(description="The last four characters of the secret.")]
    enabled: bool
    created_at: Moment
    revoked_at: Moment | None


class MadeKey(ProjectKey, frozen=True, rename="camel"):
    """A key just made: the one answer that holds its secret, alone and inside a DSN."""

    key: Annotated[str, Meta(description="The secret. It is shown this once.")]
    dsn: Annotated[str, Meta(description="The secret in the form `{scheme}://{key}@{host}/{projectId}`.")]


class KeyPage(msgspec.Struct, rename="camel"):
    """A page of keys, newest first."""

    data: list[ProjectKey]
    next_cursor: NextCursor
    has_more: bool


TAG: Final = Tag("keys", "Keys that programs send telemetry with.")
LIST: Final = Operation("listKeys", TAG, (Answer("A page.", json_content(KeyPage)),), PAGE)
CREATE: Final = Operation(
    "createKey",
    TAG,
    (Answer("The key, with its secret.", json_content(MadeKey), 201),),
    body=Body(json_content(NewKey), example={"name": "checkout in production"}),
)
_ID: Final = Parameter("keyId", "path", Annotated[str, Meta(min_length=1)], "The key.")
REVOKE: Final = Operation("revokeKey", TAG, (Answer("It is revoked.", status=204),), (_ID,))


@dataclass(frozen=True, slots=True)
class Keys:
    """The handlers, with what they need. `base_url` is the address that DSNs carry."""

    checks: Checks
    cursors: CursorSigner
    base_url: str
    max_body_bytes: int
    body_timeout_s: float

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/projects/{projectSlug}/keys"
        return [
            Route("GET", every, self.list, bearer(Scope.KEYS_READ), operation=LIST),
            Route("POST", every, self.create, bearer(Scope.KEYS_WRITE), operation=CREATE),
            Route("DELETE", every + "/{keyId}", self.revoke, bearer(Scope.KEYS_WRITE), operation=REVOKE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List keys, newest first, revoked ones among them."""
        project_id = _project_id(reach(request))
        binding = f"keys of {project_id}".encode()
        page = requested_page(request, self.cursors, binding)
        async with self.checks.database.read() as connection:
            found = await registry.list_project_keys(connection, project_id, page.after, page.limit + 1)
        return json_response(page_body(found, page, key_body, lambda one: one.id, self.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create a key.

        Its secret is in this answer and nowhere after.
        """
        body = await read_json(request, NewKey, max_bytes=self.max_body_bytes, timeout_s=self.body_timeout_s)
        caller = reach(request)
        project_id = _project_id(caller)
        async with self.checks.database.write() as connection:
            made = await registry.create_project_key(
                connection, caller.org_id, project_id, body.name, caller.principal_id
            )
        shown = msgspec.structs.asdict(key_body(made.key))
        dsn = format_dsn(self.base_url, made.secret, project_id)
        return json_response(MadeKey(**shown, key=made.secret, dsn=dsn), status=201)

    async def revoke(self, request: web.Request) -> web.StreamResponse:
        """Revoke a key.

        It stops working in this process at once, in others within five seconds. Again: the same answer.
        """
        key_id = request.match_info["keyId"]
        if _KEY_ID.fullmatch(key_id) is None:  # a path may hold what no database column takes
            raise NotFound
        async with self.checks.database.write() as connection:
            key_hash = await registry.revoke_project_key(connection, _project_id(reach(request)), key_id)
        if key_hash is None:
            raise NotFound
        self.checks.project_keys.forget(key_hash)
        return web.Response(status=204)


def key_body(key: registry.ProjectKey) -> ProjectKey:
    """As the API shows it."""
    return ProjectKey(
        id=key.id,
        name=key.name,
        hint=key.hint,
        enabled=key.enabled,
        created_at=format_time(key.created_at),
        revoked_at=None if key.revoked_at is None else format_time(key.revoked_at),
    )


def _project_id(caller: Reach) -> int:
    if caller.project_id is None:
        raise TypeError("keys are below a project")
    return caller.project_id
