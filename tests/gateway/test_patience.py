"""What a sender is told when its request waited in vain: it has little time left to try again."""

import asyncio

import pytest

from chassis.clickhouse import StoreUnavailable
from tests.gateway.conftest import RecordingStore, StartGateway
from tests.gateway.otlp import span, traces


@pytest.fixture
def durability() -> str:
    """Requests are answered when they are stored."""
    return "store"


async def test_retry_after_at_the_deadline_is_within_the_deadline_of_exporters(
    start_gateway: StartGateway,
) -> None:
    gateway = await start_gateway(RecordingStore(away=StoreUnavailable("connection refused")), ack_deadline_s=0.3)
    answers = await asyncio.gather(*(gateway.post("/v1/traces", traces(span(n))) for n in range(1, 13)))
    assert [answer.status for answer in answers] == [503] * 12
    assert {answer.headers["Retry-After"] for answer in answers} == {"1"}
