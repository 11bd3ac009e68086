"""What was cut is told with the row: where, and how large it was as sent (docs/codec.md 2)."""

import json
from typing import Any

import pytest

from proto.otlp.policy import DecodeError, Policy, Signal
from proto.otlp.protobuf_writer import bytes_field
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.sent import array, attributes, binary, double, integer, log, mapping, pair, request, span, string

LIMITS = Policy(max_value_bytes=8, max_key_bytes=4, max_name_bytes=6, max_body_bytes=10)


def row_of(decoder: Decoder, signal: Signal, body: bytes, policy: Policy = LIMITS) -> dict[str, Any]:
    (row,) = decoder.rows("spans" if signal == "traces" else "logs", decoder.decode(signal, body, policy))
    return row


def cuts(decoder: Decoder, signal: Signal, body: bytes, policy: Policy = LIMITS) -> list[tuple[str, int]]:
    text = row_of(decoder, signal, body, policy)["truncations"]
    return [(each["path"], each["bytes"]) for each in json.loads(text or b"[]")]


def test_nothing_cut_is_an_empty_text(decoder: Decoder) -> None:
    fields = (bytes_field(5, b"123456"), attributes(9, pair("full", string("12345678"))))
    assert row_of(decoder, "traces", request(span(*fields)))["truncations"] == b""
    assert row_of(decoder, "logs", request(log(bytes_field(5, string("1234567890")))))["truncations"] == b""


def test_every_text_of_a_span_is_told_in_the_order_of_reading(decoder: Decoder) -> None:
    long = b"0123456789"
    event = bytes_field(2, b"an event") + attributes(3, pair("e", string(long)))
    link = bytes_field(3, long) + attributes(4, pair("l", string(long)))
    fields = (
        bytes_field(3, long),
        bytes_field(5, b"a name"),
        bytes_field(15, bytes_field(2, long + b"!")),
        attributes(9, pair("ab/c~", string(long)), pair("fits", string("12345678")), pair("b", binary(bytes(9)))),
        bytes_field(11, bytes_field(2, b"short") + attributes(3, pair("k", integer(1)))),
        bytes_field(11, event),
        bytes_field(13, link),
        bytes_field(5, b"the last name counts"),
    )
    resource = attributes(1, pair("r", string(long)))
    scope = bytes_field(1, b"scope name") + bytes_field(2, b"version 1") + attributes(3, pair("s", string(long)))
    body = request(
        span(*fields),
        resource=resource,
        scope=scope,
        scoped=bytes_field(3, b"scope url"),
        sent=bytes_field(3, b"the url"),
    )
    assert cuts(decoder, "traces", body) == [
        ("/name", 20),
        ("/traceState", 10),
        ("/statusMessage", 11),
        ("/attributes/ab~1c/#", 5),
        ("/attributes/ab~1c", 10),
        ("/attributes/b", 9),
        ("/events/1/name", 8),
        ("/events/1/attributes/e", 10),
        ("/links/0/traceState", 10),
        ("/links/0/attributes/l", 10),
        ("/resource/attributes/r", 10),
        ("/resource/schemaUrl", 7),
        ("/scope/attributes/s", 10),
        ("/scope/schemaUrl", 9),
        ("/scope/name", 10),
        ("/scope/version", 9),
    ]


def test_every_text_of_a_log_record_is_told(decoder: Decoder) -> None:
    fields = (
        bytes_field(3, b"severity"),
        bytes_field(12, b"the event"),
        bytes_field(5, string("a long body")),
        attributes(6, pair("k", string("123456789"))),
    )
    assert cuts(decoder, "logs", request(log(*fields))) == [
        ("/severityText", 8),
        ("/eventName", 9),
        ("/attributes/k", 9),
        ("/body", 11),
    ]


def test_the_size_is_that_of_what_was_sent(decoder: Decoder) -> None:
    """Before it is repaired or scrubbed; of an array or map, that of its JSON."""
    nested = array(string('a"\n\x01'), integer(-12), double(0.5), double(float("nan")), binary(b"1234"), b"", mapping())
    text = '["a\\"\\n\\u0001",-12,0.5,"NaN",{"bytesValue":"MTIzNA=="},null,{}]'
    entries = mapping(pair("a", string("12345678")), pair("long key", integer(1)), pair("kin", string("x")))
    fields = attributes(
        9,
        pair("r", string(b"\xff\xff\xff")),
        pair("c", string("4111111111111111 is scrubbed")),
        pair("n", nested),
        pair("m", entries),
    )
    assert cuts(decoder, "traces", request(span(fields))) == [
        ("/attributes/r", 3),
        ("/attributes/c", 28),
        ("/attributes/n", len(text)),
        ("/attributes/m/#", 8),
        ("/attributes/m", len('{"a":"12345678","long":1,"kin":"x"}')),
    ]


def test_of_a_repeated_attribute_the_last_value_is_told(decoder: Decoder) -> None:
    fields = attributes(9, pair("long 1", string("123456789")), pair("long", string("1")), pair("a", string("1" * 9)))
    assert cuts(decoder, "traces", request(span(fields))) == [("/attributes/long/#", 6), ("/attributes/a", 9)]
    nested = pair("m", mapping(pair("long 1", integer(1)), pair("long", integer(2))))
    assert cuts(decoder, "traces", request(span(attributes(9, nested))), Policy(max_key_bytes=4)) == [
        ("/attributes/m/#", 6)
    ]


def test_keys_within_a_value_are_told_once(decoder: Decoder) -> None:
    """A map may have a million of them, and their entries would say the same."""
    keys = mapping(*(pair(f"key {number}", mapping(pair("inner key", integer(1)))) for number in range(3)))
    fields = attributes(9, pair("m", keys), pair("long key", keys), pair("n", array(keys, keys)))
    assert cuts(decoder, "traces", request(span(fields)), Policy(max_key_bytes=4)) == [
        ("/attributes/m/#", 5),
        ("/attributes/long/#", 8),
        ("/attributes/n/#", 5),
    ]
    assert cuts(decoder, "logs", request(log(bytes_field(5, keys))), Policy(max_key_bytes=4)) == [("/body/#", 5)]


def test_what_does_not_fit_into_the_list_is_summed_up(decoder: Decoder) -> None:
    """A record is small, whatever its client sends: each entry may take six times what was sent for it."""
    hostile = attributes(
        9, *(pair(f"{number:03}" + "\x01" * 300, integer(1)) for number in range(100)), pair("k", string("1" * 70_000))
    )
    row = row_of(decoder, "traces", request(span(hostile)), Policy())
    listed = json.loads(row["truncations"])
    (fits, *_), size = listed, len(json.dumps(listed[0], separators=(",", ":")))
    assert fits == {"path": "/attributes/000" + "\x01" * 253 + "/#", "bytes": 303}
    number = 8 * 2**10 // (size + 1)
    assert listed == [
        *({**fits, "path": fits["path"].replace("000", f"{at:03}", 1)} for at in range(number)),
        {"path": "/attributes/k", "bytes": 70_000},
        {"path": "/truncations", "bytes": 303 * (100 - number)},
    ]


def test_the_list_of_a_resource_is_short(decoder: Decoder) -> None:
    """It is stored with every item."""
    resource = attributes(1, *(pair(f"{number:02}" + "k" * 300, integer(1)) for number in range(20)))
    scope = bytes_field(1, b"n" * 1025) + bytes_field(2, b"v" * 1025)
    listed = json.loads(
        row_of(decoder, "traces", request(span(), resource=resource, scope=scope), Policy())["truncations"]
    )
    assert listed == [
        *({"path": f"/resource/attributes/{number:02}{'k' * 254}/#", "bytes": 302} for number in range(3)),
        {"path": "/truncations", "bytes": 17 * 302},
        {"path": "/scope/name", "bytes": 1025},
        {"path": "/scope/version", "bytes": 1025},
    ]


def test_a_scrubbed_value_is_not_cut(decoder: Decoder) -> None:
    fields = attributes(9, pair("password", string("1" * 99)))
    assert cuts(decoder, "traces", request(span(fields)), Policy(max_value_bytes=8)) == []


def test_dropped_attributes_of_a_resource_are_not_told(decoder: Decoder) -> None:
    resource = attributes(
        1,
        pair("a~/b", string("1" * 9)),
        pair("large", string("x" * 9)),
        pair("#", string("2" * 9)),
        pair("c", integer(1)),
    )
    policy = Policy(max_key_bytes=4, max_value_bytes=8, max_resource_bytes=15 + 7)
    row = row_of(decoder, "traces", request(span(), resource=resource), policy)
    assert (row["resource"], row["resource_dropped_attributes_count"]) == (b"\1a~/b\2s11111111\1c\2i1\1", 2)
    assert json.loads(row["truncations"]) == [{"path": "/resource/attributes/a~0~1b", "bytes": 9}]
    assert cuts(decoder, "traces", request(span(), resource=resource), Policy(max_key_bytes=4, max_value_bytes=8)) == [
        ("/resource/attributes/a~0~1b", 9),
        ("/resource/attributes/larg/#", 5),
        ("/resource/attributes/larg", 9),
        ("/resource/attributes/#", 9),
    ]


def test_references_to_entities_are_left_out_whole(decoder: Decoder) -> None:
    resource = bytes_field(3, bytes_field(2, b"service"))
    size = len('[{"schemaUrl":"","type":"service","idKeys":[],"descriptionKeys":[]}]')
    row = row_of(decoder, "traces", request(span(), resource=resource))
    assert row["entity_refs"] == b""
    assert json.loads(row["truncations"]) == [{"path": "/resource/entityRefs", "bytes": size}]


def test_each_item_has_the_cuts_of_its_own_and_of_its_resource(decoder: Decoder) -> None:
    resource = attributes(1, pair("r", string("1" * 9)))
    items = (span(), span(bytes_field(5, b"a long name")), span())
    decoded = decoder.decode("traces", request(*items, resource=resource), LIMITS)
    of_resource = b'{"path":"/resource/attributes/r","bytes":9}'
    assert [row["truncations"] for row in decoder.rows("spans", decoded)] == [
        b"[" + of_resource + b"]",
        b'[{"path":"/name","bytes":11},' + of_resource + b"]",
        b"[" + of_resource + b"]",
    ]


def test_cuts_of_a_resource_count_for_every_item(decoder: Decoder) -> None:
    """They are stored with each, so their sum is bounded with the resources."""
    body = request(*(span() for _ in range(10)), resource=attributes(1, pair("r", string("1" * 9))))
    each = len(b"\1r\2s11111111\1") + len(b'{"path":"/resource/attributes/r","bytes":9}')
    fits = Policy(max_value_bytes=8, max_repeated_bytes=10 * each)
    assert decoder.decode("traces", body, fits).accepted == 10
    with pytest.raises(DecodeError):
        decoder.decode("traces", body, Policy(max_value_bytes=8, max_repeated_bytes=10 * each - 1))


TRACE = b"java.lang.RuntimeException: outer\n" + b"\tat demo.Foo.run(Foo.java:1)\n" * 4000 + b"Caused by: demo.Root"


def test_both_ends_of_a_long_stack_trace_are_kept(decoder: Decoder) -> None:
    event = bytes_field(2, b"exception") + attributes(3, pair("exception.stacktrace", string(TRACE)))
    decoded = decoder.decode("traces", request(span(bytes_field(11, event))))
    (raised,) = decoded.exceptions
    half = 32 * 2**10
    kept = b"%s\n[%d bytes cut]\n%s" % (TRACE[:half], len(TRACE) - 2 * half, TRACE[-half:])
    assert raised.stacktrace == kept.decode()
    (row,) = decoder.rows("spans", decoded)
    assert json.loads(row["events"])[0]["attributes"]["exception.stacktrace"] == kept.decode()
    assert json.loads(row["truncations"]) == [
        {"path": "/events/0/attributes/exception.stacktrace", "bytes": len(TRACE)}
    ]
    assert dict(decoded.modified) == {"truncated": 1}


def test_no_character_is_split(decoder: Decoder) -> None:
    for limit, text, kept in (
        (8, "123456789", "1234\n[1 bytes cut]\n6789"),
        (8, "12345678", "12345678"),
        (7, "123456789", "123\n[3 bytes cut]\n789"),
        (8, "äöüäöü", "äö\n[4 bytes cut]\nöü"),
        (6, "aäöüä", "aä\n[4 bytes cut]\nä"),
        (1, "ab", "\n[2 bytes cut]\n"),
        (0, "ab", "\n[2 bytes cut]\n"),
    ):
        fields = attributes(6, pair("exception.stacktrace", string(text)))
        row = row_of(decoder, "logs", request(log(fields)), Policy(max_value_bytes=limit))
        assert dict(row["attributes"]) == {b"exception.stacktrace": kept.encode()}


def test_other_texts_keep_their_beginning(decoder: Decoder) -> None:
    fields = attributes(
        6, pair("exception.message", string("123456789")), pair("my.exception.stacktrace", string("1" * 9))
    )
    row = row_of(decoder, "logs", request(log(fields)), Policy(max_value_bytes=8))
    assert dict(row["attributes"]) == {b"exception.message": b"12345678", b"my.exception.stacktrace": b"1" * 8}


def test_a_text_alone_sets_the_severity_of_its_name(decoder: Decoder) -> None:
    numbers = {"TRACE": 1, "trace4": 4, "Debug": 5, "INFO": 9, "Info2": 10, "WARN": 13, "warn3": 15, "ERROR": 17}
    numbers |= {"Error": 17, "FATAL": 21, "fatal4": 24}
    numbers |= dict.fromkeys(("", "FATAL1", "FATAL5", "ERR", "ERRORS", "ERROR ", "4", "INF\u00cf"), 0)
    decoded = decoder.decode("logs", request(*(log(bytes_field(3, text.encode())) for text in numbers)))
    rows = decoder.rows("logs", decoded)
    assert {row["severity_text"].decode(): row["severity_number"] for row in rows} == numbers


def test_a_number_counts_before_the_text(decoder: Decoder) -> None:
    both = bytes_field(3, b"ERROR")
    assert row_of(decoder, "logs", request(log(b"\x10\x09", both)))["severity_number"] == 9
    # A number that OTLP does not define was sent, though it is not kept.
    assert row_of(decoder, "logs", request(log(b"\x10\x63", both)))["severity_number"] == 0


def test_an_error_by_its_text_is_an_occurrence(decoder: Decoder) -> None:
    fields = (bytes_field(3, b"Error"), attributes(6, pair("exception.type", string("KeyError"))))
    decoded = decoder.decode("logs", request(log(*fields)))
    assert [raised.type for raised in decoded.exceptions] == ["KeyError"]
