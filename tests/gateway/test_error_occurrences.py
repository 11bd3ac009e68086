"""Fingerprints of minified JavaScript are those of its sources, where a source map of the release is known."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest
from prometheus_client import CollectorRegistry, Counter
from structlog.testing import capture_logs

from chassis.db.database import Database
from chassis.source_maps.resolver import ProjectResolver, SourceMaps
from control.code.source_maps import store
from control.code.source_maps.parser_process import read_upload
from control.code.source_maps.store import NewSourceMap
from gateway.inserts import blocks
from gateway.inserts.blocks import occurrence_blocks
from gateway.repair.days import ExceptionSource, occurrence_rows
from proto.grouping.fingerprint import fingerprint
from proto.otlp.codec import decode_json
from proto.otlp.policy import DecodedPayload, Policy
from tests.chassis.auth.tenants import Tenant, new_tenant
from tests.control.code.source_maps.uploaded import MINIFIED, RELEASE, SHOWN, document

OTHER_BUILD: Final = "TypeError: no\n    at x (https://shop.example/b.js:1:24)\n    at https://shop.example/b.js:1:5"
RESOLVED: Final = fingerprint("TypeError", "no", SHOWN)
SENT: Final = fingerprint("TypeError", "no", MINIFIED)
SOURCE: Final = ExceptionSource(1, 0, b"t" * 16, b"s" * 8, "web", "", RELEASE, 7, 0, "TypeError", "no", MINIFIED)


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[Database]:
    database = Database(migrated_url)
    await database.start()
    yield database
    await database.close()


@pytest.fixture
async def acme(database: Database) -> Tenant:
    return await new_tenant(database, "acme")


async def stored_maps(database: Database, acme: Tenant, maps: list[tuple[str, str, dict[str, Any]]]) -> SourceMaps:
    """The maps of these releases and paths, known to the gateway."""
    for release, path, sent in maps:
        content, debug_id, _ = msgspec.msgpack.decode(read_upload(json.dumps(sent).encode()))
        owner = acme.organization.id, acme.project.id, acme.owner_id
        new = NewSourceMap(*owner, release, path, debug_id, b"d" * 32, content, datetime.now(UTC))
        async with database.write() as connection:
            await store.store(connection, new, 0)
    found = SourceMaps(database)
    await found.refresh()
    return found


def raising(project_id: int, release: str, *stacktraces: str) -> DecodedPayload:
    """A span of the release with an exception for each stack trace."""

    def pair(key: str, value: str) -> dict[str, Any]:
        return {"key": key, "value": {"stringValue": value}}

    at = str(time.time_ns())
    said = [pair("exception.type", "TypeError"), pair("exception.message", "no")]
    events = [
        {"name": "exception", "timeUnixNano": at, "attributes": [*said, pair("exception.stacktrace", one)]}
        for one in stacktraces
    ]
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "x", "startTimeUnixNano": at, "endTimeUnixNano": at}
    resource = {"attributes": [pair("service.name", "web"), pair("service.version", release)]}
    sent = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span | {"events": events}]}]}]}
    return decode_json("traces", json.dumps(sent).encode(), project_id, Policy(), time.time_ns())


async def counted(decoded: list[DecodedPayload], maps: SourceMaps | None) -> list[int]:
    """How many rows have the fingerprint of the sources, and that of the minified frames."""
    (block,) = await asyncio.to_thread(occurrence_blocks, decoded, 1, maps)
    written = b"".join(block.pieces)
    assert written.count(b"shop.example") == 2 * block.rows, "stack traces are stored as they were sent"
    return [written.count(one) for one in (RESOLVED, SENT)]


@pytest.mark.both_stores
async def test_two_builds_of_one_error_have_one_fingerprint(database: Database, acme: Tenant) -> None:
    """Names, columns and the file are others in each build."""
    other = document(mappings="AAAA,YAASA,UAUT", x_minified_functions={"x": [0, 12]})
    project_id = acme.project.id
    requests = [raising(project_id, RELEASE, MINIFIED, MINIFIED), raising(project_id, "web@1.5.0", OTHER_BUILD)]
    assert await counted(requests, None) == [0, 2]
    maps = await stored_maps(database, acme, [(RELEASE, "/a.js", document()), ("web@1.5.0", "/b.js", other)])
    assert await counted(requests, maps) == [3, 0]
    assert await counted([*requests, raising(project_id, "web@1.3.0", MINIFIED)], maps) == [3, 1]
    assert await counted([raising(project_id + 1, RELEASE, MINIFIED)], maps) == [0, 1]


async def test_a_storm_of_one_error_has_one_fingerprint(database: Database, acme: Tenant) -> None:
    """However late it is, and whatever the database does: the frames are in memory after the first batch."""
    await stored_maps(database, acme, [(RELEASE, "/a.js", document())])
    seconds, step = [0.0], [0.0]

    def clock() -> float:
        seconds[0] += step[0]
        return seconds[0]

    maps = SourceMaps(database, clock=clock)
    await maps.refresh()
    assert await counted([raising(acme.project.id, RELEASE, MINIFIED)], maps) == [1, 0]
    await database.close()
    step[0] = 10.0
    traces = [MINIFIED.replace("no\n", f"no {number}\n") for number in range(100)]
    assert await counted([raising(acme.project.id, RELEASE, *traces)], maps) == [100, 0]


async def test_a_repair_computes_the_same_fingerprints(database: Database, acme: Tenant) -> None:
    maps = await stored_maps(database, acme, [(RELEASE, "/a.js", document())])
    source = SOURCE._replace(project_id=acme.project.id)
    rows = [source, source._replace(release="web@1.3.0"), source._replace(project_id=acme.project.id + 1)]
    found = await asyncio.to_thread(list, occurrence_rows("logs", rows, maps))
    assert [row[2] for row in found] == [RESOLVED, SENT, SENT]


@pytest.mark.parametrize("raised", [MemoryError, RecursionError, ValueError])
def test_an_exception_whose_fingerprint_fails_is_stored_by_type_and_message(
    monkeypatch: pytest.MonkeyPatch, raised: type[Exception]
) -> None:
    """An acknowledged batch that cannot be built would be built again for ever."""

    def fail(kind: str, message: str, stacktrace: str) -> bytes:
        if stacktrace or (message and raised is ValueError):
            raise raised
        return fingerprint(kind, message, stacktrace)

    monkeypatch.setattr(blocks, "fingerprint", fail)
    failures = Counter("failures", "Of this test.", registry=CollectorRegistry())
    expected = 4 if raised is ValueError else 3
    with capture_logs() as lines:
        (block,) = occurrence_blocks([raising(1, RELEASE, *[MINIFIED] * 3, "")], 1, None, failures)
    assert (failures._value.get(), [line["log_level"] for line in lines]) == (expected, ["error"])
    known = fingerprint("TypeError", "" if raised is ValueError else "no", "")
    assert (block.rows, b"".join(block.pieces).count(known)) == (4, 4)
    assert [row[2] for row in occurrence_rows("logs", [SOURCE])] == [known]


async def test_a_stack_trace_that_cannot_be_resolved_does_not_stop_its_batch(
    database: Database, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: object, _release: str, _stacktrace: str) -> str:
        raise MemoryError

    monkeypatch.setattr(ProjectResolver, "resolve", fail)
    maps = await stored_maps(database, acme, [(RELEASE, "/a.js", document())])
    (block,) = occurrence_blocks([raising(acme.project.id, RELEASE, MINIFIED)], 1, maps)
    assert b"".join(block.pieces).count(fingerprint("TypeError", "no", "")) == 1
