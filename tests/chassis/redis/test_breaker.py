"""The door to Redis, on real servers: down, slow, full, full of others' keys, back again."""

import asyncio
import time
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from chassis.errors import StartupError
from chassis.redis import RedisUnavailable, Script, breaker, open_redis
from chassis.redis.breaker import redacted_url
from tests.chassis.conftest import DEADLINE_S, Connect, until
from tests.redis_server import PASSWORD, RedisServer, slow

ADD = Script("return redis.call('INCRBY', KEYS[1], ARGV[1])")


def failures(metrics: CollectorRegistry, kind: str) -> float:
    return metrics.get_sample_value("sluice_redis_failures_total", {"kind": kind}) or 0.0


async def test_a_script_is_run_whether_redis_knows_it_or_not(connect: Connect, redis_server: RedisServer) -> None:
    redis = await connect(redis_server.url)
    assert redis.is_up
    assert [await redis.run(ADD, ("k",), (2,)) for _ in range(2)] == [2, 4]
    redis_server.ask("SCRIPT", "FLUSH")
    assert await redis.run(ADD, ("k",), (3,)) == 7


async def test_many_at_once_all_get_their_answer(connect: Connect, redis_server: RedisServer) -> None:
    redis = await connect(redis_server.url, 10.0)
    answers = await asyncio.gather(*(redis.run(ADD, ("k",), (1,)) for _ in range(60)))
    assert sorted(answers) == list(range(1, 61))


async def test_one_that_is_not_there_is_no_reason_not_to_start_and_is_found_when_it_comes(
    connect: Connect, own_redis: RedisServer
) -> None:
    own_redis.stop()
    with capture_logs() as lines:
        redis = await connect(own_redis.url)
        with pytest.raises(RedisUnavailable):
            await redis.run(ADD, ("k",), (1,))
        with pytest.raises(RedisUnavailable):
            await redis.probe()
        await until(lambda: bool(lines))
        own_redis.start()
        await until(lambda: redis.is_up and len(lines) == 2)
        assert await redis.run(ADD, ("k",), (1,)) == 1
        await redis.probe()
    assert [line["event"] for line in lines] == ["redis unavailable", "redis recovered"]
    assert lines[0]["address"] == f"redis://127.0.0.1:{own_redis.port}/0"
    assert PASSWORD not in str(lines)


async def test_an_outage_is_said_once_and_costs_those_alone_who_find_out(
    connect: Connect, own_redis: RedisServer, metrics: CollectorRegistry
) -> None:
    redis = await connect(own_redis.url)
    with capture_logs() as lines:
        own_redis.stop()
        for _ in range(100):
            with pytest.raises(RedisUnavailable):
                await redis.run(ADD, ("k",), (1,))
        await until(lambda: bool(lines))
        own_redis.start()
        await until(lambda: redis.is_up and len(lines) == 2)
    assert [line["event"] for line in lines] == ["redis unavailable", "redis recovered"]
    assert failures(metrics, "connection") == 1
    assert metrics.get_sample_value("sluice_redis_up") == 1.0


@pytest.mark.parametrize("how", ["late", "never"])
async def test_one_that_answers_late_is_done_without_until_it_answers_in_time(
    how: str,
    connect: Connect,
    own_redis: RedisServer,
    metrics: CollectorRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(breaker, "CONNECT_S", 1.0)
    async with slow(own_redis) as way:
        redis = await connect(own_redis.url_at(way.port), 0.25)
        assert await redis.run(ADD, ("k",), (1,)) == 1
        with capture_logs() as lines:
            if how == "late":
                way.delay_s = 0.5
            else:
                own_redis.pause()
            with pytest.raises(RedisUnavailable):
                await redis.run(ADD, ("k",), (1,))
            assert not redis.is_up
            with pytest.raises(RedisUnavailable):
                await redis.run(ADD, ("k",), (1,))
            assert failures(metrics, "timeout") == 1, "the second was not tried"
            await until(lambda: bool(lines))
            way.delay_s = 0.0
            own_redis.resume()
            await until(lambda: redis.is_up and len(lines) == 2)
        assert await redis.run(ADD, ("other",), (1,)) == 1
    assert [line["event"] for line in lines] == ["redis unavailable", "redis recovered"]


async def test_a_busy_process_does_not_take_redis_for_slow(
    connect: Connect, redis_server: RedisServer, metrics: CollectorRegistry
) -> None:
    """Each turn of its loop takes longer than Redis may."""
    redis = await connect(redis_server.url)
    assert await redis.run(ADD, ("k",), (1,)) == 1
    redis._timeout_s = 0.02
    loop = asyncio.get_running_loop()

    def work() -> None:
        time.sleep(0.03)
        working[0] = loop.call_soon(work)

    working = [loop.call_soon(work)]
    try:
        assert [await redis.run(ADD, ("k",), (1,)) for _ in range(2)] == [2, 3]
        await redis.inspect()
    finally:
        working[0].cancel()
    assert (redis.is_up, failures(metrics, "timeout")) == (True, 0)


async def test_a_restart_between_two_calls_is_an_outage_of_one_call(connect: Connect, own_redis: RedisServer) -> None:
    redis = await connect(own_redis.url)
    assert await redis.run(ADD, ("k",), (5,)) == 5
    own_redis.stop()
    own_redis.start()

    async def added() -> Any:
        while True:
            try:
                return await redis.run(ADD, ("k",), (1,))
            except RedisUnavailable:
                await asyncio.sleep(0.005)

    async with asyncio.timeout(DEADLINE_S):
        assert await added() == 1


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), "maxmemory"),
        (("CONFIG", "SET", "min-replicas-to-write", "1"), "replicas"),
        (("ACL", "SETUSER", "default", "-eval", "-evalsha"), "permissions"),
    ],
    ids=["full", "read-only", "not permitted"],
)
async def test_one_that_answers_and_takes_nothing_is_away(
    command: tuple[str, ...], reason: str, connect: Connect, own_redis: RedisServer
) -> None:
    redis = await connect(own_redis.url)
    own_redis.ask(*command)
    with capture_logs() as lines:
        with pytest.raises(RedisUnavailable):
            await redis.run(ADD, ("k",), (1,))
        await until(lambda: "redis unavailable" in [line["event"] for line in lines])
    assert not redis.is_up
    assert [line["event"] for line in lines] == ["redis call rejected", "redis unavailable"]
    assert reason in lines[0]["reason"]


async def test_a_key_that_is_somebody_elses_is_no_outage(connect: Connect, redis_server: RedisServer) -> None:
    redis = await connect(redis_server.url)
    redis_server.ask("RPUSH", "k", "theirs")
    with capture_logs() as lines:
        for _ in range(3):
            with pytest.raises(RedisUnavailable):
                await redis.run(ADD, ("k",), (1,))
            await until(lambda: redis.is_up)
        assert await redis.run(ADD, ("mine",), (1,)) == 1
    assert [line["event"] for line in lines] == ["redis call rejected"], "said once"


async def test_a_wrong_password_is_said_and_not_shown(connect: Connect, redis_server: RedisServer) -> None:
    with capture_logs() as lines:
        redis = await connect(redis_server.url_at(redis_server.port, "wr:o@ng"))
        await until(lambda: bool(lines))
    assert not redis.is_up
    assert lines[0]["event"] == "redis unavailable"
    assert "invalid" in lines[0]["reason"]
    assert "wr:o@ng" not in str(lines)


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://:pa#ss@host:6379",
        "redis://:pa/ss@host:6379",
        "redis://user:12/3@host",
        "redis://host:port",
        "redis://host:6379/0?socket_timeout=soon",
        "redis://host?nonsense=1",
    ],
)
def test_a_url_that_will_not_do_is_one_sentence_that_shows_none_of_it(url: str) -> None:
    with pytest.raises(StartupError) as caught:
        open_redis(url, 1.0)
    assert str(caught.value) == (
        "SLUICE_REDIS_URL must have the form redis://user:password@host:port/0, with the password percent-encoded."
    )
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://cache.example:6380/2", "redis://cache.example:6380/2"),
        ("rediss://user:hush@cache.example?ssl_ca_certs=/etc/ca.pem", "rediss://cache.example"),
        ("redis://:hush@[::1]:6379/0?password=hush", "redis://[::1]:6379/0"),
    ],
)
def test_an_address_is_shown_without_credentials(url: str, text: str) -> None:
    assert redacted_url(url) == text
    assert open_redis(url, 1.0).address == text
