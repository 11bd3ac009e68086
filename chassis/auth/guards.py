"""The relational store and the two guards over it, as one resource that a process starts and closes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Self

from aiohttp import web
from prometheus_client import CollectorRegistry

from chassis.auth.bearer import BearerGuard
from chassis.auth.cache import CacheMetrics
from chassis.auth.project_key_guard import ProjectKeyGuard
from chassis.db.database import Database
from chassis.redis import Broadcast, Redis

CHANNEL: Final = "sluice:identity"
_BEARERS: Final = "bearers "  # of the organization that is named
_SESSIONS: Final = "sessions "  # of the user
_PROJECT: Final = "project "
_KEY: Final = "key "


@dataclass(frozen=True, slots=True)
class AuthGuards:
    """One per process, shared by its services, so that a change made by one counts for all of them at once.

    Whoever changes what guards remember says so by one of the `forget_` methods. Where there is a Redis, the guards of
    all other processes forget it too; else they know within five seconds.
    """

    database: Database
    bearer: BearerGuard
    project_keys: ProjectKeyGuard
    broadcast: Broadcast | None = None

    @classmethod
    def create(cls, database: Database, registry: CollectorRegistry | None, redis: Redis | None = None) -> Self:
        """Guards over `database`, counted in `registry`."""
        metrics = CacheMetrics(registry)
        bearer, keys = BearerGuard(database, metrics), ProjectKeyGuard(database, metrics)
        hearing = _InvalidationListener(bearer, keys)
        broadcast = None if redis is None else Broadcast(redis, CHANNEL, hearing.on_message, hearing.on_gap)
        return cls(database, bearer, keys, broadcast)

    def invalidate_bearers(self, org_id: str) -> None:
        """A token, session, principal, membership or project of the organization was changed."""
        self.bearer.invalidate(org_id)
        self._publish(_BEARERS + org_id)

    def invalidate_sessions(self, principal_id: str) -> None:
        """Sessions of the user were ended or owe something else, in whatever organization."""
        self.bearer.invalidate_sessions(principal_id)
        self._publish(_SESSIONS + principal_id)

    def invalidate_project(self, project_id: int) -> None:
        """What keys of the project say of it was changed."""
        self.project_keys.invalidate_project(project_id)
        self._publish(f"{_PROJECT}{project_id}")

    def invalidate_key(self, key_hash: bytes) -> None:
        """The project key behind this hash was changed."""
        self.project_keys.invalidate(key_hash)
        self._publish(_KEY + key_hash.hex())

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """Start the store; at the end close guards and store."""
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
    """What guards do when another process has changed something."""

    bearer: BearerGuard
    project_keys: ProjectKeyGuard

    def on_message(self, message: str) -> None:
        what, blank, which = message.partition(" ")
        forget = {_BEARERS: self.bearer.invalidate, _SESSIONS: self.bearer.invalidate_sessions}.get(what + blank)
        if forget is not None:
            forget(which)
        elif message.startswith((_PROJECT, _KEY)):
            self._invalidate_keys(message)
        else:  # of another release
            self.on_gap()

    def on_gap(self) -> None:
        self.bearer.invalidate_all()
        self.project_keys.invalidate_all()

    def _invalidate_keys(self, message: str) -> None:
        try:
            if message.startswith(_KEY):
                self.project_keys.invalidate(bytes.fromhex(message.removeprefix(_KEY)))
            else:
                self.project_keys.invalidate_project(int(message.removeprefix(_PROJECT)))
        except ValueError:
            self.on_gap()
