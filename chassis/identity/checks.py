"""The relational store and the two guards over it, as one resource that a process starts and closes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Self

from aiohttp import web
from prometheus_client import CollectorRegistry

from chassis.access import Guards
from chassis.identity.bearer import BearerGuard
from chassis.identity.cache import CacheMetrics
from chassis.identity.project_keys import ProjectKeyGuard
from chassis.relational import Database


@dataclass(frozen=True, slots=True)
class Checks:
    """One per process, shared by its services, so that a change made by one counts for all of them at once."""

    database: Database
    bearer: BearerGuard
    project_keys: ProjectKeyGuard

    @classmethod
    def over(cls, database: Database, registry: CollectorRegistry | None) -> Self:
        """Guards over `database`, counted in `registry`."""
        metrics = CacheMetrics(registry)
        return cls(database, BearerGuard(database, metrics), ProjectKeyGuard(database, metrics))

    @property
    def guards(self) -> Guards:
        """What the application skeleton asks."""
        return Guards(bearer=self.bearer, project_key=self.project_keys)

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """Start the store; at the end close guards and store."""
        await self.database.start()
        yield
        await self.bearer.close()
        await self.project_keys.close()
        await self.database.close()
