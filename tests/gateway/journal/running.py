"""A journal on the event loop, opened and closed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from gateway.journal import (
    Journal,
    JournaledRequest,
    JournalLimits,
    JournalMetrics,
    RecoveredState,
)
from gateway.journal.storage.files import Files
from proto.otlp.policy import Policy

DEADLINE_S = 20.0
POLICY = Policy()
LIMITS = JournalLimits(segment_bytes=2**20, max_bytes=0, min_free_bytes=0, hold_s=0, quarantine_days=30)


def request(body: bytes, project_id: int = 1, *, slow: bool = False) -> JournaledRequest:
    return JournaledRequest(project_id, "traces", "protobuf", "gzip", 1_763_700_000 * 10**9, 3, POLICY, body, slow)


def journal_at(
    directory: Path,
    limits: JournalLimits = LIMITS,
    files: Files | None = None,
    registry: CollectorRegistry | None = None,
    *,
    is_orphan: bool = False,
) -> Journal:
    metrics = JournalMetrics(registry or CollectorRegistry())
    return Journal(directory, limits, metrics, structlog.get_logger(), files=files, is_orphan=is_orphan)


@asynccontextmanager
async def opened(journal: Journal) -> AsyncIterator[RecoveredState]:
    recovered = journal.open()
    journal.pause_retention(on=False)  # as its users do when they have checked what is held
    try:
        yield recovered
    finally:
        await journal.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)
