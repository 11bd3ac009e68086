"""A change that one process makes is known to the others at once where there is a Redis."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from chassis.errors import ApiError
from chassis.identity import registry, telemetry_keys
from chassis.identity.checks import Checks
from chassis.redis import open_redis
from chassis.relational import Database
from tests.chassis.identity.tenants import Tenant
from tests.redis_server import RedisServer

DEADLINE_S = 20.0


@asynccontextmanager
async def process(url: str, redis_url: str) -> AsyncIterator[Checks]:
    """Guards as a process has them, which would go by what they remember for a day."""
    redis = open_redis(redis_url, 10.0)
    checks = Checks.over(Database(url, max_wait_s=2.0), None, redis)
    remembering(checks)
    app = web.Application()
    broadcast = checks.broadcast
    assert broadcast is not None
    app.cleanup_ctx.extend([checks.running, redis.running, broadcast.running])
    runner = web.AppRunner(app)
    await runner.setup()
    yield checks
    await runner.cleanup()


def remembering(checks: Checks) -> None:
    for cache in (checks.bearer._grants, checks.bearer._projects, checks.project_keys._cache):
        cache._limits = cache._limits._replace(fresh_s=86_400.0)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():
            await asyncio.sleep(0.005)


async def outcome(checks: Checks, token: str) -> int:
    try:
        grant = await checks.bearer.authenticate(f"Bearer {token}")
        await checks.bearer.authorize(grant, "acme", "web", ["projects:read"])
    except ApiError as error:
        return error.status
    return 200


async def key_works(checks: Checks, secret: str) -> bool:
    try:
        await checks.project_keys.check(legacy_key=secret)
    except ApiError:
        return False
    return True


async def test_others_forget_what_one_has_changed(
    migrated_url: str, database: Database, acme: Tenant, redis_server: RedisServer
) -> None:
    async with process(migrated_url, redis_server.url) as one, process(migrated_url, redis_server.url) as two:
        await until(lambda: subscribed(redis_server, 2))
        for checks in (one, two):
            assert (await outcome(checks, acme.token.secret), await key_works(checks, acme.key.secret)) == (200, True)
        async with database.write() as connection:
            key_hash = await telemetry_keys.revoke_project_key(connection, acme.project.id, acme.key.key.id)
        assert key_hash is not None
        assert await key_works(two, acme.key.secret), "it remembers"
        one.forget_key(key_hash)
        assert not await key_works(one, acme.key.secret)
        await until(lambda: negated(key_works(two, acme.key.secret)))
        async with database.write() as connection:
            await registry.revoke_token(connection, acme.organization.id, acme.token.id)
        assert await outcome(two, acme.token.secret) == 200, "it remembers"
        one.forget_bearers(acme.organization.id)
        assert await outcome(one, acme.token.secret) == 401

        async def is_out() -> bool:
            return await outcome(two, acme.token.secret) == 401

        await until(is_out)


async def subscribed(server: RedisServer, processes: int) -> bool:
    return bool(server.ask("PUBSUB", "NUMSUB", "sluice:identity")[1] == processes)


async def negated(said: Awaitable[bool]) -> bool:
    return not await said
