"""Which attribute keys the roll-up names, where spans carry more of them than it may."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from proto.otlp.policy import NANOS_PER_DAY, DecodedPayload
from proto.storage.tables import UNNAMED_KEYS
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.generate import NOW_NS
from tests.proto.otlp.native_rows import rows

Named = Any  # a decoder's NamedKeys
Spans = Sequence[Mapping[str, Any]]  # attributes of each


def request(spans: Spans, start_ns: int = NOW_NS) -> bytes:

    sent = ExportTraceServiceRequest()
    scoped = sent.resource_spans.add().scope_spans.add()
    for number, attributes in enumerate(spans, 1):
        span = scoped.spans.add(
            trace_id=number.to_bytes(16, "big"), span_id=number.to_bytes(8, "big"), start_time_unix_nano=start_ns
        )
        for key, value in attributes.items():
            span.attributes.add(key=key).value.int_value = value
    return sent.SerializeToString()


def counted(decoder: Decoder, named: Named, *requests: DecodedPayload) -> dict[bytes, tuple[int, int]]:
    """Spans and numbers by key, of one batch."""
    blocks = decoder.module.build_blocks(requests, 1, named)
    found: dict[bytes, tuple[int, int]] = {}
    for row in rows(blocks, "attribute_keys"):
        spans, numbers = found.get(row["key"], (0, 0))
        found[row["key"]] = spans + row["spans"], numbers + row["numeric"]
    return found


def test_of_new_keys_those_of_most_spans_are_named_and_stay_so(decoder: Decoder) -> None:
    named = decoder.module.NamedKeys(2, 3)
    first = decoder.decode("traces", request([{"a": 1, "b": 1, "c": 1}, {"b": 1, "c": 1}]))
    assert counted(decoder, named, first) == {b"b": (2, 2), b"c": (2, 2), UNNAMED_KEYS: (1, 1)}
    second = decoder.decode("traces", request([{"d": 1, "e": 1, "b": 1}]))
    assert counted(decoder, named, second) == {b"b": (1, 1), b"d": (1, 1), UNNAMED_KEYS: (1, 1)}
    assert counted(decoder, named, first) == {b"b": (2, 2), b"c": (2, 2), UNNAMED_KEYS: (1, 1)}


def test_each_project_and_day_has_its_own(decoder: Decoder) -> None:
    named = decoder.module.NamedKeys(0, 1)
    for number, (project, days) in enumerate([(1, 0), (1, 1), (2, 0)]):
        body = request([{f"k{number}": 1}], NOW_NS - days * NANOS_PER_DAY)
        found = counted(decoder, named, decoder.decode("traces", body, project_id=project))
        assert found == {f"k{number}".encode(): (1, 1)}
    again = decoder.decode("traces", request([{"other": 1}]), project_id=2)
    assert counted(decoder, named, again) == {UNNAMED_KEYS: (1, 1)}


def test_without_limits_all_are_named(decoder: Decoder) -> None:
    body = decoder.decode("traces", request([{f"k{n}": n for n in range(100)}]))
    assert counted(decoder, decoder.module.NamedKeys(0, 0), body).keys() == {b"k%d" % n for n in range(100)}
    assert len(counted(decoder, decoder.module.NamedKeys(7, 0), body)) == 8
    assert len(counted(decoder, decoder.module.NamedKeys(0, 7), body)) == 8


def test_it_remembers_so_many_keys_and_forgets_the_oldest_day(decoder: Decoder) -> None:
    named = decoder.module.NamedKeys(0, 2, 3)

    def keys(project: int, *keys: str) -> set[bytes]:
        body = request([dict.fromkeys(keys, 1)])
        return set(counted(decoder, named, decoder.decode("traces", body, project_id=project)))

    assert keys(1, "a", "b") == {b"a", b"b"}
    assert keys(1, "c") == {UNNAMED_KEYS}
    assert keys(2, "a", "b") == {b"a", b"b"}  # project 1 is forgotten
    assert keys(1, "c") == {b"c"}


def test_batches_of_several_projects_are_named_at_once_within_the_limit(decoder: Decoder) -> None:
    """By threads that have the projects in different orders, and forget them meanwhile."""
    named = decoder.module.NamedKeys(0, 50, 120)

    def batch(number: int) -> Sequence[dict[bytes, tuple[int, int]]]:
        projects = [1, 2, 3] if number % 2 else [3, 2, 1]
        bodies = [request([{f"{number}.{key}": 1 for key in range(40)}])] * 3
        decoded = [decoder.decode("traces", body, project_id=p) for body, p in zip(bodies, projects, strict=True)]
        return [counted(decoder, named, *decoded) for _ in range(3)]

    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(batch, range(24)):
            assert all(sum(spans for spans, _ in each.values()) == 120 for each in found)
    last = [
        decoder.decode("traces", request([{f"{n}.{key}": 1 for n in range(24) for key in range(40)}]), project_id=4)
    ]
    assert len(counted(decoder, named, *last)) == 51


KEYS = st.sampled_from([*"abcdefgh", "resource.a", "scope.name", "é", ""])
SPANS = st.lists(st.dictionaries(KEYS, st.integers(0, 9), max_size=6), min_size=1, max_size=8)


@given(
    st.lists(st.tuples(SPANS, st.integers(1, 2), st.sampled_from([0, 250, 600])), max_size=4),
    st.integers(0, 4),
    st.integers(0, 6),
)
def test_both_decoders_name_the_same(requests: list[tuple[Spans, int, int]], per_batch: int, per_day: int) -> None:
    blocks = []
    for decoder in (Decoder("reference"), Decoder("kernel")):
        named = decoder.module.NamedKeys(per_batch, per_day)
        decoded = [
            decoder.decode("traces", request(spans, NOW_NS - ago * 10**9), project_id=project)
            for spans, project, ago in requests
        ]
        batches = [decoded[:2], decoded[2:], decoded]
        made = [decoder.module.build_blocks(batch, 1, named) for batch in batches if batch]
        blocks.append(
            [[(block.table, block.day, block.rows, b"".join(block.pieces)) for block in each] for each in made]
        )
    assert blocks[0] == blocks[1]


def test_what_grows_dictionaries_is_told(decoder: Decoder) -> None:
    few = decoder.decode("traces", request([{"a": 1}] * 50)).symbols
    many = decoder.decode("traces", request([{f"k{n}": 1} for n in range(500)])).symbols
    assert few < 50
    assert many >= 500
