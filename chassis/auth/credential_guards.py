"""The checks of credentials.

A bearer credential is checked in this order: 401 for an invalid credential (`authenticate`), 404 for an organization or
project that the holder cannot see, 403 for a missing scope (`authorize`). The caller applies the principal's rate limit
between `authenticate` and `authorize`.

A credential is a personal access token, or the access token of a dashboard session (`chassis.auth.jwt`). A credential
is pinned to one organization. Its holder cannot see any other organization, and not the credential's organization
either once the holder is no longer a member. The scopes of a credential are intersected with the current roles at every
request (`chassis.auth.grants`), where "current" means at most FRESH_S old. A change takes effect immediately in the
process that made it (`invalidate`, `invalidate_sessions`), and with Redis in the other processes too.

A project key is checked from memory when possible, so that ingest survives an outage of the database.

    parse           `chassis.auth.project_credential`                                                 -> 400 / 401
    find            in memory, or with one lookup unless the address has failed too often            -> 429 / 401 / 503
    rate limit      in the caller's `on_authenticated`                                                -> 429
    compare         project_id and the project of a DSN must be the key's project                          -> 403

A revoked or disabled key stops working immediately in the process that changed the key (`invalidate`). In other
processes the key stops working immediately with Redis, and within FRESH_S without Redis. A key whose revocation time is
in the future stops working within FRESH_S of that time. While the database is unavailable, keys seen within STALE_S
keep working with their last known data.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa

from chassis.auth.cache import CacheLimits, CacheMetrics, LookupCache
from chassis.auth.grants import INVALID_TOKEN, load_session_credential, load_token_credential, require_scope
from chassis.auth.jwt import JwtVerifier
from chassis.auth.model import AuthenticatedCredential, AuthorizationContext, ProjectIdentity
from chassis.auth.project_credential import check_bounds, parse_credential
from chassis.auth.tables import access_tokens, organizations, project_keys, projects
from chassis.db.database import Database, DatabaseUnavailable, UtcTime
from chassis.errors import CredentialExpired, Forbidden, NotFound, Unauthorized
from proto.identity import Scope, hash_secret, is_slug, is_token

FRESH_S: Final = 5.0
LIMITS: Final = CacheLimits(fresh_s=FRESH_S)
LAST_USE_PRECISION: Final = timedelta(minutes=1)  # the last use of a token is written at most this often
_MAX_LAST_USE_WRITES: Final = 16  # concurrent writes; at the limit the token's next lookup writes the time of use

_PROJECT: Final = sa.select(projects.c.id).where(
    projects.c.org_id == sa.bindparam("org_id"),
    projects.c.slug == sa.bindparam("slug"),
    projects.c.deleted_at.is_(None),
)


class BearerGuard:
    """Authenticates and authorizes bearer credentials."""

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
        """The credential in the raw header `authorization`. Raises Unauthorized (its subclass CredentialExpired when
        the token or session is expired, or the session of a valid access token has ended) and ServiceUnavailable.
        """
        return await self._load_credential(_parse_bearer(authorization))

    async def authorize(
        self, grant: AuthenticatedCredential, org_slug: str, project_slug: str | None, scopes: Collection[str]
    ) -> AuthorizationContext:
        """The permissions of the credential in the organization and project of a path. One of `scopes` is required.
        Raises NotFound, Forbidden, ServiceUnavailable. Only a holder of `projects:read` or of a required scope learns
        whether the project exists.
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
        """Call after a change of a token, session, principal, membership or project of the organization."""
        self._tokens.invalidate_where(lambda _, credential: credential is None or credential.org_id == org_id)
        self._sessions.invalidate_where(lambda _, credential: credential is None or credential.org_id == org_id)
        self._projects.invalidate_where(lambda key, _: key[0] == org_id)

    def invalidate_sessions(self, principal_id: str) -> None:
        """Call after sessions of the user were ended or their pending second factor changed, in any organization."""
        self._sessions.invalidate_where(
            lambda _, credential: credential is None or credential.principal_id == principal_id
        )

    def invalidate_all(self) -> None:
        """Call when any token, session or project may have changed."""
        self._tokens.invalidate_all()
        self._sessions.invalidate_all()
        self._projects.invalidate_all()

    async def close(self) -> None:
        """Cancel pending lookups; wait for pending writes of the last use."""
        await self._tokens.close()
        await self._sessions.close()
        await self._projects.close()
        await self._jwt.close()
        await asyncio.gather(*self._writes, return_exceptions=True)

    async def _load_credential(self, bearer_token: str) -> AuthenticatedCredential:
        """Raises Unauthorized, CredentialExpired, ServiceUnavailable."""
        if is_token(bearer_token):
            digest = hash_secret(bearer_token)
            credential = self._tokens.peek(digest) or await self._tokens.get(digest)
            if credential is None:
                raise Unauthorized(INVALID_TOKEN)
        else:
            session_id = await self._jwt.verify_session(bearer_token)
            credential = self._sessions.peek(session_id) or await self._sessions.get(session_id)
        if credential is None or (credential.expires_at is not None and credential.expires_at <= self._now()):
            raise CredentialExpired(INVALID_TOKEN)
        return credential

    async def _authorize_project(self, org_id: str, slug: str) -> int:
        if not is_slug(slug):  # a path may hold characters that no database column accepts
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
        credential, last_used_at = found
        self._record_use(credential.token_id, last_used_at)
        return credential

    async def _fetch_session(self, session_id: str) -> AuthenticatedCredential | None:
        async with self._database.read() as connection:
            return await load_session_credential(connection, session_id)

    async def _fetch_project(self, key: tuple[str, str]) -> int | None:
        async with self._database.read() as connection:
            found: int | None = await connection.scalar(_PROJECT, {"org_id": key[0], "slug": key[1]})
            return found

    def _record_use(self, token_id: str, last_used_at: datetime | None) -> None:
        """Write the time of use in the background, so that no request waits for it."""
        now = self._now()
        is_due = last_used_at is None or now - last_used_at >= LAST_USE_PRECISION
        if is_due and len(self._writes) < _MAX_LAST_USE_WRITES:
            task = asyncio.ensure_future(self._write_use(token_id, now))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)

    async def _write_use(self, token_id: str, now: datetime) -> None:
        column = access_tokens.c.last_used_at
        is_due = column.is_(None) | (column <= now - LAST_USE_PRECISION)
        try:
            async with self._database.write() as connection:
                await connection.execute(
                    access_tokens.update().where(access_tokens.c.id == token_id, is_due).values(last_used_at=now)
                )
        except DatabaseUnavailable:
            pass  # logged where it was raised; the time of last use is not important enough to retry


def _parse_bearer(authorization: str | None) -> str:
    """The credential in the header, unchecked."""
    if authorization is None:
        raise Unauthorized("An access token is required: Authorization: Bearer <token>.")
    scheme, _, credential = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized("An access token is required: Authorization: Bearer <token>.")
    return credential.strip()


STALE_S: Final = 86_400.0
PROJECT_KEY_LIMITS: Final = CacheLimits(fresh_s=FRESH_S, stale_s=STALE_S)

_LOOKUP: Final = (
    sa.select(
        projects.c.id,
        projects.c.slug,
        organizations.c.id,
        organizations.c.slug,
        project_keys.c.id,
        projects.c.sensitive_words,
        organizations.c.monthly_items,
        project_keys.c.rate,
        projects.c.exempt_keys,
    )
    .join_from(project_keys, projects, projects.c.id == project_keys.c.project_id)
    .join(organizations, organizations.c.id == projects.c.org_id)
    .where(
        project_keys.c.hash == sa.bindparam("hash"),
        project_keys.c.enabled,
        projects.c.deleted_at.is_(None),
        organizations.c.deleted_at.is_(None),
        project_keys.c.revoked_at.is_(None) | (project_keys.c.revoked_at > sa.bindparam("now", type_=UtcTime)),
    )
)


class ProjectKeyGuard:
    """Finds the project that an export request is for."""

    def __init__(
        self,
        database: Database,
        metrics: CacheMetrics,
        *,
        limits: CacheLimits = PROJECT_KEY_LIMITS,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._now = now
        self._cache: LookupCache[bytes, ProjectIdentity] = LookupCache(
            "project_key", self._fetch, limits, clock, metrics
        )

    async def check(
        self,
        *,
        legacy_auth: str | None = None,
        authorization: str | None = None,
        legacy_key: str | None = None,
        project_id: str | None = None,
        before_lookup: Callable[[], Awaitable[None]] | None = None,
        on_authenticated: Callable[[ProjectIdentity], Awaitable[None]] | None = None,
    ) -> ProjectIdentity:
        """Find the project of the key in the raw values of two headers and two query parameters. `before_lookup` is
        called before the lookup of a key that is not in memory, and may raise. A known key therefore passes regardless
        of failures of other clients at the same address. `on_authenticated` is called with the key's project, before
        the key's project is compared with the project that the request names, and may raise.

        Raises BadRequest for query values that are too long and for an empty project, Unauthorized for missing,
        malformed, conflicting, unknown, disabled or revoked keys, Forbidden when the request names a project other than
        the key's, and ServiceUnavailable when the key cannot be looked up.
        """
        check_bounds(legacy_key, project_id)
        credential = parse_credential(legacy_auth, authorization, legacy_key, project_id)
        digest = hash_secret(credential.key)
        identity = self._cache.peek(digest) or await self._look_up(digest, before_lookup)
        if identity is None:
            raise Unauthorized("The project key is not valid.")
        if on_authenticated is not None:
            await on_authenticated(identity)
        if any(named != str(identity.project_id) for named in credential.project_ids):
            raise Forbidden("The project key does not belong to the project in the request.")
        return identity

    def invalidate(self, key_hash: bytes) -> None:
        """Call after a change of the key with this hash: the next request looks it up."""
        self._cache.invalidate(key_hash)

    def invalidate_project(self, project_id: int) -> None:
        """Call after a change of the project."""
        self._cache.invalidate_where(lambda _, found: found is None or found.project_id == project_id)

    def drop_project(self, project_id: int) -> None:
        """Call after the deletion of the project: none of its keys works any more, even during a database outage."""
        self._cache.drop_where(lambda _, found: found is None or found.project_id == project_id)

    def drop_organization(self, org_id: str) -> None:
        """Call after the deletion of the organization."""
        self._cache.drop_where(lambda _, found: found is None or found.org_id == org_id)

    def invalidate_all(self) -> None:
        """Call when any key or project may have changed."""
        self._cache.invalidate_all()

    async def close(self) -> None:
        """Cancel pending lookups."""
        await self._cache.close()

    async def _look_up(
        self, digest: bytes, before_lookup: Callable[[], Awaitable[None]] | None
    ) -> ProjectIdentity | None:
        if before_lookup is not None and not self._cache.contains(digest):
            await before_lookup()
        return await self._cache.get(digest)

    async def _fetch(self, digest: bytes) -> ProjectIdentity | None:
        async with self._database.read() as connection:
            row = (await connection.execute(_LOOKUP, {"hash": digest, "now": self._now()})).one_or_none()
        if row is None:
            return None
        project_id, project_slug, org_id, org_slug, key_id, words, monthly_items, rate, exempt = row
        return ProjectIdentity(
            project_id, project_slug, org_id, org_slug, key_id, tuple(words), monthly_items, rate, tuple(exempt)
        )
