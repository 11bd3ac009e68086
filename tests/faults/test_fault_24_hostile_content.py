"""Fault 24: what a sender can get wrong, by mistake or on purpose. Each item has its outcome; never a 5xx."""

import gzip
import json
import random
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from proto.otlp.protobuf_writer import bytes_field, varint
from tests.e2e.product import Answer
from tests.faults.conftest import MakeGateway
from tests.faults.deployment import Gateway, Site
from tests.faults.hostile import JSON, MIB, PROTOBUF, memory_below, post
from tests.faults.loading import loaded, more
from tests.faults.records import Export, rejected_of
from tests.fuzz.protobuf import mutate_message
from tests.gateway.otlp import span, text, traces

NOW_NS: Final = time.time_ns()
DAY_NS: Final = 86_400 * 10**9
MOST: Final = 400 * MIB
MUTATIONS: Final = 200


class Sent(NamedTuple):
    """One request, its status, and of a 200 how many items it says were rejected."""

    content: bytes
    status: int
    rejected: int = 0
    media: str = PROTOBUF


def with_span(change: Callable[[Span], None]) -> bytes:
    """A good span, changed, and one that is left as it is."""
    changed = span(1, start_ns=NOW_NS)
    change(changed)
    return traces(changed, span(2, start_ns=NOW_NS))


def at(start_ns: int) -> Callable[[Span], None]:
    def change(one: Span) -> None:
        one.start_time_unix_nano, one.end_time_unix_nano = start_ns, start_ns + 1

    return change


def with_ids(trace_id: bytes, span_id: bytes) -> Callable[[Span], None]:
    def change(one: Span) -> None:
        one.trace_id, one.span_id = trace_id, span_id

    return change


def with_nested(depth: int) -> bytes:
    """A good span, and one with a value that is so many lists inside each other."""
    innermost = bytes_field(1, b"deep")
    heads, size = list[bytes](), len(innermost)
    for number in (1, 5) * depth:
        heads.append(varint(number << 3 | 2) + varint(size))
        size += len(heads[-1])
    value = b"".join(reversed(heads)) + innermost
    attribute = bytes_field(9, bytes_field(1, b"k") + bytes_field(2, value))
    one = bytes_field(2, span(3, start_ns=NOW_NS).SerializeToString() + attribute)
    return traces(span(1, start_ns=NOW_NS)) + bytes_field(1, bytes_field(2, one))


def invalid_utf8() -> bytes:
    return with_span(lambda one: one.attributes.append(text("k", "MARK"))).replace(b"MARK", b"\xff\xfe\xc0\x80")


def many_attributes(one: Span) -> None:
    one.attributes.extend(text(f"key-{n}", "x" * 100) for n in range(10_000))


def json_of(item: dict[str, Any]) -> bytes:
    good = {"traceId": "01" * 16, "spanId": "01" * 8, "name": "x", "startTimeUnixNano": str(NOW_NS)}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [good | item, good]}]}]}).encode()


def json_text(fragment: bytes) -> bytes:
    """A span with a member that `json.dumps` does not write."""
    return json_of({"MARK": 0}).replace(b'"MARK": 0', fragment)


PROTOBUFS: Final[dict[str, Sent]] = {
    "zero trace id": Sent(with_span(with_ids(bytes(16), b"x" * 8)), 200, 1),
    "zero span id": Sent(with_span(with_ids(b"x" * 16, bytes(8))), 200, 1),
    "short trace id": Sent(with_span(with_ids(b"abc", b"x" * 8)), 200, 1),
    "long span id": Sent(with_span(with_ids(b"x" * 16, b"x" * 4_000)), 200, 1),
    "in 1970": Sent(with_span(at(1)), 200, 1),
    "in 2200": Sent(with_span(at(7_258_118_400 * 10**9)), 200, 1),
    "at the end of time": Sent(with_span(at(2**64 - 2)), 200, 1),
    "no time": Sent(with_span(at(0)), 200, 1),
    "ends before it starts": Sent(with_span(lambda one: setattr(one, "end_time_unix_nano", 1)), 200),
    "ends at the end of time": Sent(with_span(lambda one: setattr(one, "end_time_unix_nano", 2**64 - 1)), 200),
    "invalid UTF-8": Sent(invalid_utf8(), 200),
    "10 000 attributes": Sent(with_span(many_attributes), 200),
    "a value of a megabyte": Sent(with_span(lambda one: one.attributes.append(text("k", "v" * MIB))), 200),
    "a key of a megabyte": Sent(with_span(lambda one: one.attributes.append(text("k" * MIB, "v"))), 200),
    "nul in names": Sent(with_span(lambda one: setattr(one, "name", "a\0b\n\t'\"\\")), 200),
    "a value 30 deep": Sent(with_nested(30), 200),
    "a value 1 000 deep": Sent(with_nested(1_000), 400),
    "a value 100 000 deep": Sent(with_nested(100_000), 400),
    "nothing": Sent(b"", 200),
    "text": Sent(b"this is no protobuf at all", 400),
    "cut off": Sent(traces(span(1))[:-3], 400),
    "a length beyond the end": Sent(b"\x0a\xff\xff\xff\xff\x0f", 400),
    "a number without an end": Sent(b"\x0a" + b"\xff" * 20, 400),
    "an end of a group": Sent(b"\x0c", 400),
    "field 0": Sent(b"\x02\x00", 400),
    "an unknown field": Sent(b"\xfa\x7f\x03abc" + traces(span(1, start_ns=NOW_NS)), 200),
}
JSONS: Final[dict[str, Sent]] = {
    "zero ids": Sent(json_of({"traceId": "0" * 32}), 200, 1, JSON),
    "base64 ids": Sent(json_of({"traceId": "W47/95gDgQPSabYzgT/GDA=="}), 200, 1, JSON),
    "ids of half a byte": Sent(json_of({"traceId": "abc"}), 200, 1, JSON),
    "not a number": Sent(json_text(b'"startTimeUnixNano": NaN'), 400, 0, JSON),
    "infinity": Sent(json_text(b'"droppedAttributesCount": 1e999'), 200, 1, JSON),
    "a number of 5 000 digits": Sent(json_text(b'"startTimeUnixNano": ' + b"9" * 5_000), 200, 1, JSON),
    "a time below zero": Sent(json_of({"startTimeUnixNano": "-1"}), 200, 1, JSON),
    "a name that is a list": Sent(json_of({"name": []}), 200, 1, JSON),
    "an unknown name of an enum": Sent(json_of({"kind": "SPAN_KIND_OTHER"}), 200, 1, JSON),
    "a name of an enum": Sent(json_of({"kind": "SPAN_KIND_SERVER"}), 200, 0, JSON),
    "bad base64": Sent(json_of({"attributes": [{"key": "k", "value": {"bytesValue": "!"}}]}), 200, 1, JSON),
    "no list of spans": Sent(b'{"resourceSpans": [{"scopeSpans": [{"spans": {}}]}]}', 400, 0, JSON),
    "half of a surrogate pair": Sent(json_text(b'"name": "\\ud800"'), 200, 0, JSON),
    "invalid UTF-8": Sent(json_text(b'"name": "\xff\xfe"'), 200, 0, JSON),
    "the same member twice": Sent(json_text(b'"name": "a", "name": "b"'), 200, 0, JSON),
    "unknown members": Sent(json_of({"later": {"more": [1, None, {"a": 2}]}}), 200, 0, JSON),
    "1 000 deep": Sent(b'{"a":' * 1_000 + b"1" + b"}" * 1_000, 400, 0, JSON),
    "100 000 brackets": Sent(b"[" * 100_000, 400, 0, JSON),
    "a list": Sent(b"[]", 400, 0, JSON),
    "null": Sent(b"null", 400, 0, JSON),
    "nothing": Sent(b"", 400, 0, JSON),
    "protobuf": Sent(traces(span(1)), 400, 0, JSON),
}


def rejected(sent: Sent, answer: Answer) -> int:
    form = "json" if sent.media == JSON else "protobuf"
    return rejected_of(Export(0, 0, 2, form=form), answer.body)  # type: ignore[arg-type]  # one of its forms


def test_fault_24_hostile_content(make_gateway: MakeGateway, site: Site, run: str) -> None:
    gateway = make_gateway(layered=False)
    gateway.start()
    with loaded(gateway, site, run) as load, memory_below(gateway, MOST):
        for name, sent in (*PROTOBUFS.items(), *((f"JSON: {name}", sent) for name, sent in JSONS.items())):
            answer = post(gateway, site, sent.content, {"Content-Type": sent.media})
            assert answer.status == sent.status, (name, answer)
            assert sent.status != 200 or rejected(sent, answer) == sent.rejected, (name, answer)
        mutated(gateway, site)
        more(load)
    assert gateway.metric("sluice_http_requests_total", status="500") == 0


def mutated(gateway: Gateway, site: Site) -> None:
    """Requests that were changed at random, with a seed, deep inside: each has an answer, and none is our fault."""
    message = ExportTraceServiceRequest.FromString(traces(*(span(n, start_ns=NOW_NS) for n in range(1, 20))))
    body, source = message.SerializeToString(), random.Random(24)
    for number in range(MUTATIONS):
        changed = mutate_message(body, "traces", 20_000, source, flipped(source))
        packed = gzip.compress(changed, 1) if number % 2 else changed
        headers = {"Content-Type": PROTOBUF, **({"Content-Encoding": "gzip"} if number % 2 else {})}
        answer = post(gateway, site, packed, headers)
        assert answer.status in (200, 400, 413), (number, answer)


def flipped(source: random.Random) -> Callable[[bytes, int], bytes]:
    """Bytes with some of them replaced."""

    def mutate(data: bytes, size: int) -> bytes:
        changed = bytearray(data[:size])
        for _ in range(min(len(changed), source.randrange(4))):
            changed[source.randrange(len(changed))] = source.randrange(256)
        return bytes(changed)

    return mutate
