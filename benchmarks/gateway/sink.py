"""A ClickHouse endpoint that counts the rows of inserts and keeps none: `python -m benchmarks.gateway.sink DIRECTORY`.

Everything else is answered by the real engine behind it (`tests.engine`), so that migrations and whatever a client asks
at its start work as they do with a server. Rows of an insert in Native format are those in the head of its block; a
body in RowBinary has no head and is inflated and searched for a key that every item has once.

    GET /arrived    {"rows": {"database.table": rows}, "bytes": ..., "inserts": ..., "idle_s": since the last insert}
"""

import asyncio
import json
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import uvloop
from aiohttp import web

from benchmarks.gateway.bodies import MARK
from tests.engine import compression
from tests.engine.embedded import Embedded
from tests.engine.server import MAX_BODY, Interface, User

_INSERT: Final = re.compile(
    r"\s*INSERT\s+INTO\s+(?:(\w+)\.)?(\w+)\s*\(([^)]*)\)\s*FORMAT\s+(Native|RowBinary)\s*$", re.IGNORECASE
)
_LINE: Final = 2**20  # of a head: settings and column names travel in the URL
_HEAD: Final = 20  # bytes that hold both numbers at the start of a block


class Sink(Interface):
    """ClickHouse's HTTP interface, with tables that forget."""

    def __init__(self, engine: Embedded) -> None:
        super().__init__(engine, {"default": User("")})
        self._rows: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._inserts: Counter[str] = Counter()
        self._last = time.monotonic()

    def application(self) -> web.Application:
        """The routes of the interface, and that of the counts."""
        app = super().application()
        app.router.add_get("/arrived", self.arrived)
        return app

    async def arrived(self, _request: web.Request) -> web.Response:
        """The counts since the start."""
        idle_s = time.monotonic() - self._last
        body = {"rows": self._rows, "bytes": self._bytes, "inserts": self._inserts, "idle_s": idle_s}
        return web.Response(text=json.dumps(body))

    async def ask(self, request: web.Request) -> web.Response:
        """Count an insert; leave anything else to the engine."""
        insert = _INSERT.match(request.query.get("query", ""))
        if insert is None:
            return await super().ask(request)
        database, table, columns, form = insert.groups()
        name = f"{database or request.query['database']}.{table}"
        count = _native if form.lower() == "native" else _row_binary
        rows, nbytes = await count(request, len(columns.split(",")))
        self._rows[name] += rows
        self._bytes[name] += nbytes
        self._inserts[name] += 1
        self._last = time.monotonic()
        return web.Response(headers={"X-ClickHouse-Summary": json.dumps({"written_rows": str(rows)})})


async def _native(request: web.Request, columns: int) -> tuple[int, int]:
    """Rows of the first block of a body, and the length of the whole."""
    head, nbytes = b"", 0
    async for piece in request.content.iter_any():
        if len(head) < _HEAD:
            head += piece
        nbytes += len(piece)
    width, at = _varint(head, 0)
    rows, _ = _varint(head, at)
    if width != columns:
        raise web.HTTPBadRequest(text=f"a block of {width} columns for {columns}")
    return rows, nbytes


async def _row_binary(request: web.Request, _columns: int) -> tuple[int, int]:
    body = await request.read()
    rows = compression.inflate_blocks(body) if request.query.get("decompress", "0") in ("1", "true") else body
    return rows.count(bytes((len(MARK),)) + MARK), len(body)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


async def _serve(engine: Embedded) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    sink = Sink(engine)
    runner = web.AppRunner(
        sink.application(),
        handle_signals=False,
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=600,
        max_line_size=_LINE,
        max_field_size=_LINE,
        read_bufsize=MAX_BODY,
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await stop.wait()
    await runner.cleanup()
    sink.close()


def main() -> None:
    """Serve on a free port, which is the line on standard output, until SIGTERM."""
    engine = Embedded(Path(sys.argv[1]))
    try:
        uvloop.run(_serve(engine))
    finally:
        engine.close()


if __name__ == "__main__":
    main()
