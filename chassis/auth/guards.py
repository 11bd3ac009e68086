"""The database and the two guards that read the database, as one resource that a process starts and closes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Self

from aiohttp import web
from prometheus_client import CollectorRegistry

from chassis.auth.cache import CacheMetrics
from chassis.auth.credential_guards import BearerGuard, ProjectKeyGuard
from chassis.db.database import Database
from chassis.redis import Broadcast, Redis

CHANNEL: Final = "sluice:identity"
_BEARERS: Final = "bearers "  # + organization id
_SESSIONS: Final = "sessions "  # + user id
_PROJECT: Final = "project "
_KEY: Final = "key "
_DELETED_PROJECT: Final = "deleted-project "
_DELETED_ORGANIZATION: Final = "deleted-organization "


@dataclass(frozen=True, slots=True)
class AuthGuards:
    """The guards of a process. All services of the process share them, so a change that one service makes takes effect
    in all services immediately.

    Code that changes cached data calls one of the `invalidate_` methods. With Redis, the guards of all other processes
    invalidate the data too. Without Redis, other processes see the change within five seconds.
    """

    database: Database
    bearer: BearerGuard
    project_keys: ProjectKeyGuard
    broadcast: Broadcast | None = None

    @classmethod
    def create(cls, database: Database, registry: CollectorRegistry | None, redis: Redis | None = None) -> Self:
        """Guards that read `database` and register their metrics in `registry`."""
        metrics = CacheMetrics(registry)
        bearer, keys = BearerGuard(database, metrics), ProjectKeyGuard(database, metrics)
        listener = _InvalidationListener(bearer, keys)
        broadcast = None if redis is None else Broadcast(redis, CHANNEL, listener.on_message, listener.on_gap)
        return cls(database, bearer, keys, broadcast)

    def invalidate_bearers(self, org_id: str) -> None:
        """Call after a change of a token, session, principal, membership or project of the organization."""
        self.bearer.invalidate(org_id)
        self._publish(_BEARERS + org_id)

    def invalidate_sessions(self, principal_id: str) -> None:
        """Call after sessions of the user were ended or their pending second factor changed, in any organization."""
        self.bearer.invalidate_sessions(principal_id)
        self._publish(_SESSIONS + principal_id)

    def invalidate_project(self, project_id: int) -> None:
        """Call after a change of project data that is cached with its keys."""
        self.project_keys.invalidate_project(project_id)
        self._publish(f"{_PROJECT}{project_id}")

    def invalidate_key(self, key_hash: bytes) -> None:
        """Call after a change of the project key with this hash."""
        self.project_keys.invalidate(key_hash)
        self._publish(_KEY + key_hash.hex())

    def drop_project(self, org_id: str, project_id: int) -> None:
        """Call after the deletion of a project."""
        self.project_keys.drop_project(project_id)
        self._publish(f"{_DELETED_PROJECT}{project_id}")
        self.invalidate_bearers(org_id)

    def drop_organization(self, org_id: str) -> None:
        """Call after the deletion of an organization."""
        self.project_keys.drop_organization(org_id)
        self._publish(_DELETED_ORGANIZATION + org_id)
        self.invalidate_bearers(org_id)

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """Start the database; at shutdown close the guards and the database."""
        await self.database.start()
        yield
        await self.bearer.close()
        await self.project_keys.close()
        await self.database.close()

    def _publish(self, message: str) -> None:
        if self.broadcast is not None:
            self.broadcast.publish(message)


@dataclass(frozen=True, slots=True)
class _InvalidationListener:
    """Applies invalidations that other processes publish."""

    bearer: BearerGuard
    project_keys: ProjectKeyGuard

    def on_message(self, message: str) -> None:
        kind, blank, subject = message.partition(" ")
        invalidate = {_BEARERS: self.bearer.invalidate, _SESSIONS: self.bearer.invalidate_sessions}.get(kind + blank)
        if invalidate is not None:
            invalidate(subject)
        elif message.startswith(_DELETED_ORGANIZATION):
            self.project_keys.drop_organization(subject)
        elif message.startswith((_PROJECT, _KEY, _DELETED_PROJECT)):
            self._invalidate_keys(message)
        else:  # a message of another release
            self.on_gap()

    def on_gap(self) -> None:
        self.bearer.invalidate_all()
        self.project_keys.invalidate_all()

    def _invalidate_keys(self, message: str) -> None:
        try:
            if message.startswith(_KEY):
                self.project_keys.invalidate(bytes.fromhex(message.removeprefix(_KEY)))
            elif message.startswith(_DELETED_PROJECT):
                self.project_keys.drop_project(int(message.removeprefix(_DELETED_PROJECT)))
            else:
                self.project_keys.invalidate_project(int(message.removeprefix(_PROJECT)))
        except ValueError:
            self.on_gap()
