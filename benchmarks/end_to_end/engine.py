"""The engine by itself, in a process of its own: tables, inserts of blocks, and counts of rows.

Blocks are those that the gateway makes of the same requests, in files. They are inserted one after the other, with the
settings that the gateway sends with an insert. CPU is read from outside.
"""

import asyncio
import time
from collections.abc import Iterator
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from chdb.state.sqlitelike import Connection, connect

from benchmarks.gateway.bodies import Kind, bodies
from benchmarks.stores import tables
from chassis.clickhouse.client import INSERT_SETTINGS, INSERT_SETTINGS_IF_KNOWN
from chassis.runtime.settings import ChassisSettings
from gateway.inserts.blocks import build_insert_blocks, new_batch_id
from gateway.inserts.pending_requests import PendingRequest, redecode
from gateway.settings import GatewaySettings
from proto.otlp.responses import Media
from proto.storage.tables import TABLES

_COLUMNS: Final = {table.name: ", ".join(table.column_names) for table in TABLES}
_PROJECT: Final = 1
_ENCODINGS: Final = {"protobuf gzip": "gzip"}
_SETTINGS: Final = {**INSERT_SETTINGS, **INSERT_SETTINGS_IF_KNOWN}


def make_tables(directory: Path) -> None:
    """The empty tables."""
    asyncio.run(_make_tables(directory))
    _connected(directory)


def insert(directory: Path, folder: Path) -> int:
    """All blocks of a folder; their rows. Raises what the engine says."""
    rows = 0
    for path in sorted(folder.iterdir()):
        _, token, table = path.name.split(".")
        settings = ", ".join(
            f"{name} = '{value}'" for name, value in {**_SETTINGS, "insert_deduplication_token": token}.items()
        )
        statement = f"INSERT INTO {table} ({_COLUMNS[table]}) FROM INFILE '{path}' SETTINGS {settings} FORMAT Native"
        rows += _connected(directory).query(statement, "TabSeparated").rows_read()
    return rows


def count(directory: Path, table: str) -> int:
    """Rows of a table."""
    return int(_connected(directory).query(f"SELECT count() FROM {table}", "TabSeparated").bytes())


@cache
def _connected(directory: Path) -> Connection:
    return connect(str(directory))


async def _make_tables(directory: Path) -> None:
    async with tables(directory, ChassisSettings().retention_days):
        pass


def write_blocks(directory: Path, kind: Kind, requests: int, batches: int) -> int:
    """The blocks of so many requests in so many batches of about the same size, as files `NUMBER.TOKEN.TABLE` in the
    order of their inserts. Gives their bytes.
    """
    directory.mkdir()
    sending, nbytes, number = _requests(kind), 0, 0
    for batch in range(batches):
        size = requests * (batch + 1) // batches - requests * batch // batches
        for sealed in build_insert_blocks(list(islice(sending, size)), new_batch_id(), time.time_ns() // 10**6):
            path = directory / f"{number:06}.{sealed.token.replace(':', '-')}.{sealed.block.table}"
            path.write_bytes(b"".join(sealed.block.pieces))
            nbytes += sealed.nbytes
            number += 1
    return nbytes


def _requests(kind: Kind) -> Iterator[PendingRequest]:
    """The requests in turn, without an end, each decoded when it comes."""
    policy = GatewaySettings().policy(ChassisSettings().retention_days)
    media: Media = "json" if kind.encoding == "JSON" else "protobuf"
    encoding = _ENCODINGS.get(kind.encoding, "identity")
    for body in cycle(bodies(kind)):
        received_ns = time.time_ns()
        decoded = redecode(kind.signal, media, encoding, body, _PROJECT, policy, received_ns)
        yield PendingRequest(0, decoded, decoded.accepted, len(body), received_ns)
