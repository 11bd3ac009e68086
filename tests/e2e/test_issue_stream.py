"""A stream of errors of known bugs becomes about as many issues on the real product."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.e2e.conftest import Deploy
from tests.e2e.product import Sluice, eventually
from tests.proto.grouping.stream import Occurrence, occurrences
from tests.proto.grouping.stream.bugs import bugs

ERRORS = 100_000
EXPORT = 1_000
SEVERITY_ERROR = 17


@pytest.mark.long
@pytest.mark.parametrize("deploy", ["embedded-sqlite"], indirect=True)
def test_each_known_bug_is_one_issue(deploy: Deploy, tmp_path: Path) -> None:
    sluice = deploy(tmp_path)
    try:
        for body in exports(ERRORS):
            assert sluice.export("logs", body).status == 200
        eventually(lambda: sum(counts(sluice)) == ERRORS, f"{ERRORS} occurrences in issues", 120)
        assert len(bugs()) <= len(counts(sluice)) <= len(bugs()) + 10
        sluice.stop()
    finally:
        sluice.kill()


def exports(count: int) -> Iterator[bytes]:
    """The stream as log records, in requests of a thousand."""
    stream = occurrences(count)
    while batch := list(itertools.islice(stream, EXPORT)):
        request = ExportLogsServiceRequest()
        for occurrence in batch:
            add(request, occurrence)
        yield request.SerializeToString()


def add(request: ExportLogsServiceRequest, occurrence: Occurrence) -> None:
    """A log record of a resource of its own, as one service's SDK would send it."""
    resource = request.resource_logs.add()
    named = resource.resource.attributes
    named.add(key="service.name").value.string_value = occurrence.service
    named.add(key="service.version").value.string_value = occurrence.release
    record = resource.scope_logs.add().log_records.add(time_unix_nano=time.time_ns(), severity_number=SEVERITY_ERROR)
    kind, message, stacktrace = occurrence.error
    record.attributes.add(key="exception.type").value.string_value = kind
    record.attributes.add(key="exception.message").value.string_value = message
    record.attributes.add(key="exception.stacktrace").value.string_value = stacktrace


def counts(sluice: Sluice) -> list[int]:
    """How many occurrences each issue counts."""
    found: list[int] = []
    path = f"/orgs/{sluice.org}/projects/{sluice.project}/issues?limit=100"
    cursor = ""
    while True:
        answer = sluice.get(path + cursor)
        assert answer.status == 200, answer
        page = answer.json()
        found += (issue["count"] for issue in page["data"])
        if not page["nextCursor"]:
            return found
        cursor = f"&cursor={page['nextCursor']}"
