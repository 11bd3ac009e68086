"""The statements that filters make, on the engine itself: it takes every one of them.

The tables are empty. A regular expression may be refused, and then the probe that a request begins with says so first.
"""

import asyncio
import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chassis.clickhouse import ClickHouse, QueryLimits, StoreRejected, migrations
from query.rows import LOGS, SPANS
from query.sql import Query, regex_probe
from tests.fuzz.targets.filters import decoded, statement

_BAD_PATTERN = 427  # CANNOT_COMPILE_REGEXP
_LIMITS = QueryLimits(max_seconds=5)
_MATCH = re.compile(r"match\([^()]*(?:\([^()]*\)[^()]*)*\{(p[0-9]+):String\}\)")


def check(data: bytes) -> None:
    engine = _Engine.started()
    for query in queries(data):
        engine.check(query)


def queries(data: bytes) -> Iterator[Query]:
    """What an input asks of the engine, for each signal."""
    for signal in (SPANS, LOGS):
        query = statement(decoded(data), signal)
        if query is not None:
            yield query


async def check_query(store: ClickHouse, query: Query) -> None:
    """The engine takes it, after the probes of its patterns."""
    for name in _MATCH.findall(query.sql):
        if not await _takes(store, regex_probe(str(query.parameters[name]))):
            return
    assert await _takes(store, query) or _MATCH.search(query.sql)


async def _takes(store: ClickHouse, query: Query) -> bool:
    try:
        await store.query(query.sql, query.parameters, limits=_LIMITS)
    except StoreRejected as error:
        if error.code == _BAD_PATTERN:
            return False
        raise
    return True


class _Engine:
    """The embedded engine: one for the process."""

    _only: "_Engine | None" = None

    def __init__(self) -> None:
        directory = tempfile.mkdtemp(prefix="sluice-fuzz-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        self._loop = asyncio.new_event_loop()
        self._store = ClickHouse(f"chdb://{Path(directory).resolve()}/chdb")
        self._loop.run_until_complete(self._start())

    @classmethod
    def started(cls) -> "_Engine":
        cls._only = cls._only or cls()
        return cls._only

    async def _start(self) -> None:
        await migrations.migrate(self._store, retention_days=30)
        await self._store.start()

    def check(self, query: Query) -> None:
        self._loop.run_until_complete(check_query(self._store, query))
