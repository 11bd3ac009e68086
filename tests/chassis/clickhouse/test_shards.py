"""Tables over several shards: an answer is of all of them or none."""

import subprocess
import sys
from pathlib import Path
from typing import Final

# The profile of the user says that a shard which is away is left out.
READ: Final = """
import asyncio, sys
from pathlib import Path
from chassis.clickhouse import ClickHouse, QueryLimits, StoreUnavailable
from tests.engine.shards import opened

async def main(directory):
    anchor = opened(directory)
    anchor.query("CREATE TABLE rows (n UInt64) ENGINE = MergeTree ORDER BY n")
    anchor.query("INSERT INTO rows SELECT number FROM numbers(10)")
    anchor.query("CREATE TABLE everywhere AS rows ENGINE = Distributed('two', 'default', 'rows')")
    anchor.query("SET skip_unavailable_shards = 1")
    print(anchor.query("SELECT count() FROM everywhere").bytes().decode().strip())
    store = ClickHouse(f"chdb://{directory}", handles=1)
    await store.start()
    await store.command("SET skip_unavailable_shards = 1")
    try:
        print(await store.query("SELECT count() FROM everywhere", {}, limits=QueryLimits()))
    except StoreUnavailable as error:
        print(error.code)
    await store.close()

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_shard_that_is_away_is_an_error_and_not_a_part_of_the_rows(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", READ, str(tmp_path / "engine")]
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=60, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.split("\n") == ["10", "279", ""]
