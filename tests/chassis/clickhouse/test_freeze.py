"""Frozen tables of the embedded engine, read back by another engine: in a process of its own, for an engine has one
directory.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from chassis.clickhouse import ClickHouse, StoreRejected
from chassis.clickhouse.freeze import FrozenTables

ROOT = Path(__file__).parents[3]

BLOCK = """
import datetime as dt, struct

def block(day, first, rows):
    \"\"\"Rows of one day in Native format.\"\"\"
    days = (dt.date(2026, 11, day) - dt.date(1970, 1, 1)).days
    varint = bytes([rows & 127 | 128, rows >> 7]) if rows > 127 else bytes([rows])
    return [b"\\x02" + varint, b"\\x03day\\x04Date", struct.pack("<H", days) * rows,
            b"\\x01n\\x06UInt64", struct.pack(f"<{rows}Q", *range(first, first + rows))]

async def insert(store, table, day, first, token, rows=1000):
    await store.insert(table, ("day", "n"), block(day, first, rows), token=token)
"""
FREEZE = """
import asyncio, json, shutil, sys
from pathlib import Path
from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.clickhouse.freeze import FrozenTables

directory, copy = Path(sys.argv[1]), Path(sys.argv[2])
SETTINGS = "non_replicated_deduplication_window = 100, old_parts_lifetime = 1"

async def main():
    store = ClickHouse(f"chdb://{directory}", handles=3)
    await store.start()
    for table in ("a", "`b c`"):
        await store.command(f"CREATE TABLE {table} (day Date, n UInt64) ENGINE = MergeTree PARTITION BY day ORDER BY n "
                            f"SETTINGS {SETTINGS}")

    for n in range(4):
        await insert(store, "a", 1, n * 1000, f"a{n}")
        await insert(store, "`b c`", 1, n * 1000, f"b{n}")
    await insert(store, "a", 2, 0, "other day")
    frozen = FrozenTables(store)
    await frozen.release()
    await frozen.prepare()
    await insert(store, "a", 1, 4000, "a4")  # a changed partition
    await insert(store, "a", 3, 0, "new day")  # a new one
    await store.command("OPTIMIZE TABLE `b c` FINAL")  # other parts, same rows
    await store.command("ALTER TABLE a DROP PARTITION '2026-11-02'")
    await frozen.complete()
    await insert(store, "a", 1, 5000, "a5")  # later
    await store.command("OPTIMIZE TABLE a FINAL")
    await frozen.settle()
    shutil.copytree(frozen.directory, copy, symlinks=True)
    await frozen.release()
    assert not list((directory / "shadow").glob("sluice*"))
    await store.close()

asyncio.run(main())
"""
READ = """
import asyncio, json, sys
from chassis.clickhouse import ClickHouse, QueryLimits

async def main():
    store = ClickHouse(f"chdb://{sys.argv[1]}")
    await store.start()
    rows = []
    for table in ("a", "`b c`"):
        sql = f"SELECT toString(day), count(), uniqExact(n), max(n) FROM {table} GROUP BY day ORDER BY day"
        rows.append(await store.query(sql, {}, limits=QueryLimits()))
    for token in ("a3", "a4", "a5"):  # known, known, of later
        await insert(store, "a", 1, 9000, token, rows=1)
    rows.append(await store.query("SELECT countIf(n = 9000) FROM a", {}, limits=QueryLimits()))
    await store.close()
    print(json.dumps(rows))

asyncio.run(main())
"""


def python(code: str, *arguments: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BLOCK + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_freeze_has_the_rows_of_its_moment_and_the_tokens_of_their_blocks(tmp_path: Path) -> None:
    python(FREEZE, tmp_path / "engine", tmp_path / "copy")
    assert python(READ, tmp_path / "copy") == (
        '[[["2026-11-01", 5000, 5000, 4999], ["2026-11-03", 1000, 1000, 999]],'
        ' [["2026-11-01", 4000, 4000, 3999]], [[1]]]'
    )


async def test_a_partition_that_cannot_be_frozen_fails_it_with_what_the_engine_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ClickHouse(f"chdb://{tmp_path}")

    async def two_partitions(*_arguments: object, **_options: object) -> list[tuple[object, ...]]:
        return [("default", "a", day, f"store/5fa/uuid/{day}_1_1_0") for day in ("20261101", "20261102")]

    async def refused(*_arguments: object, **_options: object) -> None:
        raise StoreRejected("No space left on device.")

    monkeypatch.setattr(engine, "query", two_partitions)
    monkeypatch.setattr(engine, "command", refused)
    with pytest.raises(StoreRejected, match="No space left"):
        await FrozenTables(engine).complete()
