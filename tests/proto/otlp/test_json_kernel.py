"""The kernel's reader of OTLP/JSON gives what the one in Python gives, or leaves the body to it."""

import json
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from proto.otlp import codec, kernel
from proto.otlp.json import ItemReader, to_protobuf
from proto.otlp.policy import DecodedPayload, DecodeError, Policy, Signal
from tests.proto.otlp import realistic
from tests.proto.otlp.as_json import as_json
from tests.proto.otlp.generate import NOW_NS, POLICIES, Writer
from tests.proto.otlp.json_text import JsonWriter, damaged
from tests.proto.otlp.test_json import FAULTY, VALUES, attribute, nested, span, traces
from tests.selection import scaled

SIGNALS: tuple[Signal, ...] = ("traces", "logs")
CASES = scaled(1_500, 12_000)
CHUNK = 500

many = settings(max_examples=scaled(150, 1_500), deadline=None, database=None)


class Outcome(NamedTuple):
    """All that becomes of a body."""

    refusal: str | None = None
    counts: Any = None
    blocks: Any = None


def outcome(decoded: DecodedPayload) -> Outcome:
    blocks = [(block.table, block.day, b"".join(block.pieces)) for block in codec.build_blocks([decoded], 1)]
    counts = dict(decoded.rejected), dict(decoded.modified), [tuple(found) for found in decoded.exceptions]
    return Outcome(None, (*counts, decoded.first_fault, list(decoded.warnings)), blocks)


def by_reference(signal: Signal, body: bytes, policy: Policy) -> Outcome:
    try:
        converted = to_protobuf(signal, body, policy)
        return outcome(codec.decode(signal, converted.body, 1, policy, NOW_NS, converted.faults))
    except DecodeError as error:
        return Outcome(error.reason)


def by_kernel(
    signal: Signal, body: bytes, policy: Policy, most_left: int, most_item: int = 2**64 - 1
) -> Outcome | None:
    """None where it leaves the body, or more of it than it may."""
    try:
        decoded = kernel.decode_json(signal, body, 1, policy, NOW_NS, ItemReader(signal), most_left, most_item)
        return outcome(decoded) if decoded is not None else None
    except DecodeError as error:
        return Outcome(error.reason)


def is_unicode(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return b"\\ud" not in body.lower()


def message(signal: Signal, encoded: bytes) -> bytes:
    """What is encoded, in one order of fields."""
    parsed: TracesData | LogsData = (TracesData if signal == "traces" else LogsData).FromString(encoded)
    return parsed.SerializeToString()


def agree(signal: Signal, body: bytes, policy: Policy | None = None) -> bool:
    """Whether the kernel alone read it; what it reads, with items left or not, is what the reference reads."""
    policy = policy or Policy()
    alone, together = by_kernel(signal, body, policy, 0), by_kernel(signal, body, policy, len(body))
    encoded = kernel.to_protobuf(signal, body, policy, ItemReader(signal), len(body))
    assert (encoded is None) == (together is None)
    if together is None or encoded is None:
        assert alone is None
        return False
    assert alone is None or alone == together
    assert together == by_reference(signal, body, policy), body
    if is_unicode(body):
        assert message(signal, encoded) == message(signal, to_protobuf(signal, body, policy).body), body
    return alone is not None


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":"), (" ,\n", "\t: ")])
def test_what_an_sdk_sends_is_read_by_the_kernel(signal: Signal, separators: tuple[str, str]) -> None:
    body = as_json(realistic.request(signal, 60))
    assert agree(signal, json.dumps(json.loads(body), separators=separators, ensure_ascii=False).encode())
    assert agree(signal, json.dumps(json.loads(body), indent=2).encode())


@pytest.mark.sized
@many
@given(st.integers(0, 2**32), st.sampled_from(SIGNALS))
def test_requests_of_every_shape_are_read_by_the_kernel(seed: int, signal: Signal) -> None:
    random = Random(seed)
    policy = random.choice([policy for policy in POLICIES if policy.max_items == Policy().max_items])
    body = Writer(random, 0, policy, unicode_only=True).request(signal)
    sent: TracesData | LogsData = (TracesData if signal == "traces" else LogsData).FromString(body)
    assert agree(signal, as_json(sent), policy)


@pytest.mark.sized
@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_generated_text(first: int) -> None:
    read = 0
    for seed in range(first, first + CHUNK):
        random = Random(seed)
        signal: Signal = random.choice(SIGNALS)
        body = JsonWriter(random, random.choice((0, 0, 0.01, 0.05))).request(signal)
        read += agree(signal, body, random.choice((None, Policy(max_items=3, max_parts=40))))
        agree(signal, damaged(random, body))
    assert read > CHUNK // 4


@pytest.mark.sized
@many
@given(st.binary(max_size=60), st.integers(0, 500), st.integers(0, 30))
def test_any_bytes_anywhere(piece: bytes, at: int, replaced: int) -> None:
    body = bytearray(traces(span(name="é", attributes=[{"key": "k", "value": {"intValue": "5"}}] * 9)))
    body[at : at + replaced] = piece
    agree("traces", bytes(body))


@pytest.mark.sized
@many
@given(st.text() | st.text(st.characters(max_codepoint=0x7F)), st.booleans())
def test_any_text(text: str, ascii_only: bool) -> None:
    item = span(name=text, attributes=[{"key": text, "value": {"stringValue": text}}] * 12)
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [item]}]}]}
    assert agree("traces", json.dumps(body, ensure_ascii=ascii_only).encode(errors="surrogatepass"))


@pytest.mark.sized
@many
@given(st.binary(max_size=40))
def test_any_bytes_as_text(text: bytes) -> None:
    item = span(name="X", attributes=[{"key": "X", "value": {"stringValue": "X"}}])
    agree("traces", traces(*[item] * 3).replace(b'"X"', b'"' + text + b'"'))


@pytest.mark.sized
@many
@given(st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_any_double(number: float, quoted: bool) -> None:
    value = {"doubleValue": str(number) if quoted else number}
    assert agree("traces", traces(span(attributes=[{"key": "k", "value": value}] * 20)))


def test_many_doubles_are_rounded_as_python_rounds_them() -> None:
    random = Random(1)
    texts = [
        f"{random.randrange(10 ** random.randrange(1, 19))}.{random.randrange(10 ** random.randrange(1, 19))}"
        for _ in range(20_000)
    ]
    texts += [f"{random.randrange(10**17)}e{random.randrange(-40, 40)}" for _ in range(20_000)]
    texts += [repr(random.uniform(-1, 1) * 10.0 ** random.randrange(-300, 300)) for _ in range(20_000)]
    values = ",".join(f'{{"doubleValue":{text}}}' for text in texts)
    body = traces(span(attributes=[{"key": "k", "value": {"arrayValue": {"values": ["X"]}}}])).replace(
        b'"X"', values.encode()
    )
    assert agree("traces", body, Policy(max_value_bytes=2**30))


@pytest.mark.sized
@many
@given(st.integers(-(2**66), 2**66), st.sampled_from(["intValue", "doubleValue"]), st.booleans())
def test_any_integer(number: int, name: str, quoted: bool) -> None:
    body = traces(span(attributes=[{"key": "k", "value": {name: str(number) if quoted else number}}] * 20))
    assert agree("traces", body) == ((name == "doubleValue" and abs(number) < 2**64) or -(2**63) <= number < 2**63)


def test_numbers_at_the_ends_of_their_range() -> None:
    ends = (0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64)
    for name in ("kind", "flags", "droppedEventsCount", "startTimeUnixNano", "endTimeUnixNano"):
        for number in ends:
            agree("traces", traces(span(**{name: number})))
            agree("traces", traces(span(**{name: str(number)})))


def test_values() -> None:
    for value, _, _ in VALUES.values():
        agree("traces", attribute(value))


def test_what_is_faulty_is_left_to_the_reference_item_by_item() -> None:
    for name, (body, _) in FAULTY.items():
        assert not agree("traces", body), name
        together = by_kernel("traces", body, Policy(), len(body))
        assert together is not None
        assert together.counts[0] == {"invalid_field": 1}, name


def test_items_are_left_within_a_number_of_bytes() -> None:
    odd = json.dumps(span(flags=1.0)).encode()
    body = traces(span(), "ODD", span(), "ODD").replace(b'"ODD"', odd)
    assert by_kernel("traces", body, Policy(), 2 * len(odd)) == by_reference("traces", body, Policy())
    assert by_kernel("traces", body, Policy(), 2 * len(odd) - 1) is None
    assert by_kernel("traces", body, Policy(), 2 * len(odd), len(odd)) == by_reference("traces", body, Policy())
    assert by_kernel("traces", body, Policy(), 2 * len(odd), len(odd) - 1) is None


def test_lengths_at_the_ends_of_their_width() -> None:
    sizes = {0, 1, *range(15, 19), 100, 101, *range(108, 131), 16_380, 16_381, 16_384, 16_385, 2_097_152}
    for text in ("x" * size for size in sizes):
        value = {"stringValue": text}
        assert agree("traces", traces(span(name=text), span(attributes=[{"key": text, "value": value}] * 2)))
        assert agree("traces", traces(span(attributes=[{"key": "k", "value": value}, {"key": text}])))


def test_depth_and_counts_are_the_reference_s() -> None:
    assert agree("traces", attribute(nested(32)))
    assert not agree("traces", attribute(nested(33)))
    assert agree("traces", traces(*[{}] * 97), Policy(max_items=97, max_parts=100))
    assert not agree("traces", traces(*[{}] * 98), Policy(max_items=98, max_parts=100))
    assert not agree("traces", traces(*[{}] * 98), Policy(max_items=97, max_parts=200))
    nulls = attribute({"arrayValue": {"values": [None] * 30}})
    assert agree("traces", nulls, Policy(max_parts=20))  # refused by the survey: elements that are not there are parts


@pytest.mark.parametrize("opening", [b"[", b'{"x":', b'[{"x":'])
def test_deep_nesting_is_left_to_the_reference(opening: bytes) -> None:
    assert by_kernel("traces", b'{"unknown":' + opening * 100_000, Policy(), 10**6) is None


def test_every_end_of_a_body_is_an_end() -> None:
    body = traces(
        span(name="é\\\n", attributes=[{"key": "k", "value": value} for value, _, _ in VALUES.values()]),
        resource={"attributes": []},
    )
    for size in range(len(body)):
        assert by_kernel("traces", body[:size], Policy(), size) is None
    for after in (b"{", b"x", b"\x00", b"1", b"\xef\xbb\xbf"):
        assert not agree("traces", body + after)
        assert not agree("traces", after + body)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 255 * 16, 256 * 16 + 5, 10_000])
def test_braces_are_counted_whatever_their_number(size: int) -> None:
    random = Random(size)
    for body in (b"{" * size, bytes(random.choice(b"{}[|z") for _ in range(size))):
        assert kernel.count_objects(body) == body.count(b"{")
