"""Which requests are refused as a whole, and why (docs/codec.md 1)."""

import pytest

from proto.otlp.policy import DecodeError, Policy, RequestRejection, Signal
from proto.otlp.protobuf_writer import bytes_field, fixed64_field, varint, varint_field
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.sent import (
    array,
    attributes,
    group,
    groups,
    integer,
    log,
    mapping,
    nested_arrays,
    pair,
    request,
    span,
    string,
)

SOUND = {
    "nothing": b"",
    "an unknown varint": varint_field(99, 5),
    "an unknown fixed64": fixed64_field(99, 5),
    "an unknown group": group(99, varint_field(1, 1) + bytes_field(2, b"\xff")),
    "32 groups": groups(32),
    "a known field as a varint": varint_field(1, 5),
    "a known field as a group": group(1),
    "a tag of 5 bytes": b"\x8a\x80\x80\x80\x00\x00",
    "a tag of 32 bits": varint(0xFFFFFFF8) + b"\x01",
    "a length of 5 bytes": b"\x0a\x80\x80\x80\x80\x00",
    "a varint of 10 bytes": b"\x08" + b"\xff" * 9 + b"\x01",
    "an unknown field with what looks like a broken message": bytes_field(99, b"\x07\xff"),
    "a string that looks like a broken message": request(span(bytes_field(5, b"\x07\xff"))),
}

MALFORMED = {
    "half a tag": b"\x80",
    "a tag of 6 bytes": b"\x88\x80\x80\x80\x80\x00\x05",
    "a tag of 33 bits": b"\x88\x80\x80\x80\x10\x05",
    "field number 0": b"\x00\x05",
    "wire type 6": b"\x0e",
    "wire type 7": b"\x0f",
    "a length beyond the end": b"\x0a\x01",
    "a length beyond the end of its message": bytes_field(1, bytes_field(1, b"")[:1] + b"\x05") + b"\x00" * 9,
    "a length of 6 bytes": b"\x0a\x80\x80\x80\x80\x80\x00",
    "half a varint": b"\x08\x80",
    "a varint of 11 bytes": b"\x08" + b"\x80" * 10 + b"\x00",
    "a varint of 65 bits": b"\x08" + b"\xff" * 9 + b"\x02",
    "half a fixed64": b"\x09\x01\x02",
    "half a fixed32": b"\x0d\x01",
    "a group that does not end": b"\x0b",
    "a group that ends as another": b"\x0b\x14",
    "the end of a group that was not begun": b"\x0c",
    "a broken field inside a group": group(3, b"\x07"),
    "a broken resource": request(span(), resource=b"\x07"),
    "a broken scope": request(span(), scope=b"\x07"),
    "a broken span": request(b"\x07"),
    "a broken status": request(span(bytes_field(15, b"\x07"))),
    "a broken event": request(span(bytes_field(11, b"\x07"))),
    "a broken link": request(span(bytes_field(13, b"\x07"))),
    "a broken attribute": request(span(bytes_field(9, b"\x07"))),
    "a broken value": request(span(attributes(9, pair("k", b"\x07")))),
    "a broken array": request(span(attributes(9, pair("k", bytes_field(5, b"\x07"))))),
    "a broken map": request(span(attributes(9, pair("k", bytes_field(6, b"\x07"))))),
    "a broken entity": request(span(), resource=bytes_field(3, b"\x07")),
    "a broken value that another replaces": request(span(attributes(9, pair("k", b"\x07"), pair("k", string(""))))),
    "a broken span of no use": request(bytes_field(1, b"") + b"\x07"),
}


def refusal(decoder: Decoder, body: bytes, policy: Policy | None = None) -> RequestRejection:
    with pytest.raises(DecodeError) as raised:
        decoder.decode("traces", body, policy)
    return raised.value.reason


def test_sound_bytes_are_read_and_malformed_ones_refused(decoder: Decoder) -> None:
    for body in SOUND.values():
        decoder.decode("traces", body)
    refusals = {name: refusal(decoder, body) for name, body in MALFORMED.items()}
    assert refusals == dict.fromkeys(MALFORMED, RequestRejection.MALFORMED)


def test_a_value_may_be_32_deep_and_no_deeper(decoder: Decoder) -> None:
    for depth, holds in ((32, True), (33, False)):
        for number, items in ((9, span), (6, log)):
            body = request(items(attributes(number, pair("k", nested_arrays(depth)))))
            signal: Signal = "traces" if items is span else "logs"
            if holds:
                assert decoder.decode(signal, body).accepted == 1
            else:
                with pytest.raises(DecodeError, match="deep"):
                    decoder.decode(signal, body)


def test_maps_count_for_depth_like_arrays_and_an_empty_value_counts_too(decoder: Decoder) -> None:
    value = b""
    for _ in range(31):
        value = mapping(pair("k", value))
    body = request(span(attributes(9, pair("k", value))))
    assert decoder.decode("traces", body).accepted == 1
    assert refusal(decoder, request(span(attributes(9, pair("k", array(value)))))) == RequestRejection.TOO_DEEP


def test_a_body_is_a_value_of_depth_1(decoder: Decoder) -> None:
    assert decoder.decode("logs", request(log(bytes_field(5, nested_arrays(32))))).accepted == 1
    with pytest.raises(DecodeError, match="deep"):
        decoder.decode("logs", request(log(bytes_field(5, nested_arrays(33)))))


def test_groups_may_be_32_deep_and_no_deeper(decoder: Decoder) -> None:
    assert refusal(decoder, groups(33)) == RequestRejection.TOO_DEEP


def test_items_over_their_limit(decoder: Decoder) -> None:
    policy = Policy(max_items=2)
    assert decoder.decode("traces", request(span(), span()), policy).accepted == 2
    assert refusal(decoder, request(span(), b"") + request(b""), policy) == RequestRejection.TOO_MANY_ITEMS


PARTS = {
    "resource, scope, item": (request(span()), 3),
    "a second resource": (bytes_field(1, bytes_field(1, b"") * 2), 2),
    "a second scope": (bytes_field(1, bytes_field(2, bytes_field(1, b"") * 3)), 4),
    "attributes everywhere": (
        request(
            span(attributes(9, pair("a"), pair("b"))),
            resource=attributes(1, pair("c")),
            scope=attributes(3, pair("d")),
        ),
        7,
    ),
    "events and links with an attribute": (
        request(span(bytes_field(11, attributes(3, pair("a"))), bytes_field(13, attributes(4, pair("a"))))),
        7,
    ),
    "entities": (request(span(), resource=bytes_field(3, b"") * 2), 5),
    "elements": (request(span(attributes(9, pair("k", array(integer(1), array(integer(2))))))), 7),
    "entries": (request(span(attributes(9, pair("k", mapping(pair("a"), pair("b")))))), 6),
    "a second status": (request(span(bytes_field(15, b"") * 2)), 4),
    "a second value": (request(span(bytes_field(9, pair("k", integer(1)) + bytes_field(2, integer(2))))), 5),
    "a second array": (request(span(attributes(9, pair("k", array() + array())))), 5),
    "an array and a map": (request(span(attributes(9, pair("k", array() + mapping())))), 4),
    "one array in each of two merged values": (
        request(span(bytes_field(9, pair("k", array()) + bytes_field(2, array())))),
        5,
    ),
}


def test_parts_are_counted(decoder: Decoder) -> None:
    for name, (body, parts) in PARTS.items():
        decoder.decode("traces", body, Policy(max_parts=parts))
        assert refusal(decoder, body, Policy(max_parts=parts - 1)) == RequestRejection.TOO_MANY_PARTS, name


def test_a_second_body_is_a_part(decoder: Decoder) -> None:
    body = request(log(bytes_field(5, integer(1)) * 2))
    decoder.decode("logs", body, Policy(max_parts=4))
    with pytest.raises(DecodeError, match="more than 3 spans"):
        decoder.decode("logs", body, Policy(max_parts=3))


def test_the_first_offence_in_wire_order_counts(decoder: Decoder) -> None:
    deep = span(attributes(9, pair("k", nested_arrays(33))))
    assert refusal(decoder, request(deep, b"\x07")) == RequestRejection.TOO_DEEP
    assert refusal(decoder, request(b"\x07", deep)) == RequestRejection.MALFORMED
    # Counting an item precedes walking into it, and items come before parts.
    assert refusal(decoder, request(span(), b"\x07"), Policy(max_items=1)) == RequestRejection.TOO_MANY_ITEMS
    assert refusal(decoder, request(span(), b""), Policy(max_items=1, max_parts=3)) == RequestRejection.TOO_MANY_ITEMS
    again = request(span(bytes_field(15, b"") + bytes_field(15, b"\x07")))
    assert refusal(decoder, again, Policy(max_parts=3)) == RequestRejection.TOO_MANY_PARTS
    # An element beyond the limit of depth is counted before it is found to be too deep.
    too_deep = request(span(attributes(9, pair("k", nested_arrays(33)))))
    assert refusal(decoder, too_deep, Policy(max_parts=4 + 31)) == RequestRejection.TOO_MANY_PARTS
    assert refusal(decoder, too_deep, Policy(max_parts=4 + 32)) == RequestRejection.TOO_DEEP
