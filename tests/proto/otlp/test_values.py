"""Values, texts and attribute lists as they are stored (docs/codec.md 2)."""

import math
from typing import Any

from proto.otlp.policy import Policy
from proto.otlp.protobuf_writer import bytes_field, double_field, varint_field
from tests.proto.otlp.conftest import Decoder
from tests.proto.otlp.native_rows import as_list
from tests.proto.otlp.sent import (
    array,
    attributes,
    binary,
    boolean,
    double,
    integer,
    log,
    mapping,
    pair,
    request,
    span,
    string,
)

SHORT = Policy(max_value_bytes=8, max_key_bytes=4)


def stored(decoder: Decoder, *pairs: bytes, policy: Policy | None = None) -> tuple[dict[str, Any], dict[str, int]]:
    """The row of a span with these attributes, and what was modified in it."""
    decoded = decoder.decode("traces", request(span(attributes(9, *pairs))), policy)
    (row,) = decoder.rows("spans", decoded)
    return row, dict(decoded.modified)


VALUES = {
    "string": (string("größe"), "s", "größe"),
    "empty string": (string(""), "s", ""),
    "true": (boolean(1), "b", "true"),
    "true, written oddly": (boolean(2**63), "b", "true"),
    "false": (boolean(0), "b", "false"),
    "largest integer": (integer(2**63 - 1), "i", "9223372036854775807"),
    "smallest integer": (integer(-(2**63)), "i", "-9223372036854775808"),
    "double without a fraction": (double(200.0), "d", "200"),
    "double": (double(0.1), "d", "0.1"),
    "large double": (double(1e16), "d", "1e+16"),
    "double below the exponent": (double(1e15), "d", "1000000000000000"),
    "small double": (double(5e-324), "d", "5e-324"),
    "0.0001": (double(0.0001), "d", "0.0001"),
    "1e-05": (double(0.00001), "d", "1e-05"),
    "negative zero": (double(-0.0), "d", "-0"),
    "not a number": (double(math.nan), "d", "NaN"),
    "infinity": (double(math.inf), "d", "Infinity"),
    "negative infinity": (double(-math.inf), "d", "-Infinity"),
    "bytes": (binary(b"\x00\xff\xfe"), "x", "AP/+"),
    "padded bytes": (binary(b"\x00"), "x", "AA=="),
    "nothing": (b"", "n", "null"),
    "missing": (None, "n", "null"),
    "an index of profiles": (varint_field(8, 3), "n", "null"),
    "empty array": (array(), "a", "[]"),
    "empty map": (mapping(), "m", "{}"),
    "array of everything": (
        array(
            string('"\\\n\x01\x7fé'),
            boolean(1),
            integer(2**63 - 1),
            double(200.0),
            double(math.nan),
            binary(b"\x00"),
            b"",
        ),
        "a",
        '["\\"\\\\\\n\\u0001\x7fé",true,9223372036854775807,200.0,"NaN",{"bytesValue":"AA=="},null]',
    ),
    "map": (mapping(pair("a", array(mapping(pair("b"))))), "m", '{"a":[{"b":null}]}'),
    "the last member counts": (string("x") + integer(5), "i", "5"),
    "an array is extended": (array(integer(1)) + array(integer(2)), "a", "[1,2]"),
    "a map is extended": (mapping(pair("a", integer(1))) + mapping(pair("b"), pair("a")), "m", '{"a":null,"b":null}'),
    "another member between starts anew": (array(integer(1)) + integer(1) + array(integer(2)), "a", "[2]"),
    "an unknown field between does not": (array(integer(1)) + varint_field(9, 1) + array(integer(2)), "a", "[1,2]"),
    "nor does a member of the wrong wire type": (
        array(integer(1)) + varint_field(1, 1) + array(integer(2)),
        "a",
        "[1,2]",
    ),
    "a member of the wrong wire type is no member": (bytes_field(3, b"5"), "n", "null"),
}


def test_types_and_texts(decoder: Decoder) -> None:
    """Of attributes and of bodies, where a value that is missing is no text."""
    spans = request(*(span(attributes(9, pair(name, value))) for name, (value, _, _) in VALUES.items()))
    rows = decoder.rows("spans", decoder.decode("traces", spans))
    for row, (name, (_, letter, text)) in zip(rows, VALUES.items(), strict=True):
        assert row["attributes"] == [(name.encode(), text.encode())]
        assert row["attribute_types"] == f"\1{name}\2{letter}\1".encode()
    logs = request(*(log(b"" if value is None else bytes_field(5, value)) for value, _, _ in VALUES.values()))
    bodies = [(row["body_type"], row["body"]) for row in decoder.rows("logs", decoder.decode("logs", logs))]
    assert dict(zip(VALUES, bodies, strict=True)) == {
        name: (letter.encode(), b"" if letter == "n" else text.encode()) for name, (_, letter, text) in VALUES.items()
    }


def test_occurrences_of_a_value_merge(decoder: Decoder) -> None:
    row, _ = stored(decoder, pair("k", array(integer(1))) + bytes_field(2, array(integer(2))))
    assert row["attributes"] == [(b"k", b"[1,2]")]


def test_the_last_key_of_an_attribute_counts(decoder: Decoder) -> None:
    row, _ = stored(decoder, bytes_field(1, b"first") + pair("second", integer(1)))
    assert row["attributes"] == [(b"second", b"1")]


def test_an_attribute_may_have_no_key(decoder: Decoder) -> None:
    row, _ = stored(decoder, bytes_field(2, integer(1)))
    assert (row["attributes"], row["attribute_types"]) == ([(b"", b"1")], b"\1\2i\1")


REPAIRED = {
    b"\xff": "�",
    b"\xff\xff": "��",
    b"a\xf0\x9f\x92b": "a�b",
    b"\xed\xa0\x80": "���",
    b"\xc0\xaf": "��",
    b"\xf4\x90\x80\x80": "����",
    b"\xe6\x97": "�",
}


def test_each_maximal_ill_formed_part_becomes_one_replacement(decoder: Decoder) -> None:
    for raw, text in REPAIRED.items():
        row, modified = stored(decoder, pair(raw, array(string(raw))))
        assert row["attributes"] == [(text.encode(), f'["{text}"]'.encode())]
        assert modified == {"repaired": 1}


TRUNCATED = {
    "nothing to do": (string("12345678"), "12345678", False),
    "one too many": (string("123456789"), "12345678", True),
    "back to the character": (string("1234567é"), "1234567", True),
    "four bytes": (string("12345👩"), "12345", True),
    "bytes as many as fit": (binary(b"123456789"), "MTIzNDU2Nzg=", True),
    "an array becomes a string": (array(string("abcdef")), '["abcdef', True),
    "an array that fits": (array(string("abcd")), '["abcd"]', False),
    "a map becomes a string": (mapping(pair("kéy", integer(100))), '{"kéy":', True),
}


def test_values_are_cut_to_their_limit(decoder: Decoder) -> None:
    for name, (value, text, truncated) in TRUNCATED.items():
        row, modified = stored(decoder, pair("k", value), policy=SHORT)
        assert row["attributes"] == [(b"k", text.encode())], name
        assert modified == ({"truncated": 1} if truncated else {}), name
        if truncated and value[0] >> 3 in (5, 6):
            assert row["attribute_types"] == b"\1k\2s\1", name


def test_keys_are_cut_to_their_limit_and_then_may_be_the_same(decoder: Decoder) -> None:
    row, modified = stored(decoder, pair("abcde", integer(1)), pair("abcdf", integer(2)), policy=SHORT)
    assert row["attributes"] == [(b"abcd", b"2")]
    assert modified == {"truncated": 1, "deduplicated": 1}


def test_nested_strings_are_not_cut_but_nested_keys_are(decoder: Decoder) -> None:
    policy = Policy(max_value_bytes=40, max_key_bytes=4)
    row, modified = stored(decoder, pair("k", mapping(pair("abcde", string("x" * 20)))), policy=policy)
    assert row["attributes"] == [(b"k", b'{"abcd":"' + b"x" * 20 + b'"}')]
    assert modified == {"truncated": 1}


def test_a_duplicate_key_takes_the_last_value_at_the_first_place(decoder: Decoder) -> None:
    row, modified = stored(decoder, pair("a", string(b"\xff")), pair("b", integer(2)), pair("a", integer(3)))
    assert row["attributes"] == [(b"a", b"3"), (b"b", b"2")]
    assert row["attribute_types"] == b"\1a\2i\1b\2i\1"
    assert modified == {"deduplicated": 1}  # what was replaced leaves no flag


def test_the_flags_of_a_key_are_those_of_its_first_occurrence(decoder: Decoder) -> None:
    row, modified = stored(decoder, pair("�", integer(1)), pair(b"\xff", integer(2)))
    assert row["attributes"] == [("�".encode(), b"2")]
    assert modified == {"deduplicated": 1}


def test_nested_keys_are_deduplicated_without_a_limit(decoder: Decoder) -> None:
    entries = (pair("a", integer(1)), pair("b"), pair("c"), pair("a", integer(2)))
    row, modified = stored(decoder, pair("k", mapping(*entries)), policy=Policy(max_attributes=1))
    assert row["attributes"] == [(b"k", b'{"a":2,"b":null,"c":null}')]
    assert modified == {"deduplicated": 1}


def test_attributes_beyond_the_limit_are_dropped_and_counted(decoder: Decoder) -> None:
    sent = [pair("a", integer(1)), pair("b"), pair(b"c\xff", string(b"\xff")), pair("a", integer(4)), pair(b"c\xff")]
    row, modified = stored(decoder, *sent, policy=Policy(max_attributes=2))
    assert row["attributes"] == [(b"a", b"4"), (b"b", b"null")]
    assert row["dropped_attributes_count"] == 2
    assert modified == {"deduplicated": 1}


def test_keys_and_types_are_one_text_in_order(decoder: Decoder) -> None:
    sent = [pair("http.status_code", integer(1)), pair("größe", double(1.0)), pair("s", string("x"))]
    row, _ = stored(decoder, *sent)
    assert row["attribute_types"] == "\1http.status_code\2i\1größe\2d\1s\2s\1".encode()
    assert stored(decoder)[0]["attribute_types"] == b""


def test_resource_and_scope_are_one_text_each(decoder: Decoder) -> None:
    resource = attributes(1, pair("service.name", string("shop")), pair("pid", integer(3)), pair("", string("")))
    scope = attributes(3, pair("own", mapping(pair("a", double(math.inf)))))
    (row,) = decoder.rows("spans", decoder.decode("traces", request(span(), resource=resource, scope=scope)))
    assert row["resource"] == b"\1service.name\2sshop\1pid\2i3\1\2s\1"
    assert row["scope"] == b'\1own\2m{"a":"Infinity"}\1'


def test_the_bytes_that_part_a_list_are_escaped_in_its_keys_and_texts(decoder: Decoder) -> None:
    odd = "\0a\1b\2c\3d\3A\4"
    resource, scope = attributes(1, pair(odd, string(odd))), attributes(3, pair(odd, string(odd)))
    body = request(span(attributes(9, pair(odd, string(odd)))), resource=resource, scope=scope)
    (row,) = decoder.rows("spans", decoder.decode("traces", body))
    escaped = b"\0a\3Ab\3Bc\3Cd\3CA\4"
    assert row["attributes"] == [(odd.encode(), odd.encode())]
    assert row["attribute_types"] == b"\1" + escaped + b"\2s\1"
    assert row["resource"] == row["scope"] == b"\1" + escaped + b"\2s" + escaped + b"\1"
    assert as_list(row["resource"]) == [(odd.encode(), b"s" + odd.encode())]


def test_a_double_of_wrong_length_is_no_double(decoder: Decoder) -> None:
    row, _ = stored(decoder, pair("k", double_field(1, 1.0)))
    assert row["attribute_types"] == b"\1k\2n\1"
