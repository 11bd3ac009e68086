"""Prints a table for each measure.

counting  a store full of error occurrences is counted from the beginning; beside it the same rows are only read
upgrade   the same while an old fingerprint of the project waits
lag       `sluice up` takes errors at a steady rate: the time from an answer until the issues count what was exported
"""

import asyncio
import random
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.command import command
from benchmarks.issues.lag import STACK_TRACE, measure_lag
from benchmarks.report import Table, print_machine
from benchmarks.stores import database, opened, tables, wanted_databases
from chassis.clickhouse import ClickHouse
from chassis.clickhouse.storage_order import Checkpoint, OrderedTable, StorageOrderReader
from chassis.db.database import Database
from chassis.db.migrations import migrate
from chassis.issues import issue_fingerprints, issues
from control.issues.counting import follower as follower_module
from control.issues.counting.follower import TABLE, IssueFollower, IssueMetrics
from control.issues.counting.occurrences import COLUMNS
from control.issues.counting.project_state import IssueUrls
from proto.grouping.fingerprint import FINGERPRINT_VERSION
from proto.otlp.native import write_block
from proto.otlp.policy import NANOS_PER_DAY
from proto.storage.tables import ERROR_OCCURRENCES
from tests.chassis.auth.tenants import Tenant, new_tenant

BLOCK_ROWS: Final = 1_000  # two batches a second at 2 000 errors/s
RELEASES: Final = 20


def main() -> None:
    """Measure all, or what is named."""
    parser = command(__package__, __doc__, parts=("counting", "upgrade", "lag"), databases=True)
    parser.add_argument("--rows", type=int, default=300_000, help="occurrences to count")
    parser.add_argument("--errors", type=int, default=500, help="distinct errors")
    parser.add_argument("--rate", type=int, default=2_000, help="errors a second, of the lag")
    parser.add_argument("--seconds", type=int, default=30, help="of the lag")
    arguments = parser.parse_args()
    print_machine()
    with tempfile.TemporaryDirectory() as directory:
        for part in arguments.parts:
            if part == "lag":
                measure_lag(Path(directory), arguments.rate, arguments.seconds, arguments.errors)
                continue
            columns = {f"{part}, {arguments.rows} occurrences of {arguments.errors} errors": "", "counted/s": ".0f"}
            table = Table({**columns, "CPU us of each": ".1f", "to reading it": ".2f"})
            for name in wanted_databases(arguments.database):
                place = Path(directory) / f"{part}-{name}"
                with database(name, place) as url:
                    counting = _count(place, url, arguments.rows, arguments.errors, is_upgrade=part == "upgrade")
                    table.row(name, *asyncio.run(counting))


async def _count(directory: Path, url: str, rows: int, errors: int, *, is_upgrade: bool) -> tuple[float, float, float]:
    """Occurrences counted a second, us of CPU of each, and that CPU to reading it alone."""
    migrate(url)
    async with opened(url) as store, tables(directory / "chdb") as clickhouse:
        tenant = await new_tenant(store, "acme")
        await _fill(clickhouse, tenant.project.id, rows, errors, stacktrace=STACK_TRACE if is_upgrade else "")
        if is_upgrade:
            await _wait_for_an_error(store, tenant)
        await asyncio.sleep(2)  # until everything is settled
        read_s = await _read(clickhouse, rows)
        follower = IssueFollower(store, clickhouse, IssueUrls(), IssueMetrics(None))
        wall, cpu = time.monotonic(), time.process_time()
        await follower.poll()
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    return rows / wall, cpu / rows * 1e6, cpu / read_s


async def _wait_for_an_error(database: Database, tenant: Tenant) -> None:
    """An issue by earlier rules, whose error does not occur again."""
    at = datetime.now(UTC)
    issue: dict[str, object] = {"id": "iss_1", "org_id": tenant.organization.id, "project_id": tenant.project.id}
    issue |= {"number": 10**6, "count": 1}
    issue |= {"fingerprint": bytes(16), "title": "Error", "search_text": "error", "status": "unresolved"}
    issue |= dict.fromkeys(("first_seen", "last_seen", "created_at", "updated_at"), at)
    async with database.write() as connection:
        await connection.execute(issues.insert().values(issue))
        link = {"project_id": tenant.project.id, "fingerprint": bytes(16), "issue_id": "iss_1", "rules_version": 1}
        since_us = int(at.timestamp() * 1_000_000)
        await connection.execute(issue_fingerprints.insert().values(link | {"since_us": since_us}))


async def _read(clickhouse: ClickHouse, rows: int) -> float:
    """CPU of reading the rows in pages, in seconds."""
    reader = StorageOrderReader(OrderedTable(clickhouse, TABLE, COLUMNS))
    checkpoint, found, cpu = Checkpoint(), 0, time.process_time()
    while True:
        page = await reader.read(checkpoint, limit=follower_module.PAGE_ROWS)
        checkpoint, found = page.checkpoint, found + len(page.rows)
        if page.is_last:
            break
    if found != rows:
        raise SystemExit(f"{found} rows were read of {rows}")
    return time.process_time() - cpu


async def _fill(clickhouse: ClickHouse, project_id: int, rows: int, errors: int, *, stacktrace: str) -> None:
    """Blocks of one batch each, of today."""
    chance, now = random.Random(7), time.time_ns()
    for first in range(0, rows, BLOCK_ROWS):
        batch_id = chance.getrandbits(64)
        values = []
        for number in range(min(BLOCK_ROWS, rows - first)):
            error = min(int(chance.expovariate(8 / errors)), errors - 1)
            at = now - now % NANOS_PER_DAY + chance.randrange(max(1, now % NANOS_PER_DAY))
            values.append(
                (project_id, at, error.to_bytes(16, "big"), f"Error{error}", f"message {number} of {error}",
                 stacktrace, "span", chance.randbytes(16), chance.randbytes(8), "checkout", "production",
                 f"1.0.{error % RELEASES}", batch_id, number, FINGERPRINT_VERSION)
            )  # fmt: skip
        block = write_block(ERROR_OCCURRENCES, values)
        await clickhouse.insert(TABLE, ERROR_OCCURRENCES.column_names, block, token=f"benchmark:{first}")


if __name__ == "__main__":
    main()
