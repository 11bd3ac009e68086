"""What a resource and a scope may hold, each and in a request as a whole: they are stored with every item."""

from types import ModuleType

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from proto.otlp import kernel, reference
from proto.otlp.policy import DecodeError, ItemModification, Policy, RequestRejection
from tests.proto.otlp.generate import NOW_NS
from tests.proto.otlp.native_rows import rows

DECODERS = [pytest.param(kernel, id="kernel"), pytest.param(reference, id="reference")]


def attribute(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def traces(spans: int = 1) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    scoped = request.resource_spans.add().scope_spans.add()
    for number in range(spans):
        scoped.spans.add(
            trace_id=b"t" * 16, span_id=bytes([number + 1] * 8), start_time_unix_nano=NOW_NS, end_time_unix_nano=NOW_NS
        )
    return request


def decoded(
    decoder: ModuleType, request: ExportTraceServiceRequest, policy: Policy
) -> tuple[dict[str, object], object]:
    """The first span as it is stored, and what was modified."""
    segment = decoder.decode("traces", request.SerializeToString(), 1, policy, NOW_NS)
    return rows(decoder.build_blocks([segment], 1), "spans")[0], segment.modified


@pytest.mark.parametrize("decoder", DECODERS)
def test_attributes_of_a_resource_that_do_not_fit_are_dropped_and_counted(decoder: ModuleType) -> None:
    request = traces()
    resource = request.resource_spans[0].resource
    resource.attributes.extend([attribute("a", "1"), attribute("large", "x" * 100), attribute("service.name", "shop")])
    resource.dropped_attributes_count = 5
    kept = len(b"\1a\2s1" + b"\1service.name\2sshop")
    row, modified = decoded(decoder, request, Policy(max_resource_bytes=kept))
    assert row["resource"] == b"\1a\2s1\1service.name\2sshop\1"
    assert (row["service_name"], row["resource_dropped_attributes_count"]) == (b"shop", 6)
    assert modified == {ItemModification.TRUNCATED: 1}
    row, _ = decoded(decoder, request, Policy(max_resource_bytes=kept - 1))
    assert (row["resource"], row["service_name"], row["resource_dropped_attributes_count"]) == (b"\1a\2s1\1", b"", 7)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_scope_has_a_bound_of_its_own(decoder: ModuleType) -> None:
    request = traces()
    request.resource_spans[0].resource.attributes.append(attribute("large", "x" * 100))
    request.resource_spans[0].scope_spans[0].scope.attributes.extend(
        [attribute("large", "x" * 100), attribute("b", "\2")]
    )
    row, modified = decoded(decoder, request, Policy(max_scope_bytes=6))
    assert row["resource"] == b"\1large\2s" + b"x" * 100 + b"\1"
    assert (row["scope"], row["scope_dropped_attributes_count"]) == (
        b"\1b\2s\3B\1",
        1,
    )  # as stored: a mark is two bytes
    assert modified == {ItemModification.TRUNCATED: 1}


@pytest.mark.parametrize("decoder", DECODERS)
def test_without_a_limit_all_is_kept(decoder: ModuleType) -> None:
    """So are the policies of journals that were written before there was one."""
    request = traces()
    request.resource_spans[0].resource.attributes.extend(attribute(f"k{n}", "x" * 16_384) for n in range(128))
    row, modified = decoded(decoder, request, Policy())
    assert isinstance(row["resource"], bytes)
    assert len(row["resource"]) > 2 * 2**20
    assert modified == {}


@pytest.mark.parametrize("decoder", DECODERS)
def test_resources_count_anew_for_every_accepted_item(decoder: ModuleType) -> None:
    request = traces(spans=3)
    request.resource_spans[0].resource.attributes.append(attribute("k", "xy"))
    request.resource_spans[0].scope_spans[0].scope.attributes.append(attribute("s", "z"))
    each = len(b"\1k\2sxy\1") + len(b"\1s\2sz\1")
    body = request.SerializeToString()
    assert decoder.decode("traces", body, 1, Policy(max_repeated_bytes=3 * each), NOW_NS).accepted == 3
    with pytest.raises(DecodeError, match="Send fewer items per request") as caught:
        decoder.decode("traces", body, 1, Policy(max_repeated_bytes=3 * each - 1), NOW_NS)
    assert caught.value.reason == RequestRejection.RESOURCES_TOO_LARGE
    request.resource_spans[0].scope_spans[0].spans[0].trace_id = b""  # rejected: it repeats nothing
    body = request.SerializeToString()
    assert decoder.decode("traces", body, 1, Policy(max_repeated_bytes=3 * each - 1), NOW_NS).accepted == 2


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_resources_of_log_records_count_likewise(decoder: ModuleType) -> None:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.append(attribute("k", "xy"))
    group.scope_logs.add().log_records.add(time_unix_nano=NOW_NS)
    with pytest.raises(DecodeError):
        decoder.decode("logs", request.SerializeToString(), 1, Policy(max_repeated_bytes=6), NOW_NS)


@pytest.mark.parametrize("decoder", DECODERS)
def test_large_resources_and_scopes_are_told_once_each(decoder: ModuleType) -> None:
    request = traces(spans=2)
    request.resource_spans[0].resource.attributes.append(attribute("k", "x" * 20))
    request.resource_spans[0].scope_spans[0].scope.attributes.append(attribute("s", "y" * 10))
    segment = decoder.decode("traces", request.SerializeToString(), 1, Policy(), NOW_NS)
    resource, scope = b"\1k\2s" + b"x" * 20 + b"\1", b"\1s\2s" + b"y" * 10 + b"\1"
    assert list(segment.large_origins(len(scope) - 1).values()) == [len(resource), len(scope)]
    assert list(segment.large_origins(len(scope)).values()) == [len(resource)]
    assert segment.large_origins(len(resource)) == {}
    again = decoder.decode("traces", request.SerializeToString(), 2, Policy(), NOW_NS)
    assert again.large_origins(0) == segment.large_origins(0)
