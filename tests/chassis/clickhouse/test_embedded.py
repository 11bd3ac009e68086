"""What the embedded engine is started with holds for all that happens in it, from when it has loaded its tables on."""

import asyncio
from pathlib import Path

from chassis.clickhouse import ClickHouse, QueryLimits, QueryTooLarge
from chassis.clickhouse.embedded import MIN_BYTES, configuration, engine_bytes, max_read_bytes
from chassis.runtime.memory import available_bytes
from tests.engine.alone import in_a_process

LIMITS = QueryLimits()
MEMORY = 600 * 2**20


def test_two_fifths_of_the_memory_unless_it_is_said_and_never_too_little() -> None:
    assert engine_bytes(0) == max(MIN_BYTES, available_bytes() * 2 // 5)
    assert engine_bytes(10**9) == 10**9
    assert engine_bytes(1) == MIN_BYTES


def seen(directory: str) -> dict[str, str]:
    """The settings of an engine that has a process of its own: the tests' is open already, with those of its own."""

    async def look() -> dict[str, str]:
        store = ClickHouse(f"chdb://{directory}", memory_bytes=MEMORY)
        await store.start()
        rows = await store.query(
            "SELECT name, value FROM system.server_settings WHERE name LIKE '%memory_usage%' OR name LIKE '%cache_size'"
            " UNION ALL SELECT name, value FROM system.merge_tree_settings",
            {},
            limits=LIMITS,
        )
        return {str(name): str(value) for name, value in rows}

    return asyncio.run(look())


def test_the_engine_keeps_to_its_memory_and_builds_no_statistics(tmp_path: Path) -> None:
    directory = tmp_path / "a name+with %41 and é"  # it travels in a connection string
    settings = in_a_process(seen, str(directory))
    assert settings["max_server_memory_usage"] == str(MEMORY)
    assert settings["merges_mutations_memory_usage_soft_limit"] == str(MEMORY // 2)
    caches = [name for name in settings if name.endswith("cache_size") and f"<{name}>" in configuration(MEMORY)]
    assert len(caches) == 5
    assert sum(int(settings[name]) for name in caches) < MEMORY // 4
    assert settings["auto_statistics_types"] == ""
    assert settings["use_primary_key_cache"] == "1"


def too_large(directory: str) -> str:
    async def read() -> str:
        store = ClickHouse(f"chdb://{directory}", memory_bytes=MEMORY)
        await store.start()
        try:
            await store.query(
                "SELECT uniqExact(number) FROM numbers(50000000)", {}, limits=LIMITS._replace(max_memory_bytes=0)
            )
        except QueryTooLarge as error:
            return error.message
        return "it was read"

    return asyncio.run(read())


def test_one_read_takes_a_quarter_at_most_whatever_its_limits(tmp_path: Path) -> None:
    assert f"maximum: {max_read_bytes(MEMORY) / 2**20:.2f} MiB" in in_a_process(too_large, str(tmp_path))
