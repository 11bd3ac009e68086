"""The relational store and the two guards over it, as one resource that a process starts and closes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Self

from aiohttp import web
from prometheus_client import CollectorRegistry

from chassis.access import Guards
from chassis.identity.bearer import BearerGuard
from chassis.identity.cache import CacheMetrics
from chassis.identity.project_keys import ProjectKeyGuard
from chassis.redis import Broadcast, Redis
from chassis.relational import Database

CHANNEL: Final = "sluice:identity"
_BEARERS: Final = "bearers"
_KEYS: Final = "keys"
_KEY: Final = "key "


@dataclass(frozen=True, slots=True)
class Checks:
    """One per process, shared by its services, so that a change made by one counts for all of them at once.

    Whoever changes what guards remember says so by one of the `forget_` methods. Where there is a Redis, the guards of
    all other processes forget it too; else they know within five seconds.
    """

    database: Database
    bearer: BearerGuard
    project_keys: ProjectKeyGuard
    broadcast: Broadcast | None = None

    @classmethod
    def over(cls, database: Database, registry: CollectorRegistry | None, redis: Redis | None = None) -> Self:
        """Guards over `database`, counted in `registry`."""
        metrics = CacheMetrics(registry)
        bearer, keys = BearerGuard(database, metrics), ProjectKeyGuard(database, metrics)
        hearing = _Hearing(bearer, keys)
        broadcast = None if redis is None else Broadcast(redis, CHANNEL, hearing.heard, hearing.missed)
        return cls(database, bearer, keys, broadcast)

    @property
    def guards(self) -> Guards:
        """What the application skeleton asks."""
        return Guards(bearer=self.bearer, project_key=self.project_keys)

    def forget_bearers(self) -> None:
        """A token, session, principal, membership, project or organization was changed."""
        self.bearer.forget_all()
        self._tell(_BEARERS)

    def forget_keys(self) -> None:
        """A project or organization was changed."""
        self.project_keys.forget_all()
        self._tell(_KEYS)

    def forget_key(self, key_hash: bytes) -> None:
        """The project key behind this hash was changed."""
        self.project_keys.forget(key_hash)
        self._tell(_KEY + key_hash.hex())

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """Start the store; at the end close guards and store."""
        await self.database.start()
        yield
        await self.bearer.close()
        await self.project_keys.close()
        await self.database.close()

    def _tell(self, message: str) -> None:
        if self.broadcast is not None:
            self.broadcast.tell(message)


@dataclass(frozen=True, slots=True)
class _Hearing:
    """What guards do when another process has changed something."""

    bearer: BearerGuard
    project_keys: ProjectKeyGuard

    def heard(self, message: str) -> None:
        if message == _BEARERS:
            self.bearer.forget_all()
        elif message.startswith(_KEY):
            self._forget_key(message.removeprefix(_KEY))
        else:  # of all keys, or of a later release
            self.missed()

    def missed(self) -> None:
        self.bearer.forget_all()
        self.project_keys.forget_all()

    def _forget_key(self, digits: str) -> None:
        try:
            self.project_keys.forget(bytes.fromhex(digits))
        except ValueError:
            self.missed()
