"""The check of a bearer, in this order: 401 no valid credential (`authenticate`), 404 out of sight, 403 out of reach
(`authorize`). The limit of the principal stands between the two.

A credential is a personal access token, or the access token of a dashboard session (`chassis.auth.jwt_verifier`). It is
pinned to one organization; any other organization is out of its holder's sight, as is its own once the holder is no
member any more. Its scopes are intersected with the live roles at every request (`chassis.auth.membership_status`).
"Live" is at most FRESH_S old, and a change made in the same process counts at once (`forget`, `forget_sessions`).
"""

import asyncio
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa

from chassis.auth.cache import CacheLimits, CacheMetrics, LookupCache
from chassis.auth.grants import INVALID_TOKEN, load_session_credential, load_token_credential, require_scope
from chassis.auth.jwt_verifier import JwtVerifier
from chassis.auth.model import AuthenticatedCredential, AuthorizationContext
from chassis.auth.tables import access_tokens, projects
from chassis.db.database import Database, DatabaseUnavailable
from chassis.errors import CredentialExpired, NotFound, Unauthorized
from proto.identity import Scope, hash_secret, is_slug, is_token

FRESH_S: Final = 5.0
LIMITS: Final = CacheLimits(fresh_s=FRESH_S)
LAST_USE_PRECISION: Final = timedelta(minutes=1)  # how often one token's last use is written down at most
_MAX_LAST_USE_WRITES: Final = 16  # under way at once; one more is left to the token's next look-up

_PROJECT: Final = sa.select(projects.c.id).where(
    projects.c.org_id == sa.bindparam("org_id"), projects.c.slug == sa.bindparam("slug")
)


class BearerGuard:
    """Finds out who a bearer is and how far they reach."""

    def __init__(
        self,
        database: Database,
        metrics: CacheMetrics,
        *,
        limits: CacheLimits = LIMITS,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._now = now
        self._tokens: LookupCache[bytes, AuthenticatedCredential] = LookupCache(
            "token", self._fetch_token, limits, clock, metrics
        )
        self._sessions: LookupCache[str, AuthenticatedCredential] = LookupCache(
            "session", self._fetch_session, limits, clock, metrics
        )
        self._projects: LookupCache[tuple[str, str], int] = LookupCache(
            "project", self._fetch_project, limits, clock, metrics
        )
        self._jwt = JwtVerifier(database, metrics, clock=clock, now=now)
        self._writes: set[asyncio.Task[None]] = set()

    async def authenticate(self, authorization: str | None) -> AuthenticatedCredential:
        """`authorization` is the header as it came. Raises Unauthorized (of a token that has expired, or whose session
        has ended: Outlived), ServiceUnavailable.
        """
        return await self._load_credential(_parse_bearer(authorization))

    async def authorize(
        self, grant: AuthenticatedCredential, org_slug: str, project_slug: str | None, scopes: Collection[str]
    ) -> AuthorizationContext:
        """What the token's holder may do at the place of a path, where one of the scopes is needed. Raises NotFound,
        Forbidden, ServiceUnavailable. Whether there is such a project is told to who reads projects, or may go on.
        """
        if grant.role is None or grant.org_slug != org_slug:
            raise NotFound
        if Scope.PROJECTS_READ not in grant.scopes:
            require_scope(grant.scopes, scopes)
        project_id = None if project_slug is None else await self._authorize_project(grant.org_id, project_slug)
        require_scope(grant.scopes, scopes)
        return AuthorizationContext(
            principal_id=grant.principal_id,
            token_id=grant.token_id,
            org_id=grant.org_id,
            org_slug=grant.org_slug,
            role=grant.role,
            scopes=grant.scopes,
            project_id=project_id,
            project_slug=project_slug,
            kind=grant.kind,
            owner_id=grant.owner_id,
            on_behalf_of=grant.on_behalf_of,
            act_chain=grant.act_chain,
            owning_user_id=grant.owning_user_id,
        )

    def invalidate(self, org_id: str) -> None:
        """To be called when a token, session, principal, membership or project of the organization was changed."""
        self._tokens.invalidate_where(lambda _, grant: grant is None or grant.org_id == org_id)
        self._sessions.invalidate_where(lambda _, grant: grant is None or grant.org_id == org_id)
        self._projects.invalidate_where(lambda place, _: place[0] == org_id)

    def invalidate_sessions(self, principal_id: str) -> None:
        """To be called when sessions of the user were ended or owe something else, in whatever organization."""
        self._sessions.invalidate_where(lambda _, grant: grant is None or grant.principal_id == principal_id)

    def invalidate_all(self) -> None:
        """To be called when any of that may have been changed."""
        self._tokens.invalidate_all()
        self._sessions.invalidate_all()
        self._projects.invalidate_all()

    async def close(self) -> None:
        """End look-ups under way; let the last uses be written."""
        await self._tokens.close()
        await self._sessions.close()
        await self._projects.close()
        await self._jwt.close()
        await asyncio.gather(*self._writes, return_exceptions=True)

    async def _load_credential(self, credential: str) -> AuthenticatedCredential:
        """What a good credential grants."""
        if is_token(credential):
            digest = hash_secret(credential)
            grant = self._tokens.peek(digest) or await self._tokens.get(digest)
            if grant is None:
                raise Unauthorized(INVALID_TOKEN)
        else:
            session_id = await self._jwt.verify_session(credential)
            grant = self._sessions.peek(session_id) or await self._sessions.get(session_id)
        if grant is None or (grant.expires_at is not None and grant.expires_at <= self._now()):
            raise CredentialExpired(INVALID_TOKEN)
        return grant

    async def _authorize_project(self, org_id: str, slug: str) -> int:
        if not is_slug(slug):  # a path may hold what no database column takes
            raise NotFound
        project_id = self._projects.peek((org_id, slug)) or await self._projects.get((org_id, slug))
        if project_id is None:
            raise NotFound
        return project_id

    async def _fetch_token(self, digest: bytes) -> AuthenticatedCredential | None:
        async with self._database.read() as connection:
            found = await load_token_credential(connection, digest)
        if found is None:
            return None
        grant, last_used_at = found
        self._record_use(grant.token_id, last_used_at)
        return grant

    async def _fetch_session(self, session_id: str) -> AuthenticatedCredential | None:
        async with self._database.read() as connection:
            return await load_session_credential(connection, session_id)

    async def _fetch_project(self, key: tuple[str, str]) -> int | None:
        async with self._database.read() as connection:
            found: int | None = await connection.scalar(_PROJECT, {"org_id": key[0], "slug": key[1]})
            return found

    def _record_use(self, token_id: str, last_used_at: datetime | None) -> None:
        """Write the time of use aside, so that no request waits for it."""
        now = self._now()
        stale = last_used_at is None or now - last_used_at >= LAST_USE_PRECISION
        if stale and len(self._writes) < _MAX_LAST_USE_WRITES:
            task = asyncio.ensure_future(self._write_use(token_id, now))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)

    async def _write_use(self, token_id: str, now: datetime) -> None:
        column = access_tokens.c.last_used_at
        earlier = column.is_(None) | (column <= now - LAST_USE_PRECISION)
        try:
            async with self._database.write() as connection:
                await connection.execute(
                    access_tokens.update().where(access_tokens.c.id == token_id, earlier).values(last_used_at=now)
                )
        except DatabaseUnavailable:
            pass  # logged where it was raised; the time of last use is worth no more than one attempt


def _parse_bearer(authorization: str | None) -> str:
    """What the header carries. Whether it can be a credential is looked at before anything is looked up."""
    if authorization is None:
        raise Unauthorized("A bearer token is required.")
    scheme, _, credential = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized("A bearer token is required.")
    return credential.strip()
