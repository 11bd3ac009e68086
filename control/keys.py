"""`/orgs/{orgSlug}/projects/{projectSlug}/keys`: list, create, revoke."""

import re
from dataclasses import dataclass
from typing import Final

import msgspec
from aiohttp import web

from chassis.access import bearer, reach
from chassis.cursor import CursorSigner
from chassis.errors import NotFound
from chassis.identity import registry
from chassis.identity.checks import Checks
from chassis.identity.model import Reach
from chassis.identity.registry import ProjectKey
from chassis.relational import format_time
from chassis.validation import read_json
from chassis.web import Route, json_response
from control.names import Name
from control.paging import page_body, requested_page
from proto.identity import Scope, format_dsn

_KEY_ID: Final = re.compile(r"key_[0-9a-z]{26}")


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a creation."""

    name: Name


class KeyBody(msgspec.Struct, frozen=True, rename="camel"):
    """A key as the API shows it: never its secret, `hint` is the last four characters."""

    id: str
    name: str
    hint: str
    enabled: bool
    created_at: str
    revoked_at: str | None


class NewKeyBody(KeyBody, frozen=True, rename="camel"):
    """A key just made: the one answer that holds its secret, alone and inside a DSN."""

    key: str
    dsn: str


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
            Route("GET", every, self.list, bearer(Scope.KEYS_READ)),
            Route("POST", every, self.create, bearer(Scope.KEYS_WRITE)),
            Route("DELETE", every + "/{keyId}", self.revoke, bearer(Scope.KEYS_WRITE)),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """200 `{data, nextCursor, hasMore}`, newest first, revoked keys among them."""
        project_id = _project_id(reach(request))
        binding = f"keys of {project_id}".encode()
        page = requested_page(request, self.cursors, binding)
        async with self.checks.database.read() as connection:
            found = await registry.list_project_keys(connection, project_id, page.after, page.limit + 1)
        return json_response(page_body(found, page, key_body, lambda one: one.id, self.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """201 with `key` and `dsn`, this once."""
        body = await read_json(request, NewKey, max_bytes=self.max_body_bytes, timeout_s=self.body_timeout_s)
        caller = reach(request)
        project_id = _project_id(caller)
        async with self.checks.database.write() as connection:
            made = await registry.create_project_key(
                connection, caller.org_id, project_id, body.name, caller.principal_id
            )
        shown = msgspec.structs.asdict(key_body(made.key))
        dsn = format_dsn(self.base_url, made.secret, project_id)
        return json_response(NewKeyBody(**shown, key=made.secret, dsn=dsn), status=201)

    async def revoke(self, request: web.Request) -> web.StreamResponse:
        """204; the key stops working here at once, elsewhere within five seconds. Again: 204."""
        key_id = request.match_info["keyId"]
        if _KEY_ID.fullmatch(key_id) is None:  # a path may hold what no database column takes
            raise NotFound
        async with self.checks.database.write() as connection:
            key_hash = await registry.revoke_project_key(connection, _project_id(reach(request)), key_id)
        if key_hash is None:
            raise NotFound
        self.checks.project_keys.forget(key_hash)
        return web.Response(status=204)


def key_body(key: ProjectKey) -> KeyBody:
    """As the API shows it."""
    return KeyBody(
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
