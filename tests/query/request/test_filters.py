"""Filters as they are written: both encodings, every bound from both sides, one issue per offending field."""

import json
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chassis.errors import BadRequest
from chassis.http.validation import Issues, decode_json
from query.request import filter_syntax
from query.request.filters import Filter, Op, WrittenFilter, check_filters, condition, parse_filters
from query.request.predicates import canonical_text
from query.rows import ERRORS, SPANS, TelemetryTable
from query.statements import (
    Attribute,
    CompareOp,
    IntegerIn,
    IntegerRange,
    MatchPosition,
    NumberComparison,
    RegexMatches,
    TextIn,
    TextMatches,
)
from tests.fuzz.targets.filters import as_text, check_encodings


def parse(text: str) -> tuple[Filter, ...] | list[tuple[str, str]]:
    issues = Issues()
    filters = parse_filters(text, "query.filters", issues)
    try:
        issues.raise_if_any()
    except BadRequest as error:
        return [(issue.path, issue.code) for issue in error.details or ()]
    return filters


def written(*filters: dict[str, Any]) -> str:
    return json.dumps(filters)


def one(op: str, value: Any = "v", key: str = "k") -> str:
    return written({"key": key, "op": op, "value": value})


def test_a_repeated_key_in_the_json_of_a_query_string_is_named() -> None:
    twice = '[{"key": "a", "op": "eq", "value": "1"}, {"key": "k", "op": "eq", "value": "1", "valu\\u0065": "2"}]'
    assert parse(twice) == [("query.filters[1].value", "repeated")]
    assert parse('[{"any": [{"key": "k", "op": "exists", "op": "not_exists"}]}]') == [
        ("query.filters[0].any[0].op", "repeated")
    ]


@pytest.mark.parametrize("op", [op for op in Op if op not in (Op.EXISTS, Op.NOT_EXISTS)])
def test_every_operator_takes_a_value(op: Op) -> None:
    assert parse(one(op)) == (Filter("k", op, ("v",)),)
    assert parse(written({"key": "k", "op": op})) == [("query.filters[0].value", "missing")]
    assert parse(one(op, None)) == [("query.filters[0].value", "missing")]


@pytest.mark.parametrize("op", [Op.EXISTS, Op.NOT_EXISTS])
def test_existence_takes_none(op: Op) -> None:
    assert parse(written({"key": "k", "op": op})) == (Filter("k", op),)
    assert parse(one(op, None)) == (Filter("k", op),)
    assert parse(one(op, "")) == (Filter("k", op),)
    assert parse(one(op)) == [("query.filters[0].value", "not_allowed")]


def test_lists_are_lists_or_separated_by_commas() -> None:
    assert parse(one("in", ["a,b", "c"])) == (Filter("k", Op.IN, ("a,b", "c")),)
    assert parse(one("not_in", "a,b")) == (Filter("k", Op.NOT_IN, ("a", "b")),)
    assert parse(one("eq", ["a"])) == [("query.filters[0].value", "type")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *(("100", "100"), ("9223372036854775807", "9223372036854775807")),
        *(("-9223372036854775808", "-9223372036854775808"), ("18446744073709551617", "18446744073709551617")),
        *(("1.0", "1"), ("1e3", "1000"), ("0.1", "0.1"), ("-0", "0"), ("-0.0", "-0"), ("1e23", "1e+23")),
        *(("true", "true"), ("false", "false")),
    ],
)
def test_a_number_or_a_boolean_stands_for_its_text(value: str, text: str) -> None:
    assert parse(f'[{{"key": "k", "op": "eq", "value": {value}}}]') == (Filter("k", Op.EQ, (text,)),)
    assert parse(f'[{{"key": "k", "op": "in", "value": {value}}}]') == (Filter("k", Op.IN, (text,)),)
    assert parse(f'[{{"key": "k", "op": "not_in", "value": ["a,b", {value}]}}]') == (
        Filter("k", Op.NOT_IN, ("a,b", text)),
    )
    assert parse(f'[{{"key": "k", "op": "exists", "value": {value}}}]') == [("query.filters[0].value", "not_allowed")]


@pytest.mark.parametrize("digits", range(4_295, 4_305))
def test_integers_of_thousands_of_digits_are_faults(digits: int) -> None:
    """Python reads and writes 4 300."""
    issues = Issues()
    raw = msgspec.json.encode([{"key": "k", "op": "eq", "value": msgspec.Raw(b"9" * digits)}])
    written = decode_json(list[WrittenFilter], raw, "body.filters", issues)
    assert written is None or not check_filters(written, "body.filters", issues)[0].values
    assert [issue.path.removesuffix("[0].value") for issue in issues] == ["body.filters"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1]", [("query.filters[0]", "type")]),
        ("[", [("query.filters", "malformed")]),
        ("[{}]", [("query.filters[0].key", "missing"), ("query.filters[0].op", "missing")]),
        (one("like"), [("query.filters[0].op", "not_allowed")]),
        (one("eq", {}), [("query.filters[0].value", "type")]),
        (one("eq", [5]), [("query.filters[0].value", "type")]),
        (one("in", [None]), [("query.filters[0].value[0]", "type")]),
        (one("in", ["a", ["b"]]), [("query.filters[0].value[1]", "type")]),
        ('[{"key":"k","op":"eq","value":1e400}]', None),
        ('[{"key":"k","op":"eq","value":NaN}]', [("query.filters", "malformed")]),
        ('[{"key":"k","op":"eq","value":' + "9" * 3000 + "}]", [("query.filters[0].value", "too_long")]),
        (one("eq", key=""), [("query.filters[0].key", "too_short")]),
        (one("eq", key="attr:"), [("query.filters[0].key", "length")]),
        (
            written({"key": "k", "op": "eq", "value": "v", "not": True}, {"key": 1, "op": "eq", "value": "v"}),
            [("query.filters[0].not", "unknown_field"), ("query.filters[1].key", "type")],
        ),
        (
            written({"key": "k", "op": "x", "value": {}}),
            [("query.filters[0].op", "not_allowed"), ("query.filters[0].value", "type")],
        ),
        ('[{"key":"\\ud800","op":"exists"}]', None),
        ("[" * 2000, None),
        ("[" * 2000 + "]" * 2000, None),
    ],
)
def test_json_faults_are_named(text: str, expected: list[tuple[str, str]] | None) -> None:
    found = parse(text)
    assert isinstance(found, list)
    if expected is not None:
        assert found == expected


def test_bounds_from_both_sides() -> None:
    assert len(parse(written(*[{"key": "k", "op": "exists"}] * 20))) == 20
    assert parse(written(*[{"key": "k", "op": "exists"}] * 21)) == [("query.filters", "too_many")]
    assert parse(one("eq", key="k" * 256)) == (Filter("k" * 256, Op.EQ, ("v",)),)
    assert parse(one("eq", key="k" * 257)) == [("query.filters[0].key", "length")]
    assert parse(one("eq", key="attr:" + "k" * 256)) == (Filter("attr:" + "k" * 256, Op.EQ, ("v",)),)
    assert parse(one("eq", key="attr:" + "k" * 257)) == [("query.filters[0].key", "length")]
    assert parse("attr:" + "k" * 256 + ":v") == (Filter("attr:" + "k" * 256, Op.EQ, ("v",)),)
    assert parse("attr:" + "k" * 257 + ":v") == [("query.filters[0].key", "length")]
    assert parse(one("eq", "v" * 1024)) == (Filter("k", Op.EQ, ("v" * 1024,)),)
    assert parse(one("eq", "v" * 1025)) == [("query.filters[0].value", "too_long")]
    assert parse(one("in", ["v"] * 100)) == (Filter("k", Op.IN, ("v",) * 100),)
    assert parse(one("in", ["v"] * 101)) == [("query.filters[0].value", "too_many")]
    padded = one("eq").ljust(4000)
    assert parse(padded) == (Filter("k", Op.EQ, ("v",)),)
    assert parse(padded + " ") == [("query.filters", "too_long")]


def test_bounds_count_characters_and_not_bytes() -> None:
    assert parse(json.dumps([{"key": "😀" * 256, "op": "eq", "value": "é" * 1024}], ensure_ascii=False)) == (
        Filter("😀" * 256, Op.EQ, ("é" * 1024,)),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("  ", ()),
        ("http.route:/x", [Filter("http.route", Op.EQ, ("/x",))]),
        ("-http.route:/x", [Filter("http.route", Op.NEQ, ("/x",))]),
        ("a:1 b:2", [Filter("a", Op.EQ, ("1",)), Filter("b", Op.EQ, ("2",))]),
        ("d:>100", [Filter("d", Op.GT, ("100",))]),
        (
            "d:>=1.5 d:<2 d:<=-3",
            [Filter("d", Op.GTE, ("1.5",)), Filter("d", Op.LT, ("2",)), Filter("d", Op.LTE, ("-3",))],
        ),
        ('startTime:>"2026-01-01 10:00:00"', [Filter("startTime", Op.GT, ("2026-01-01 10:00:00",))]),
        ("startTime:>2026-01-01T10:00:00Z", [Filter("startTime", Op.GT, ("2026-01-01T10:00:00Z",))]),
        ("has:k !has:k -has:k", [Filter("k", Op.EXISTS), Filter("k", Op.NOT_EXISTS), Filter("k", Op.NOT_EXISTS)]),
        ("k:* -k:*", [Filter("k", Op.EXISTS), Filter("k", Op.NOT_EXISTS)]),
        ('k:"a b"', [Filter("k", Op.EQ, ("a b",))]),
        (r'k:"a \"b\" \\ *"', [Filter("k", Op.EQ, (r'a "b" \ *',))]),
        ('k:""', [Filter("k", Op.EQ, ("",))]),
        ("k:", [Filter("k", Op.EQ, ("",))]),
        ('"a key:x":v', [Filter("a key:x", Op.EQ, ("v",))]),
        ("k:a*", [Filter("k", Op.STARTS_WITH, ("a",))]),
        ("k:*a", [Filter("k", Op.ENDS_WITH, ("a",))]),
        ("k:*a* -k:*a*", [Filter("k", Op.CONTAINS, ("a",)), Filter("k", Op.NOT_CONTAINS, ("a",))]),
        ('k:"a*"', [Filter("k", Op.EQ, ("a*",))]),
        ('k:*"a b"*', [Filter("k", Op.CONTAINS, ("a b",))]),
        ('-k:*"a b"*', [Filter("k", Op.NOT_CONTAINS, ("a b",))]),
        ('k:"a b"* k:*"a b"', [Filter("k", Op.STARTS_WITH, ("a b",)), Filter("k", Op.ENDS_WITH, ("a b",))]),
        (
            '(a:1 or b:"x) y"* OR -c:*"or"*)',
            [
                Filter(
                    "a",
                    Op.EQ,
                    ("1",),
                    (Filter("b", Op.STARTS_WITH, ("x) y",)), Filter("c", Op.NOT_CONTAINS, ("or",))),
                )
            ],
        ),
        (r'k:*"a \"b\" \\ *"*', [Filter("k", Op.CONTAINS, (r'a "b" \ *',))]),
        ('k:*""* k:""* k:*""', [Filter("k", op, ("",)) for op in (Op.CONTAINS, Op.STARTS_WITH, Op.ENDS_WITH)]),
        ('k:"*" k:*"*"* k:"*"*', [Filter("k", op, ("*",)) for op in (Op.EQ, Op.CONTAINS, Op.STARTS_WITH)]),
        ("k:*/* k:a*b", [Filter("k", Op.CONTAINS, ("/",)), Filter("k", Op.EQ, ("a*b",))]),
        (r"k:a\b k:[a\b]", [Filter("k", Op.EQ, (r"a\b",)), Filter("k", Op.IN, (r"a\b",))]),
        ('attr:"a b":*"c d"*', [Filter("attr:a b", Op.CONTAINS, ("c d",))]),
        ('k:>*"1"', [Filter("k", Op.GT, ('*"1"',))]),
        ('k:*"a', [("query.filters", "syntax")]),
        ('k:*"a"b*', [("query.filters", "syntax")]),
        ('k:"a"**', [("query.filters", "syntax")]),
        ('-k:"a b"*', [("query.filters", "syntax")]),
        ("k:[a,b] -k:[a]", [Filter("k", Op.IN, ("a", "b")), Filter("k", Op.NOT_IN, ("a",))]),
        ('k:[ a , "b, c" ]', [Filter("k", Op.IN, ("a", "b, c"))]),
        ("attr:name:x", [Filter("attr:name", Op.EQ, ("x",))]),
        ("-attr:name:x", [Filter("attr:name", Op.NEQ, ("x",))]),
        ("has:attr:name", [Filter("attr:name", Op.EXISTS)]),
        ("url:http://x/?a=b", [Filter("url", Op.EQ, ("http://x/?a=b",))]),
        ("k:a:b", [Filter("k", Op.EQ, ("a:b",))]),
        ("ключ:значение", [Filter("ключ", Op.EQ, ("значение",))]),
        ("word", [("query.filters", "syntax")]),
        ("attr:name", [("query.filters", "syntax")]),
        (":v", [("query.filters", "syntax")]),
        ("has:", [("query.filters", "syntax")]),
        ('k:"a', [("query.filters", "syntax")]),
        ('k:"a"b', [("query.filters", "syntax")]),
        ("k:[a", [("query.filters", "syntax")]),
        ("k:[a]b", [("query.filters", "syntax")]),
        ("-k:>1", [("query.filters", "syntax")]),
        ("-k:a*", [("query.filters", "syntax")]),
        ('{"key":"k"}', [("query.filters", "syntax")]),
        (" ".join(["k:v"] * 21), [("query.filters", "too_many")]),
        ("k" * 257 + ":v", [("query.filters[0].key", "length")]),
        ("k:" + "v" * 1025, [("query.filters[0].value", "too_long")]),
    ],
)
def test_the_language(text: str, expected: Any) -> None:
    assert parse(text) == (tuple(expected) if expected and isinstance(expected[0], Filter) else expected)


EXAMPLE = 'For example: serviceName:cart or name:*"two words"*.'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("body:*connection refused*", 'At character 18: expected key:value. {} body:*"connection refused"*.'),
        ("-body:*no route to host*", 'At character 11: expected key:value. {} -body:*"no route to host"*.'),
        ("-body:no route*", 'At character 10: expected key:value. {} -body:*"no route"*.'),
        ("body:*dial tcp: refused*", 'At character 17: expected key:value. {} body:*"dial tcp: refused"*.'),
        ("name:GET /cart a:1", 'At character 10: expected key:value. {} name:"GET /cart".'),
        ('name:*5" disk*', r'At character 10: expected key:value. {} name:*"5\" disk"*.'),
        ("name:a " + "b" * 300, 'At character 8: expected key:value. {} key:*"two words"*.'),
        ("(a:1 or b:*x y* or c:2)", "At character 14: expected 'or' or ')'. {} b:*\"x y\"*."),
        ("connection refused", f"At character 1: expected key:value. {EXAMPLE}"),
        ('a:"b" refused', f"At character 7: expected key:value. {EXAMPLE}"),
        ("a:1 or b:2", 'At character 5: expected key:value. Put terms joined by "or" in parentheses: (a:1 or b:2).'),
        (
            '"a',
            r'At character 1: expected a closing quote. Write a quote in a quoted value as \": "5\" disk".',
        ),
        (
            'k:"a"b',
            'At character 6: expected a space. Quote the whole value: key:"two words", key:*"two words"*.',
        ),
        ("k:[a b]", "At character 6: expected ',' or ']'. Quote an item with spaces: [\"a b\",c]."),
        (
            "body:**",
            'At character 6: a wildcard is one star: body:*. Quote stars that are text: body:"**".',
        ),
        (
            "a:1 -body:**x*",
            'At character 11: a wildcard is one star: -body:*x*. Quote stars that are text: -body:"**x*".',
        ),
        (
            "body:" + "x" * 300 + "**",
            'At character 6: a wildcard is one star: key:*text*. Quote stars that are text: key:"**text**".',
        ),
        (r'body:"a\\\q\"b"', r'At character 10: write a backslash within quotes as \\: "a\\\\q\"b".'),
        (r'k:["a","\n"]', r'At character 9: write a backslash within quotes as \\: "\\n".'),
        (r'"k\y":1', r'At character 3: write a backslash within quotes as \\: "k\\y".'),
        ('k:"' + "x" * 300 + r'\q"', r'At character 304: write a backslash within quotes as \\: "C:\\temp".'),
        ("-(a:1)", "At character 2: a group cannot be negated. Negate its terms instead: -a:1 -b:2."),
    ],
)
def test_the_message_of_a_fault_shows_the_right_spelling(text: str, expected: str) -> None:
    issues = Issues()
    parse_filters(text, "query.filters", issues)
    assert [issue.message for issue in issues][-1] == expected.replace("{}", "Quote a value with spaces:")


def test_wrong_stars_and_escapes_leave_the_other_faults_named() -> None:
    assert parse(r'k:** k:"\q" (a:*x** or b:["\w"]) k:>1 -k:>1') == [("query.filters", "syntax")] * 5


def test_every_fault_of_a_text_is_named() -> None:
    """And those of the filters beside it, by their place."""
    text = f"word {'k' * 257}:1 -k:>1 name:{'v' * 1025} or name:*a b* {'m' * 257}:1 k:[a b"
    assert parse(text) == [
        *[("query.filters", "syntax")] * 5,
        ("query.filters[1].key", "length"),
        ("query.filters[3].value", "too_long"),
        ("query.filters[5].key", "length"),
    ]


TEMPLATES = ["k:{}", "k:{}*", "k:*{}*", "-k:{}", "!k:{}", "-k:{}*", "-k:*{}", "-k:*{}*", "(a:1 or -k:{}*)"]
SHOWN = re.compile(r"(?:Quote a value with spaces|a wildcard is one star|Quote stars that are text): (.+?)\.(?= |$)")


@given(st.lists(st.text('ab:*"', min_size=1, max_size=5), max_size=4).map(" ".join), st.sampled_from(TEMPLATES))
@example(": a a:", "-k:*{}*")  # the hint has one star
@example("a b", "-k:{}*")
@example("a*", "-k:{}*")
@example('**"a', "k:{}")
def test_the_spelling_that_a_message_shows_is_right(words: str, template: str) -> None:
    """The value of the term in the hint is a part of the text, for all words."""
    text = template.format(words)
    try:
        filter_syntax.parse(text)
    except filter_syntax.FilterSyntaxError as error:
        for shown in SHOWN.findall(" ".join(error.faults)):
            (term,) = parse(shown)
            assert isinstance(term, Filter), shown
            assert all(value in text for value in term.values), shown


@given(
    st.lists(
        st.lists(
            st.builds(
                Filter,
                st.text('ab :"*(', min_size=1, max_size=4),
                st.sampled_from([op for op in Op if op is not Op.REGEX]),
                st.lists(st.text('ab \\:"*[,]()\u00a0', max_size=6), min_size=1, max_size=3).map(tuple),
            ),
            min_size=1,
            max_size=3,
        ),
        max_size=6,
    )
)
def test_filters_written_as_text_are_the_same_filters(groups: list[list[Filter]]) -> None:
    """Every operator that text has, alone and in groups, with any key and value: as the page and people write them."""

    def bounded(one: Filter) -> Filter:
        size = {Op.EXISTS: 0, Op.NOT_EXISTS: 0, Op.IN: 3, Op.NOT_IN: 3}.get(one.op, 1)
        return replace(one, values=one.values[:size])

    filters = tuple(
        replace(first, alternatives=tuple(others)) for first, *others in (map(bounded, group) for group in groups)
    )
    text = as_text(filters)
    assert text is not None
    assert parse(text) == filters


@given(st.text(max_size=300))
def test_any_text_is_filters_or_issues(text: str) -> None:
    found = parse(text)
    if isinstance(found, tuple):
        check_encodings(found)


@given(st.text(min_size=1, max_size=200), st.text(max_size=200))
def test_quotes_hold_any_key_and_value(key: str, value: str) -> None:
    quoted = filter_syntax.quoted
    found = parse(f"{quoted(key)}:{quoted(value)}")
    if key == "attr:":
        assert found == [("query.filters[0].key", "length")]
    else:
        assert found == (Filter(key, Op.EQ, (value,)),)


def bound(key: str, op: Op, *values: str) -> Any:
    issues = Issues()
    found = condition(Filter(key, op, values), SPANS, 10**18, "p", issues)
    try:
        issues.raise_if_any()
    except BadRequest as error:
        return [(issue.path, issue.code) for issue in error.details or ()]
    assert found is not None
    return found.predicate


@pytest.mark.parametrize("op", [Op.GT, Op.GTE, Op.LT, Op.LTE])
def test_an_order_needs_a_number_or_for_a_time_a_time(op: Op) -> None:
    for key in ("durationMs", "http.status_code", "name"):
        assert bound(key, op, "fast") == [("p.value", "type")]
        assert bound(key, op, "NaN") == [("p.value", "type")]
    assert bound("startTime", op, "fast") == [("p.value", "format")]
    assert bound("attr:startTime", op, "now") == [("p.value", "type")]
    assert bound("startTime", op, "now-15m") is not None


def test_equality_with_a_time_needs_a_time() -> None:
    assert bound("startTime", Op.EQ, "1970-01-01") == IntegerIn((0,))
    assert bound("startTime", Op.IN, "1970-01-01", "x") == [("p.value", "format")]


def test_a_duration_equals_in_nanoseconds() -> None:
    assert bound("durationMs", Op.EQ, "12.345678") == IntegerIn((12_345_678,))
    assert bound("durationMs", Op.IN, "1", "0.0000001", "long") == IntegerIn((1_000_000,))


def test_a_time_may_be_a_number_in_json() -> None:
    assert bound("startTime", Op.EQ, canonical_text(1_795_184_400_000_000_000)) == IntegerIn(
        (1_795_184_400_000_000_000,)
    )
    assert bound("startTime", Op.EQ, canonical_text(1.7951844e18)) == IntegerIn((1_795_184_400_000_000_000,))
    assert bound("startTime", Op.GTE, canonical_text(1.7951844e18)) == IntegerRange(low=1_795_184_400_000_000_000)


ENUMS = [
    (SPANS, "kind", ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")),
    (SPANS, "statusCode", ("UNSET", "OK", "ERROR")),
    (ERRORS, "source", ("span", "log")),
]


@pytest.mark.parametrize("op", [Op.EQ, Op.NEQ, Op.IN, Op.NOT_IN])
@pytest.mark.parametrize(("signal", "key", "names"), ENUMS)
def test_equality_with_an_enum_needs_one_of_its_names(
    signal: TelemetryTable, key: str, names: tuple[str, ...], op: Op
) -> None:
    for name in names:
        assert meant(signal, Filter(key, op, (name,))) == TextIn((name,))
    for wrong in ("foo", "", "2", " ERROR", "ERROR ", "span\n", "K", "\u017ferver", "ERRO\u0156", names[0] + "\0"):
        assert meant(signal, Filter(key, op, (wrong,))) == f"p.value: Must be one of {', '.join(names)}."
        assert isinstance(meant(signal, Filter(f"attr:{key}", op, (wrong,))), TextIn) is signal.has_attributes
    if op in (Op.IN, Op.NOT_IN):
        assert meant(signal, Filter(key, op, (names[1], names[0], names[1]))) == TextIn((names[1], names[0]))
        assert isinstance(meant(signal, Filter(key, op, (names[0], "foo"))), str)


@pytest.mark.parametrize("kind", ["server", "Server", "sERVER"])
def test_kinds_may_be_written_in_any_case_and_nothing_else_may(kind: str) -> None:
    assert meant(SPANS, Filter("kind", Op.EQ, (kind,))) == TextIn(("SERVER",))
    assert meant(SPANS, Filter("kind", Op.NOT_IN, (kind, "SERVER"))) == TextIn(("SERVER",))
    assert meant(SPANS, Filter("statusCode", Op.EQ, ("error",))) == "p.value: Must be one of UNSET, OK, ERROR."
    assert isinstance(meant(ERRORS, Filter("source", Op.EQ, ("Span",))), str)


@pytest.mark.parametrize(
    ("op", "test"),
    [
        (Op.CONTAINS, TextMatches(MatchPosition.ANYWHERE, "err")),
        (Op.STARTS_WITH, TextMatches(MatchPosition.START, "err")),
        (Op.ENDS_WITH, TextMatches(MatchPosition.END, "err")),
        (Op.REGEX, RegexMatches("err")),
    ],
)
def test_pieces_of_an_enum_are_any_text(op: Op, test: Any) -> None:
    assert meant(SPANS, Filter("statusCode", op, ("err",))) == test


def meant(signal: TelemetryTable, filter_: Filter) -> Any:
    """The test, or the only issue."""
    issues = Issues()
    found = condition(filter_, signal, 0, "p", issues)
    told = [f"{issue.path}: {issue.message}" for issue in issues]
    assert (found is None) is (len(told) == 1)
    return told[0] if found is None else found.predicate


def test_attr_forces_the_attribute() -> None:
    issues = Issues()
    found = condition(Filter("attr:name", Op.EQ, ("x",)), SPANS, 0, "p", issues)
    assert found is not None
    assert found.subject == Attribute("name")
    assert found.predicate == TextIn(("x",))


def test_a_numeric_bound_is_kept_exactly() -> None:
    assert bound("k", Op.GT, "9007199254740993") == NumberComparison(CompareOp.GT, Fraction(9007199254740993))
