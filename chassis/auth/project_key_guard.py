"""The check of a project key: from memory when possible, so that ingest survives an outage of the database.

    parse           `chassis.auth.project_credential`                                                 -> 400 / 401
    find            in memory; else, unless its address has failed too often, one lookup             -> 429 / 401 / 503
    rate limit      in the caller's `on_authenticated`                                                -> 429
    compare         project_id and a DSN's project must be the key's                                       -> 403

A revoked or disabled key stops working at once in the process that changed it (`invalidate`); in others at once with
Redis, else within FRESH_S. A key with a revocation time in the future stops within FRESH_S of that time. While the
database is unavailable, keys seen within STALE_S keep working with their last known data.
"""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from chassis.auth.cache import CacheLimits, CacheMetrics, LookupCache
from chassis.auth.model import ProjectIdentity
from chassis.auth.project_credential import check_bounds, parse_credential
from chassis.auth.tables import organizations, project_keys, projects
from chassis.db.database import Database, UtcTime
from chassis.errors import Forbidden, Unauthorized
from proto.identity import hash_secret

FRESH_S: Final = 5.0
STALE_S: Final = 86_400.0
LIMITS: Final = CacheLimits(fresh_s=FRESH_S, stale_s=STALE_S)

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
        limits: CacheLimits = LIMITS,
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
        """Takes the raw values of two headers and two query parameters. `before_lookup` is called before the lookup of
        a key that is not in memory, and may raise: a known key passes, whatever other clients at its address do.
        `on_authenticated` is called with the key's project before that is compared with the project that the request
        names, and may raise.

        Raises BadRequest for over-long query values and an empty project; Unauthorized for missing, malformed,
        conflicting, unknown, disabled or revoked keys; Forbidden when the request names another project than the key's;
        ServiceUnavailable when the key cannot be looked up.
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
        """Call after the deletion of the project: none of its keys works any more, database or not."""
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
