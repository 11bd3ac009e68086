"""What clients send, record by record: every span and log carries (run, client, sequence) and a sum over them.

An `Export` is a request and what became of each of its attempts; a list of them is all that a comparison with the
stored rows needs.
"""

import gzip
import json
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

Signal = Literal["traces", "logs"]
Form = Literal["protobuf", "gzip", "json"]

RUN: Final = "faults.run"
CLIENT: Final = "faults.client"
SEQUENCE: Final = "faults.sequence"
SUM: Final = "faults.sum"
CONTENT_TYPES: Final = {
    "protobuf": "application/x-protobuf",
    "gzip": "application/x-protobuf",
    "json": "application/json",
}
# Attempts that cannot have brought the records in, and say so. Any other may have, whatever its answer.
REFUSED: Final = "refused connection"


def checksum(run: str, client: int, sequence: int) -> int:
    """What a row must carry besides; `CRC32` in ClickHouse."""
    return zlib.crc32(f"{run}/{client}/{sequence}".encode())


@dataclass
class Export:
    """Records `first` to `first + count - 1` of a client in one request, sent until it is answered for good.

    `answers` has a status, or how it failed, for each attempt so far. The last record is one that must be rejected
    where `spoiled`.
    """

    client: int
    first: int
    count: int
    signal: Signal = "traces"
    form: Form = "protobuf"
    spoiled: bool = False
    answers: list[str] = field(default_factory=list)
    wrong: str = ""  # what was wrong with an answer
    sent_ns: int = 0  # when it was first sent
    acknowledged_ns: int = 0  # when its 200 was read; 0: it was not

    @property
    def acknowledged(self) -> bool:
        return "200" in self.answers

    @property
    def sendings(self) -> int:
        """How often it may have come in."""
        return sum(answer != REFUSED for answer in self.answers)

    @property
    def good(self) -> range:
        """Sequences that are to be stored."""
        return range(self.first, self.first + self.count - self.spoiled)

    @property
    def bad(self) -> range:
        """Sequences that are to be rejected."""
        return range(self.good.stop, self.first + self.count)


class Body(NamedTuple):
    """An export request as it is sent."""

    path: str
    headers: dict[str, str]
    content: bytes


def body_of(export: Export, run: str, *, start_ns: int | None = None) -> Body:
    """The request of an export. Its items begin at `start_ns`, by default now."""
    now = time.time_ns() if start_ns is None else start_ns
    headers = {"Content-Type": CONTENT_TYPES[export.form]}
    if export.form == "json":
        return Body(f"/v1/{export.signal}", headers, _json(export, run, now))
    content = (_traces if export.signal == "traces" else _logs)(export, run, now).SerializeToString()
    if export.form == "gzip":
        headers["Content-Encoding"] = "gzip"
        content = gzip.compress(content, 1)
    return Body(f"/v1/{export.signal}", headers, content)


def rejected_of(export: Export, answer: bytes) -> int:
    """The items that a 200 says were rejected."""
    if export.form == "json":
        partial = json.loads(answer).get("partialSuccess", {})
        return int(partial.get("rejectedSpans", 0)) + int(partial.get("rejectedLogRecords", 0))
    if export.signal == "traces":
        return int(ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans)
    return int(ExportLogsServiceResponse.FromString(answer).partial_success.rejected_log_records)


def _attributes(export: Export, run: str, sequence: int) -> list[tuple[str, str | int]]:
    return [
        (RUN, run),
        (CLIENT, export.client),
        (SEQUENCE, sequence),
        (SUM, checksum(run, export.client, sequence)),
    ]


def _key_values(attributes: Sequence[tuple[str, str | int]]) -> list[KeyValue]:
    return [
        KeyValue(key=key, value=AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value))
        for key, value in attributes
    ]


def _ids(export: Export, sequence: int) -> tuple[bytes, bytes]:
    """A trace of its own for each record: client and sequence. All zero, which is invalid, for one to be rejected."""
    if sequence in export.bad:
        return bytes(16), bytes(8)
    own = (export.client + 1) << 40 | sequence + 1
    return own.to_bytes(16, "big"), own.to_bytes(8, "big")


def _traces(export: Export, run: str, now: int) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend(_key_values([("service.name", f"client-{export.client}")]))
    spans = resource.scope_spans.add().spans
    for sequence in (*export.good, *export.bad):
        trace_id, span_id = _ids(export, sequence)
        spans.add(
            trace_id=trace_id,
            span_id=span_id,
            name="sent",
            start_time_unix_nano=now,
            end_time_unix_nano=now + 10**6,
            attributes=_key_values(_attributes(export, run, sequence)),
        )
    return request


def _logs(export: Export, run: str, now: int) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    resource.resource.attributes.extend(_key_values([("service.name", f"client-{export.client}")]))
    records = resource.scope_logs.add().log_records
    for sequence in export.good:
        records.add(
            time_unix_nano=now,
            trace_id=_ids(export, sequence)[0],
            body=AnyValue(string_value="sent"),
            attributes=_key_values(_attributes(export, run, sequence)),
        )
    return request


def _json(export: Export, run: str, now: int) -> bytes:
    items = [_json_item(export, run, sequence, now) for sequence in (*export.good, *export.bad)]
    if export.signal == "traces":
        return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": items}]}]}).encode()
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": items}]}]}).encode()


def _json_item(export: Export, run: str, sequence: int, now: int) -> dict[str, Any]:
    trace_id, span_id = _ids(export, sequence)
    attributes = [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in _attributes(export, run, sequence)
    ]
    item = {"traceId": trace_id.hex(), "attributes": attributes}
    if export.signal == "logs":
        return {**item, "timeUnixNano": str(now), "body": {"stringValue": "sent"}}
    ends = {"startTimeUnixNano": str(now), "endTimeUnixNano": str(now + 10**6)}
    return {**item, **ends, "spanId": span_id.hex(), "name": "sent"}
