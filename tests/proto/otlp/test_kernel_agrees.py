"""Kernel and reference give the same outcome and the same bytes, whatever comes in."""

import struct
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proto.otlp import codec, reference
from proto.otlp.policy import Block, DecodedPayload, DecodeError, Policy, Signal
from proto.otlp.protobuf_writer import bytes_field, double_field, fixed64_field, varint_field
from tests.proto.otlp import generate
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.generate import NOW_NS, Case
from tests.proto.otlp.realistic import request
from tests.selection import scaled

CASES = scaled(1_000, 40_000)
CHUNK = 1000
BATCH = 8  # requests that are assembled together

many = settings(
    max_examples=scaled(100, 1_000), deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


class Outcome(NamedTuple):
    """Everything that `decode` says of a request."""

    refusal: str | None
    accepted: int = 0
    days: list[int] | None = None
    rejected: dict[str, int] | None = None
    modified: dict[str, int] | None = None
    warnings: list[str] | None = None
    exceptions: list[tuple[Any, ...]] | None = None
    exceptions_over_limit: int = 0


def decode(decoder: Decoder, case: Case) -> tuple[Outcome, DecodedPayload | None]:
    try:
        decoded: DecodedPayload = decoder.module.decode(*case)
    except DecodeError as error:
        return Outcome(error.reason), None
    assert (decoded.signal, decoded.project_id) == (case.signal, case.project_id)
    outcome = Outcome(
        None,
        decoded.accepted,
        list(decoded.days),
        dict(decoded.rejected),
        dict(decoded.modified),
        list(decoded.warnings),
        [tuple(exception) for exception in decoded.exceptions],
        decoded.exceptions_over_limit,
    )
    return outcome, decoded


def joined(blocks: list[Block]) -> list[tuple[str, int, int, bytes]]:
    return [(block.table, block.day, block.rows, b"".join(block.pieces)) for block in blocks]


def agree(*cases: Case) -> None:
    """Both decoders, on each request and on all that pass as one batch."""
    batches: dict[str, list[DecodedPayload]] = {}
    outcomes: dict[str, list[Outcome]] = {}
    for name in ("reference", "kernel"):
        results = [decode(Decoder(name), case) for case in cases]
        outcomes[name] = [outcome for outcome, _ in results]
        batches[name] = [decoded for _, decoded in results if decoded is not None]
    for case, expected, actual in zip(cases, outcomes["reference"], outcomes["kernel"], strict=True):
        assert actual == expected, case
    expected_blocks, actual_blocks = (
        joined(Decoder(name).assemble(batch, 2**64 - 3)) for name, batch in batches.items()
    )
    for expected_block, actual_block in zip(expected_blocks, actual_blocks, strict=True):
        assert actual_block == expected_block, cases


def test_the_kernel_is_built_and_in_force() -> None:
    assert codec.KERNEL


@pytest.mark.sized
@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_generated_requests(first: int) -> None:
    for start in range(first, first + CHUNK, BATCH):
        agree(*generate.cases(start, min(BATCH, first + CHUNK - start)))


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_realistic_requests(signal: Signal) -> None:
    agree(*(Case(signal, request(signal, 200, seed).SerializeToString(), seed, Policy(), NOW_NS) for seed in range(3)))


def span(*fields: bytes) -> bytes:
    ids = bytes_field(1, b"t" * 16) + bytes_field(2, b"s" * 8) + fixed64_field(7, NOW_NS)
    item = bytes_field(2, ids + b"".join(fields))
    return bytes_field(1, bytes_field(2, item))


def attribute(key: bytes, value: bytes) -> bytes:
    return bytes_field(1, key) + bytes_field(2, value)


def traces(body: bytes, policy: Policy | None = None) -> Case:
    return Case("traces", body, 3, policy or Policy(), NOW_NS)


@pytest.mark.sized
def test_limits_of_nothing() -> None:
    limits = "key_bytes value_bytes name_bytes body_bytes attributes events links exceptions"
    none: dict[str, Any] = {f"max_{limit}": 0 for limit in limits.split()}
    for seed in range(scaled(100, CHUNK)):
        agree(generate.case(seed)._replace(policy=Policy(**none)))


def test_dictionaries_grow_their_index_at_the_same_size() -> None:
    """Of names of spans, and of keys of attributes: these take far less than as many spans."""
    for names in (255, 256, 257):
        agree(traces(b"".join(span(bytes_field(5, b"name %d" % number)) for number in range(names))))
    for keys in (65_536, 65_537):
        many_keys = (bytes_field(9, attribute(b"key %d" % number, b"")) for number in range(keys))
        agree(traces(span(*many_keys), Policy(max_attributes=10**6)))


@pytest.mark.sized
@many
@given(st.binary(max_size=200), st.sampled_from(["traces", "logs"]))
def test_any_bytes(body: bytes, signal: Signal) -> None:
    agree(Case(signal, body, 1, Policy(), NOW_NS))


@pytest.mark.sized
@many
@given(st.integers(0, 2**32), st.data())
def test_any_change_of_a_sound_request(seed: int, data: st.DataObject) -> None:
    case = generate.case(seed)
    body = bytearray(case.body)
    for _ in range(data.draw(st.integers(1, 4))):
        if body:
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    agree(case._replace(body=bytes(body)))


@pytest.mark.sized
@many
@given(st.floats(allow_nan=True, allow_infinity=True))
def test_any_double(number: float) -> None:
    nested = bytes_field(5, bytes_field(1, double_field(4, number)))
    values = (double_field(4, number), nested)
    agree(traces(span(*(bytes_field(9, attribute(b"k%d" % place, value)) for place, value in enumerate(values)))))


@pytest.mark.sized
@many
@given(st.integers(-(2**63), 2**63 - 1))
def test_any_integer(number: int) -> None:
    agree(traces(span(bytes_field(9, attribute(b"k", varint_field(3, number))))))


def test_many_doubles() -> None:
    random = Random(1)
    numbers = [struct.unpack("<d", random.randbytes(8))[0] for _ in range(10_000)]
    numbers += [random.randrange(-(10**17), 10**17) / 10 ** random.randrange(25) for _ in range(10_000)]
    array = bytes_field(5, b"".join(bytes_field(1, double_field(4, number)) for number in numbers))
    fields = [bytes_field(9, attribute(b"%d" % place, double_field(4, number))) for place, number in enumerate(numbers)]
    policy = Policy(max_value_bytes=10**7, max_attributes=10**6)
    agree(traces(span(bytes_field(9, attribute(b"k", array)), *fields), policy))


def luhn_digit(digits: str) -> str:
    """The digit that completes a number, by trying all."""

    def total(number: str) -> int:
        doubled = [int(digit) * 2 for digit in number[-2::-2]]
        return sum(int(digit) for digit in number[::-2]) + sum(twice - 9 if twice > 9 else twice for twice in doubled)

    return next(digit for digit in "0123456789" if total(digits + digit) % 10 == 0)


@pytest.mark.sized
def test_every_issuer_prefix_at_every_length() -> None:
    random = Random(1)
    texts = []
    for prefix in range(10_000):
        for length in scaled((13, 14, 15, 16, 19), range(12, 21)):
            digits = f"{prefix:04}" + "".join(random.choices("0123456789", k=length - 5))
            texts.append(digits + luhn_digit(digits))
    array = bytes_field(5, b"".join(bytes_field(1, bytes_field(1, text.encode())) for text in texts))
    agree(traces(span(bytes_field(9, attribute(b"k", array))), Policy(max_value_bytes=10**8)))


@pytest.mark.sized
@many
@given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode), st.integers(0, 30))
def test_any_text(text: bytes, limit: int) -> None:
    policy = Policy(max_key_bytes=limit, max_value_bytes=limit, max_name_bytes=limit)
    nested = bytes_field(6, bytes_field(1, attribute(text, bytes_field(1, text))))
    fields = [bytes_field(9, attribute(text, value)) for value in (bytes_field(1, text), nested, bytes_field(7, text))]
    event = bytes_field(11, bytes_field(2, text) + bytes_field(3, attribute(text, bytes_field(1, text))))
    agree(traces(span(bytes_field(5, text), *fields, event), policy))


card_like = st.lists(
    st.sampled_from(
        ["4111", "1111", "5555", "4444", "3782", "822463", "10005", "6011", "123", "45", "6789", " ", "-", "x"]
    )
    | st.text("0123456789", min_size=1, max_size=6)
    | st.text("4 -0", max_size=4),
    max_size=14,
).map("".join)


@pytest.mark.sized
@many
@given(card_like)
def test_any_run_of_digits(text: str) -> None:
    agree(traces(span(bytes_field(9, attribute(b"k", bytes_field(1, text.encode()))))))


@pytest.mark.sized
@many
@given(st.lists(st.sampled_from(["api", "key", "API", "-", ".", "_", "token", "s", "set", "cookie", "id"]), max_size=7))
def test_any_key(pieces: list[str]) -> None:
    agree(traces(span(bytes_field(9, attribute("".join(pieces).encode(), bytes_field(1, b"v"))))))


def test_what_the_other_decoder_decoded_is_refused() -> None:
    decoded = reference.decode("traces", b"", 1, Policy(), NOW_NS)
    with pytest.raises(TypeError):
        Decoder("kernel").assemble([decoded])
    other = Decoder("kernel").decode("traces", b"")
    with pytest.raises(TypeError):
        reference.build_blocks([other], 1)


def test_text_of_megabytes_that_is_not_utf8_is_repaired_in_steps_as_it_is_in_one() -> None:
    for before in range(4):
        text = b"x" * (2**20 - before) + b"\xf0\x9f\x98\x80" + b"\xe6\x97" * 2**19 + b"\xf0\x9f\x98\x80\xff\xe6"
        body = bytes_field(1, bytes_field(2, bytes_field(2, bytes_field(5, bytes_field(1, text)))))
        agree(Case("logs", body, 1, Policy(max_body_bytes=2**24), NOW_NS))
