"""Error occurrences stored as the gateway stores them, one by one."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from chassis.clickhouse import ClickHouse
from proto.grouping.fingerprint import FINGERPRINT_VERSION
from proto.otlp.native import write_block
from proto.otlp.policy import NANOS_PER_DAY
from proto.storage.tables import ERROR_OCCURRENCES
from query.error_groups.occurrences import OccurrenceKey, occurrence_id
from query.values import format_timestamp
from tests.query.conftest import NOW, PROJECT, SECOND, span_id, trace_id

Row = tuple[Any, ...]


def fingerprint(number: int) -> str:
    return f"{number:032x}"


@dataclass(frozen=True)
class Raised:
    """An occurrence; `error` is its fingerprint as a number."""

    error: int = 1
    at: int = NOW - 60 * SECOND
    type: str = "ValueError"
    message: str = "broken"
    stacktrace: str = ""
    source: str = "span"
    trace: int = 0
    span: int = 0
    service: str = ""
    environment: str = "unknown"
    release: str = ""
    batch: int = 0
    row: int = 0

    @property
    def id(self) -> str:
        return occurrence_id(OccurrenceKey(self.at, self.batch, self.row))

    @property
    def order(self) -> tuple[int, ...]:
        return self.at, self.trace, self.span, self.batch, self.row

    @property
    def shown(self) -> dict[str, Any]:
        """As lists of occurrences show it."""
        return {
            "id": self.id,
            "fingerprint": fingerprint(self.error),
            "time": format_timestamp(self.at),
            "type": self.type or None,
            "message": self.message or None,
            "source": self.source,
            "traceId": f"{self.trace:032x}" if self.trace else None,
            "spanId": f"{self.span:016x}" if self.span else None,
            "serviceName": self.service or None,
            "environment": self.environment,
            "release": self.release or None,
        }

    def stored(self, project: int) -> Row:
        return (
            project,
            self.at,
            bytes.fromhex(fingerprint(self.error)),
            *(self.type, self.message, self.stacktrace, self.source),
            *(trace_id(self.trace), span_id(self.span)),
            *(self.service, self.environment, self.release),
            *(self.batch, self.row, FINGERPRINT_VERSION),
        )


class Occurrences:
    """Stores occurrences; each call is a batch."""

    def __init__(self, clickhouse: ClickHouse) -> None:
        self._clickhouse = clickhouse
        self._batches: Iterator[int] = itertools.count(2**62)

    async def store(self, *raised: Raised, project: int = PROJECT) -> list[Raised]:
        """They, with the places they were given."""
        batch = next(self._batches)
        placed = [Raised(**{**vars(each), "batch": batch, "row": n}) for n, each in enumerate(raised)]
        days: dict[int, list[Row]] = {}
        for each in placed:
            days.setdefault(each.at // NANOS_PER_DAY, []).append(each.stored(project))
        for day, rows in days.items():
            await self._clickhouse.insert(
                ERROR_OCCURRENCES.name,
                ERROR_OCCURRENCES.column_names,
                write_block(ERROR_OCCURRENCES, rows),
                token=f"{batch}:{ERROR_OCCURRENCES.name}:{day}",
            )
        return placed


@pytest.fixture
def occurrences(clickhouse: ClickHouse) -> Occurrences:
    return Occurrences(clickhouse)
