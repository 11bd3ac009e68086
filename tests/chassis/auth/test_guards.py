"""A change that one process makes is known to the others at once where there is a Redis."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from chassis.auth.credential_guards import BearerGuard, ProjectKeyGuard
from chassis.auth.guards import AuthGuards, _InvalidationListener
from chassis.db.database import Database
from chassis.errors import ApiError
from chassis.redis import open_redis
from control.identity.organizations import organization_store, project_key_store
from proto.identity import hash_secret
from tests.chassis.auth.tenants import Tenant
from tests.databases import WAIT_S
from tests.redis_server import RedisServer

DEADLINE_S = 20.0


@asynccontextmanager
async def process(url: str, redis_url: str) -> AsyncIterator[AuthGuards]:
    """Guards as a process has them, which would go by what they remember for a day."""
    redis = open_redis(redis_url, 10.0)
    checks = AuthGuards.create(Database(url, max_wait_s=WAIT_S), None, redis)
    remembering(checks)
    app = web.Application()
    broadcast = checks.broadcast
    assert broadcast is not None
    app.cleanup_ctx.extend([checks.running, redis.running, broadcast.running])
    runner = web.AppRunner(app)
    await runner.setup()
    yield checks
    await runner.cleanup()


def remembering(checks: AuthGuards) -> None:
    for cache in (checks.bearer._tokens, checks.bearer._projects, checks.project_keys._cache):
        cache._limits = cache._limits._replace(fresh_s=86_400.0)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():
            await asyncio.sleep(0.005)


async def outcome(checks: AuthGuards, token: str) -> int:
    try:
        grant = await checks.bearer.authenticate(f"Bearer {token}")
        await checks.bearer.authorize(grant, "acme", "web", ["projects:read"])
    except ApiError as error:
        return error.status
    return 200


async def key_works(checks: AuthGuards, secret: str) -> bool:
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
            key_hash = await project_key_store.revoke_project_key(connection, acme.project.id, acme.key.key.id)
        assert key_hash is not None
        assert await key_works(two, acme.key.secret), "it remembers"
        one.invalidate_key(key_hash)
        assert not await key_works(one, acme.key.secret)
        await until(lambda: negated(key_works(two, acme.key.secret)))
        async with database.write() as connection:
            await organization_store.revoke_token(connection, acme.organization.id, acme.token.id)
        assert await outcome(two, acme.token.secret) == 200, "it remembers"
        one.invalidate_bearers(acme.organization.id)
        assert await outcome(one, acme.token.secret) == 401

        async def is_out() -> bool:
            return await outcome(two, acme.token.secret) == 401

        await until(is_out)


async def subscribed(server: RedisServer, processes: int) -> bool:
    return bool(server.ask("PUBSUB", "NUMSUB", "sluice:identity")[1] == processes)


async def negated(said: Awaitable[bool]) -> bool:
    return not await said


@pytest.mark.parametrize(
    ("message", "forgotten"),
    [
        ("bearers ORG", {"token", "session", "project"}),
        ("bearers org_other", set()),
        ("sessions OWNER", {"session"}),
        ("sessions prn_other", set()),
        ("project PROJECT", {"key"}),
        ("project 1", set()),
        ("key HASH", {"key"}),
        ("key 00", set()),
        ("key zz", {"token", "session", "project", "key"}),
        ("project zz", {"token", "session", "project", "key"}),
        ("of a later release", {"token", "session", "project", "key"}),
    ],
)
async def test_what_is_heard_is_asked_for_again_and_no_more(
    bearer: BearerGuard, keys: ProjectKeyGuard, acme: Tenant, message: str, forgotten: set[str]
) -> None:
    key_hash = hash_secret(acme.key.secret)
    grant = await bearer.authenticate(f"Bearer {acme.token.secret}")
    await bearer.authorize(grant, "acme", "web", ["projects:read"])
    bearer._sessions._store("ses", bearer._tokens._known[hash_secret(acme.token.secret)])
    await keys.check(legacy_key=acme.key.secret)
    for name, value in (
        ("ORG", acme.organization.id),
        ("OWNER", acme.owner_id),
        ("PROJECT", str(acme.project.id)),
        ("HASH", key_hash.hex()),
    ):
        message = message.replace(name, value)
    _InvalidationListener(bearer, keys).on_message(message)
    fresh = {
        "token": bearer._tokens.peek(hash_secret(acme.token.secret)),
        "session": bearer._sessions.peek("ses"),
        "project": bearer._projects.peek((acme.organization.id, "web")),
        "key": keys._cache.peek(key_hash),
    }
    assert {name for name, value in fresh.items() if value is None} == forgotten
