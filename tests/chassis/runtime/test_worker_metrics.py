"""What several processes behind one port say at /metrics: the metrics of all, whoever is asked."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from chassis.runtime import health
from chassis.runtime.health import WorkerMetrics, bind_worker_socket, merge_expositions


@cache
def exposition(number: int) -> bytes:
    registry = CollectorRegistry()
    Counter("hits", 'What "hits".\nTwo lines.', registry=registry).inc(number)
    labelled = Counter("shots", "Shots.", ("kind",), registry=registry)
    labelled.labels('a "quoted" {kind}').inc(number)
    Histogram("seconds", "Time.", buckets=(1, 2), registry=registry).observe(number)
    return generate_latest(registry)


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = {}
    families = list(text_string_to_metric_families(text.decode()))
    assert len({family.name for family in families}) == len(families)  # each is told of once
    for family in families:
        assert (family.documentation, family.type) != ("", "unknown")
        found.update({(sample.name, frozenset(sample.labels.items())): sample.value for sample in family.samples})
    return found


def test_merged_expositions_are_those_of_each_with_its_number() -> None:
    expected = {
        (name, labels | {("worker", str(number))}): value
        for number in (0, 1, 11)
        for (name, labels), value in samples(exposition(number)).items()
    }
    up = {("sluice_worker_up", frozenset({("worker", str(number))})): 1.0 for number in (0, 1, 11)}
    assert samples(merge_expositions({number: exposition(number) for number in (0, 1, 11)})) == expected | up


@pytest.fixture
async def three() -> AsyncIterator[list[WorkerMetrics]]:
    """Three of one port; none answers yet."""
    listeners = [bind_worker_socket() for _ in range(3)]
    names = [listener.getsockname() for listener in listeners]
    yield [WorkerMetrics(number, listener, names) for number, listener in enumerate(listeners)]
    for listener in listeners:
        listener.close()


@asynccontextmanager
async def answering(sibling: WorkerMetrics, tell: Callable[[], bytes]) -> AsyncIterator[None]:
    async for _ in sibling.serve(tell, web.Application()):
        yield


async def test_whoever_is_asked_answers_for_all(three: list[WorkerMetrics]) -> None:
    async with AsyncExitStack() as stack:
        for number, sibling in enumerate(three):
            await stack.enter_async_context(answering(sibling, partial(exposition, number)))
        answers = [await sibling.collect(exposition(number)) for number, sibling in enumerate(three)]
    assert answers == [merge_expositions({number: exposition(number) for number in range(3)})] * 3


async def test_one_that_does_not_answer_is_away_and_holds_nobody_up(
    three: list[WorkerMetrics], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "RESPONSE_TIMEOUT_S", 0.05)
    async with answering(three[1], lambda: exposition(1)):
        text = await three[0].collect(exposition(0))
    assert text == merge_expositions({0: exposition(0), 1: exposition(1), 2: b""})
    assert samples(text)["sluice_worker_up", frozenset({("worker", "2")})] == 0


async def test_an_answer_that_is_cut_off_or_endless_is_none(
    three: list[WorkerMetrics], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "MAX_EXPOSITION", 10_000)
    async with answering(three[1], lambda: exposition(1)[:-5]), answering(three[2], lambda: b"x 1\n" * 10_000):
        assert await three[0].collect(exposition(0)) == merge_expositions({0: exposition(0), 1: b"", 2: b""})


async def test_a_process_of_another_user_is_told_nothing_and_not_believed(
    three: list[WorkerMetrics], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with answering(three[1], lambda: exposition(1)):
        real = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: real + 1)
        assert await told(three[1]) == b""
        assert await three[0].collect(exposition(0)) == merge_expositions({0: exposition(0), 1: b"", 2: b""})
        monkeypatch.undo()
        assert await told(three[1]) == exposition(1)


async def told(sibling: WorkerMetrics) -> bytes:
    """What a socket reads that connects to it and asks for metrics."""
    assert sibling._listener is not None
    reader, writer = await asyncio.open_unix_connection(sock=connected(sibling._listener))
    try:
        writer.write(health.METRICS)
        return await reader.read()
    except ConnectionError:  # closed without having read it
        return b""
    finally:
        writer.close()


def connected(listener: socket.socket) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(listener.getsockname())
    return connection
