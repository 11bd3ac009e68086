"""Prints rows a second, CPU a row and memory above idle of a sink and of an export by hand."""

import asyncio
import io
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from benchmarks.command import command
from benchmarks.processes import peak_mib, reset_peak, resident_mib
from benchmarks.report import MIB, Table, print_machine
from benchmarks.stores import opened, tables
from benchmarks.warehouse import beside
from chassis.clickhouse import ClickHouse
from chassis.clickhouse.target import open_client, parse_url
from chassis.db.database import Database, to_milliseconds
from chassis.db.migrations import migrate
from control.export import store
from control.export.destinations.interfaces import StoredObject
from control.export.exporter import Exporter, WarehouseMetrics
from control.export.model import BlobstoreConfig, SinkKind, Stream
from control.export.sink_destination import Destination
from control.export.streams.ordered import OrderedStream
from control.secrets.secret_box import KeyFile, SecretBox
from tests.chassis.auth.tenants import new_tenant

ROWS: Final = 1_000_000
BLOCK: Final = 20_000  # rows of one insert, or fewer of BLOCK_BYTES
BLOCK_BYTES: Final = 32 * 2**20
_PACKAGES: Final = ("chdb", "pyarrow", "clickhouse-connect")
_FILL: Final = (
    "INSERT INTO error_occurrences (project_id, time, fingerprint, type, message, stacktrace, source, trace_id,"
    " span_id, service_name, environment, release, batch_id, row) SELECT {project:UInt64},"
    " now64(9) - toIntervalMillisecond(number), toFixedString(unhex(leftPad(hex(number % 500), 32, '0')), 16),"
    " concat('Error', toString(number % 50)),"
    " concat('card declined for order ', toString(cityHash64(number)), randomPrintableASCII({more:UInt64})),"
    " repeat('  at shop.cart.pay (cart.py:17)\\n', 20), 'span',"
    " toFixedString(unhex(leftPad(hex(cityHash64(number)), 32, '0')), 16),"
    " toFixedString('12345678', 8), concat('service', toString(number % 10)), 'production', '1.0.0',"
    " {batch:UInt64}, toUInt32(number) FROM numbers({count:UInt64})"
)


class _Memory:
    """An object store that keeps nothing but sizes."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}

    async def put_new(self, key: str, body: bytes, row_digest: str) -> StoredObject | None:
        """As `ObjectStore` has it."""
        del row_digest
        self.sizes[key] = len(body)
        return None


class _Spent:
    """Time, CPU and memory since it was made."""

    def __init__(self) -> None:
        reset_peak(os.getpid())
        self._idle = resident_mib(os.getpid())
        self._begun, self._cpu = time.monotonic(), time.process_time()

    def figures(self, rows: int, size: int) -> tuple[float, float, float, float]:
        """Rows a second, MiB above idle, MiB written, us of CPU a row."""
        seconds, cpu = time.monotonic() - self._begun, time.process_time() - self._cpu
        return rows / seconds, peak_mib(os.getpid()) - self._idle, size / MIB, cpu / rows * 1e6


def main() -> None:
    """Fill, export, compare."""
    parser = command(__package__, __doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--longer", type=int, default=0, help="random characters that each message has besides")
    arguments = parser.parse_args()
    print_machine(*_PACKAGES)
    with tempfile.TemporaryDirectory(prefix="sluice-warehouse-") as directory:
        asyncio.run(_measure(Path(directory), arguments.rows, arguments.longer))


async def _measure(directory: Path, count: int, longer: int) -> None:
    url = f"sqlite:///{directory / 'sluice.db'}"
    migrate(url)
    async with opened(url) as database, tables(directory / "chdb") as clickhouse:
        tenant = await new_tenant(database, "acme")
        block = min(BLOCK, BLOCK_BYTES // (1_000 + longer))
        for first in range(0, count, block):
            rows = min(block, count - first)
            parameters = {"project": tenant.project.id, "batch": first, "count": rows, "more": longer}
            await clickhouse.command(_FILL, parameters, stores_rows=True)
        await asyncio.sleep(1)
        columns = {"export": "", "rows/s": ",.0f", "MiB above idle": ".0f", "MiB written": ".0f", "CPU us a row": ".1f"}
        table = Table(columns, compared="CPU us a row")
        exporting = _Exporting(directory, database, clickhouse, tenant)
        by_sink = await exporting.measured()
        table.row("by hand, all at once", *await _by_hand(f"chdb://{directory / 'chdb'}"))
        table.row("a sink", *by_sink)
        await beside.fill(clickhouse)
        await beside.measure(directory / "chdb", exporting.export)


class _Exporting:
    """A deployment without its services, in which sinks export."""

    def __init__(self, directory: Path, database: Database, clickhouse: ClickHouse, tenant: Any) -> None:
        ring = KeyFile(directory / "sealing.keys")
        ring.generate()
        self._box, self._store = SecretBox(ring), _Memory()
        self._database, self._tenant = database, tenant
        self._exporter = Exporter(
            database,
            self._box,
            {Stream.ERROR_ESSENCES: OrderedStream.errors(clickhouse)},
            lambda _sink: Destination("", self._store, None),
            WarehouseMetrics(None),
        )

    async def measured(self) -> tuple[float, ...]:
        """The figures of an export."""
        spent = _Spent()
        rows = await self.export()
        return spent.figures(rows, sum(self._store.sizes.values()))

    async def export(self) -> int:
        """Export everything by a new sink; returns the rows."""
        config = BlobstoreConfig(bucket="b", region="r", access_key_id="a", secret_access_key="s")  # noqa: S106 (none)
        async with self._database.write() as connection:
            sink = await store.create(
                connection,
                self._box,
                org_id=self._tenant.organization.id,
                name=f"Lake {time.monotonic_ns()}",
                kind=SinkKind.BLOBSTORE,
                streams=[Stream.ERROR_ESSENCES],
                config=config,
                created_by=self._tenant.owner_id,
                now=to_milliseconds(datetime.now(UTC)),
            )
        _, (ended,) = await self._exporter.export(sink.org_id, sink.id, 10_000)
        if ended.run.error:
            raise SystemExit(ended.run.error)
        return ended.run.rows


async def _by_hand(url: str) -> tuple[float, ...]:
    columns = (
        "concat(lower(hex(batch_id)), '-', toString(row)) AS row_id, project_id, time, stored_time,"
        " lower(hex(fingerprint)) AS fingerprint, type, message, source, lower(hex(trace_id)) AS trace_id,"
        " lower(hex(span_id)) AS span_id, service_name, environment, release"
    )

    def export(client: Any) -> tuple[int, int]:
        table = client.query_arrow(f"SELECT {columns} FROM error_occurrences ORDER BY stored_time, batch_id, row")
        file = io.BytesIO()
        pq.write_table(table, file, compression="zstd")
        return len(table), len(file.getvalue())

    spent = _Spent()
    rows, size = await asyncio.to_thread(export, open_client(parse_url(url), 120.0, None))
    return spent.figures(rows, size)


if __name__ == "__main__":
    main()
