"""The statements that filters make, on the engine itself: it takes every one of them.

The tables are empty. A regular expression may be refused, and then the probe that a request begins with says so first.
"""

import asyncio
import atexit
import re
import shutil
import tempfile
from pathlib import Path

from chassis import schema
from chassis.clickhouse import ClickHouse, QueryLimits, StoreRejected
from query.fields import LOGS, SPANS
from query.sql import Query, pattern_probe
from tests.fuzz.targets.filters import check_statement, decoded, statement

_BAD_PATTERN = 427  # CANNOT_COMPILE_REGEXP
_LIMITS = QueryLimits(max_seconds=5)
_MATCH = re.compile(r"match\([^()]*(?:\([^()]*\)[^()]*)*\{(p[0-9]+):String\}\)")


def check(data: bytes) -> None:
    engine = _Engine.started()
    for signal in (SPANS, LOGS):
        query = statement(decoded(data), signal)
        if query is not None:
            check_statement(query)
            engine.check(query)


class _Engine:
    """One engine for the process."""

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
        await schema.migrate(self._store, retention_days=30)
        await self._store.start()

    def check(self, query: Query) -> None:
        for name in _MATCH.findall(query.sql):
            if not self._takes(pattern_probe(str(query.parameters[name]))):
                return
        assert self._takes(query) or _MATCH.search(query.sql)

    def _takes(self, query: Query) -> bool:
        try:
            self._loop.run_until_complete(self._store.query(query.sql, query.parameters, limits=_LIMITS))
        except StoreRejected as error:
            if error.code == _BAD_PATTERN:
                return False
            raise
        return True
