"""The page's modules without DOM, held against a computation of our own over drawn data: critical path and sums of a
trace, times of the address, numbers, the text of filters, figures for people.
"""

import hashlib
import itertools
import json
import math
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pytest

from chassis.http.validation import Issues
from query.request.filter_syntax import FilterSyntaxError, Term, parse
from query.request.filters import parse_filters, resolve_key
from query.rows import LOGS, SPANS, TraceRowColumns
from query.statements import Attribute
from query.trace.waterfall import encode
from query.values import TimestampError, ceil_to_second, format_timestamp, parse_timestamp
from tests.web.modules import Modules

NOW_MS: Final = 1_795_820_400_123
DEEP: Final = 10_000
HOSTILE: Final = (
    *("<b>", 'a"b', "a\\b", "a b", "a\u00a0b", "a\u2028b", "a\x1cb", "a\ufeffb", "\u202e", "", "(", ")", "[", "*"),
)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Modules:
    return Modules(tmp_path_factory.mktemp("modules"))


# Traces. They are laid out by the service, as those that the page gets.


def span(number: int, start: int, duration: int, parent: int = 0, **other: Any) -> TraceRowColumns:
    fields: dict[str, Any] = dict.fromkeys(TraceRowColumns._fields, 0) | {
        "span_id": number.to_bytes(8),
        "parent_span_id": parent.to_bytes(8),
        "name": f"n{number % 5}",
        "service_name": f"s{number % 3}",
        "status_message": "",
        "release": "",
        "environment": "",
        "start_ns": start,
        "duration_ns": duration,
    }
    return TraceRowColumns(**(fields | other))


def table(spans: list[TraceRowColumns]) -> Any:
    ordered = sorted(spans, key=lambda each: (each.start_ns, each.span_id))
    encoded = encode(bytes(16), ordered, len(ordered), None)
    assert encoded is not None
    return json.loads(encoded)


def drawn_trace(draw: random.Random) -> list[TraceRowColumns]:
    """A tree whose children overlap, begin before their parents, end after them or outlive them; with orphans."""
    count = draw.randrange(1, 40)
    longest = draw.choice((3, 100, 10**12))
    spans = []
    for number in range(1, count + 1):
        parent = draw.choice((0, 999, *range(1, number), *range(1, number))) if number > 1 else 0
        other = {"status_code": draw.randrange(3)}
        spans.append(span(number, draw.randrange(2 * longest), draw.randrange(longest), parent, **other))
    return spans


class Stretch(NamedTuple):
    row: int
    start: int
    stop: int


class Rows:
    """The columns of a trace, as the computations here read them."""

    def __init__(self, data: Any) -> None:
        columns = data["columns"]
        self.parents: list[int] = columns["parent"]
        self.starts: list[int] = columns["startOffsetNs"]
        self.stops = [start + length for start, length in zip(self.starts, columns["durationNs"], strict=True)]
        self.children: dict[int, list[int]] = defaultdict(list)
        for row, parent in enumerate(self.parents):
            self.children[parent].append(row)


def critical_at(rows: Rows, root: int, moment: Decimal) -> int:
    """The row that a moment inside the root waits for: from the root down, the child that runs then and ended last of
    those that began before what is already explained.
    """
    row, start, until = root, Decimal(rows.starts[root]), Decimal(rows.stops[root])
    while True:
        left = [child for child in rows.children[row] if rows.stops[child] > rows.starts[child]]
        for child in sorted(left, key=lambda each: (rows.stops[each], each), reverse=True):
            if rows.starts[child] >= until or rows.stops[child] <= start:
                continue
            low, high = max(start, Decimal(rows.starts[child])), min(until, Decimal(rows.stops[child]))
            if moment > high:
                return row  # after the last child
            if moment > low:
                row, start, until = child, low, high
                break
            until = low
        else:
            return row


def test_a_critical_path_is_what_each_moment_waits_for(modules: Modules) -> None:
    draw = random.Random(1)
    traces = [table(drawn_trace(draw)) for _ in range(150)]
    paths = modules.each("path", [[trace] for trace in traces])
    for trace, answer in zip(traces, paths, strict=True):
        rows = Rows(trace)
        path = [Stretch(each["row"], each["fromNs"], each["toNs"]) for each in answer]
        assert all(each.start < each.stop for each in path)
        assert [each.stop for each in path[1:]] == [each.start for each in path[:-1]]  # no gap, no overlap
        if rows.stops[0] == rows.starts[0]:
            assert path == []
            continue
        assert (path[-1].start, path[0].stop) == (rows.starts[0], rows.stops[0])
        edges = sorted({edge for edge in (*rows.starts, *rows.stops) if rows.starts[0] <= edge <= rows.stops[0]})
        for low, high in pairwise(edges):
            moment = Decimal(low + high) / 2
            (on_path,) = {each.row for each in path if each.start < moment < each.stop}
            assert on_path == critical_at(rows, 0, moment), trace


def test_the_critical_path_of_a_subtree(modules: Modules) -> None:
    spans = [span(1, 0, 100), span(2, 10, 80, 1), span(3, 20, 30, 2), span(4, 60, 10, 2), span(5, 95, 5, 1)]
    path = modules.call("path", table(spans), 1)
    assert [(each["row"], each["fromNs"], each["toNs"]) for each in path] == [
        (1, 70, 90),
        (3, 60, 70),
        (1, 50, 60),
        (2, 20, 50),
        (1, 10, 20),
    ]


def test_chains_and_fans_of_ten_thousand(modules: Modules) -> None:
    chain = table([span(at + 1, at, 3 * DEEP - 2 * at, at) for at in range(DEEP)])
    assert chain["maxDepth"] == DEEP - 1
    path = modules.call("path", chain)
    below = [(DEEP - 1, DEEP - 1, 2 * DEEP + 1)]
    after = [(at, 3 * DEEP - at - 1, 3 * DEEP - at) for at in range(DEEP - 1)]
    before = [(at, at, at + 1) for at in reversed(range(DEEP - 1))]
    assert [(each["row"], each["fromNs"], each["toNs"]) for each in path] == after + below + before
    assert modules.call("ends", chain) == [DEEP] * DEEP
    assert modules.call("shown", chain, [0]) == [0]
    assert modules.call("shown", chain, [DEEP - 2]) == list(range(DEEP - 1))
    (total,) = [each for each in modules.call("totals", chain) if (each["service"], each["name"]) == ("s0", "n0")]
    assert total["spans"] == sum(at % 15 == 0 for at in range(1, DEEP + 1))
    fan = table([span(1, 0, DEEP), *(span(at + 2, at, 1, 1) for at in range(DEEP))])
    path = modules.call("path", fan)
    assert [each["row"] for each in path] == list(range(DEEP, 0, -1))


def uncovered(rows: Rows, row: int) -> int:
    """Nanoseconds of a row in which none of its children runs, counted between all edges."""
    start, stop = rows.starts[row], rows.stops[row]
    children = rows.children[row]
    inside = (edge for child in children for edge in (rows.starts[child], rows.stops[child]) if start < edge < stop)
    edges = sorted({start, stop, *inside})
    return sum(
        high - low
        for low, high in pairwise(edges)
        if not any(rows.starts[child] <= low and high <= rows.stops[child] for child in children)
    )


def test_sums_by_name_and_subtrees(modules: Modules) -> None:
    draw = random.Random(2)
    traces = [table(drawn_trace(draw)) for _ in range(100)]
    ends = modules.each("ends", [[trace] for trace in traces])
    for trace, totals, end in zip(traces, modules.each("totals", [[each] for each in traces]), ends, strict=True):
        rows, columns, strings = Rows(trace), trace["columns"], trace["strings"]
        expected: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for row in range(trace["rows"]):
            key = strings[columns["service"][row]], strings[columns["name"][row]]
            failed = columns["status"][row] >= 0 and strings[columns["status"][row]] == "ERROR"
            took = rows.stops[row] - rows.starts[row]
            expected[key] = [a + b for a, b in zip(expected[key], (1, failed, took, uncovered(rows, row)), strict=True)]
            below = {row}
            below.update(child for child in range(row, trace["rows"]) if rows.parents[child] in below)
            assert end[row] == row + len(below)
        found = {
            (each["service"], each["name"]): [each["spans"], each["errors"], each["totalNs"], each["selfNs"]]
            for each in totals
        }
        assert found == expected
        assert [each["selfNs"] for each in totals] == sorted((each["selfNs"] for each in totals), reverse=True)


def test_shares_of_services_add_up(modules: Modules) -> None:
    spans = [span(1, 0, 100, service_name="web"), span(2, 10, 60, 1, service_name="db")]
    trace = table(spans)
    assert modules.call("sharesOfServices", trace) == [["db", 0.6], ["web", 0.4]]


# Times


def drawn_times(draw: random.Random) -> Iterator[str]:
    units = ("ms", "s", "m", "h", "d", "w")
    for _ in range(200):
        amount, unit = draw.randrange(10 ** draw.randrange(1, 8)), draw.choice(units)
        yield f"{draw.choice(('now-', 'now+', 'now ', '-'))}{amount}{unit}"
        nanos = draw.randrange(2**63)
        text = format_timestamp(nanos)
        yield text
        yield f"{text[:-1]}{draw.choice(('+', '-', ' '))}{draw.randrange(26):02d}:{draw.randrange(62):02d}"
        yield f"{text[:19]}.{'7' * draw.randrange(1, 20)}z"
        yield str(nanos)[: draw.randrange(1, 20)]
        yield f"{str(nanos)[: draw.randrange(1, 20)]}.{draw.randrange(10**9)}"
        yield f"{text[:4]}-{draw.randrange(14):02d}-{draw.randrange(33):02d}"
    yield from ("now", "", "now-", "now-1y", "2026-02-29", "2024-02-29", "1969-12-31T23:59:59Z", "2262-04-11T23:47:17Z")
    yield from (
        *("2026-11-27T24:00:00Z", "2026-11-27T23:59:60Z", "2026-11-27T23:59", "2026-11-27 23:59:00", "0", "x"),
        "now-\u0661h",
    )


def test_times_are_those_of_the_api(modules: Modules) -> None:
    """Relative ones from the same rounded clock, and what is no time is none."""
    texts = list(drawn_times(random.Random(3)))
    now = ceil_to_second(NOW_MS * 10**6)
    for text, answer in zip(texts, modules.each("toNanoseconds", [[text, NOW_MS] for text in texts]), strict=True):
        try:
            expected: Any = {"bigint": str(parse_timestamp(text, now))}
        except TimestampError:
            expected = None
        assert answer == expected, text


def test_times_are_written_with_all_their_digits(modules: Modules) -> None:
    draw = random.Random(4)
    nanos = [0, 1, 10**9 - 1, 10**9, 2**63 - 1, *(draw.randrange(2**63) for _ in range(300))]
    written = modules.each("fromNanoseconds", [[str(each)] for each in nanos])
    for text, each in zip(written, nanos, strict=True):
        assert text == format_timestamp(each).replace(".000000000Z", "Z")
    shown = modules.each("shownTime", [[format_timestamp(each), "utc", 9] for each in nanos])
    assert shown == [format_timestamp(each)[:-1].replace("T", " ") for each in nanos]


def test_ranges_are_frozen_and_moved_exactly(modules: Modules) -> None:
    now = ceil_to_second(NOW_MS * 10**6)
    hour = 3600 * 10**9
    for text, length in (("now-1h", hour), ("-90m", hour * 3 // 2), ("now-500ms", hour // 7200)):
        given = {"from": text, "to": "now"}
        frozen = modules.call("frozen", given, NOW_MS)
        assert (parse_timestamp(frozen["from"], 0), parse_timestamp(frozen["to"], 0)) == (now - length, now)
        later = modules.call("moved", given, NOW_MS, 0.5)
        assert (parse_timestamp(later["from"], 0), parse_timestamp(later["to"], 0)) == (
            now - length // 2,
            now + length // 2,
        )
        wide = modules.call("moved", given, NOW_MS, 0, 2)
        assert parse_timestamp(wide["to"], 0) - parse_timestamp(wide["from"], 0) == 2 * length
        assert modules.call("lengthSeconds", given, NOW_MS) == length / 1e9
    assert modules.call("frozen", {"from": "yesterday", "to": "now"}, NOW_MS) == {"from": "yesterday", "to": "now"}


# Numbers


def drawn_numbers(draw: random.Random) -> Iterator[str]:
    yield from (
        *("9007199254740993", "-9007199254740993", "18446744073709551615", "200.0", "-0", "-0.0", "0", "1e400"),
        "-1e400",
    )
    yield from ("1e-400", "1E5", "1e+5", "0.1", "0.10", "123456789.123456789", "1700000000000000001", "5e-324", "1.0")
    for _ in range(300):
        yield str(draw.randrange(-(2**64), 2**64))
        yield repr(draw.uniform(-1e6, 1e6))
        yield f"{draw.random()}e{draw.randrange(-320, 320)}" if draw.random() < 0.5 else f"{draw.random():.20f}"


def test_numbers_are_shown_as_sent(modules: Modules) -> None:
    numbers = list(drawn_numbers(random.Random(5)))
    assert modules.each("exact", [[number] for number in numbers]) == numbers
    nested = [f'{{"a": [{number}, {{"b": {number}}}], "c": "{number}"}}' for number in numbers]
    assert modules.each("exact", [[text] for text in nested]) == nested
    long = [number for number in numbers if re.search("[0-9]{16}", number)]
    assert modules.each("fast", [[number] for number in long]) == long
    nested = [f'{{"a": [{number},{number}], "b":{number}, "c": "{number}"}}' for number in long]
    assert modules.each("fast", [[text] for text in nested]) == modules.each("exact", [[text] for text in nested])
    drawn = modules.each("drawn", [[number] for number in numbers])
    for text, number in zip(drawn, numbers, strict=True):
        assert float(text) == float(number), number


def test_what_is_no_number_of_json_is_text(modules: Modules) -> None:
    """The API writes NaN as a text."""
    assert modules.each("exact", [['"NaN"'], ['["NaN", "-Infinity", null, true]'], ['{"__proto__": 1.0}']]) == [
        "NaN",
        '["NaN", "-Infinity", null, true]',
        '{"__proto__": 1.0}',
    ]


# Filters


def drawn_text(draw: random.Random) -> str:
    letters = 'ab1:"\\ ()[]*,<>-!.=/\t\u00a0\u0085\u202e\ufeffé\U0001f600'
    return "".join(draw.choice(letters) for _ in range(draw.randrange(8)))


def test_what_is_quoted_is_read_by_the_api(modules: Modules) -> None:
    draw = random.Random(6)
    keys = [key for _ in range(800) if (key := drawn_text(draw))] + ["has", "-a", "!a", "(a", "or", "attr:x", "a:b"]
    keys += [each for each in HOSTILE if each]
    values = [drawn_text(draw) for _ in keys[: -len(HOSTILE)]] + [draw.choice(HOSTILE) for _ in HOSTILE]
    values = (values + list(HOSTILE) * 2)[: len(keys)]
    pairs = list(zip(keys, values, strict=True))
    included = modules.each("equals", [[key, value] for key, value in pairs])
    excluded = modules.each("equals", [[key, value, True] for key, value in pairs])
    lacking = modules.each("lacks", [[key] for key in keys])
    for (key, value), one, other, lacks in zip(pairs, included, excluded, lacking, strict=True):
        assert parse(one) == [Term(key, "eq", value)], one
        assert parse(other) == [Term(key, "neq", value)], other
        assert parse(lacks) == [Term(key, "not_exists")], lacks
    parts = modules.each("partsOf", [[text] for text in excluded])
    assert parts == [{"isExcluded": True, "key": key, "value": value} for key, value in pairs]
    terms = list(dict.fromkeys(included + excluded))
    text = modules.call("withTerms", terms[:60])
    assert parse(text) == [parse(term)[0] for term in terms[:60]]
    assert modules.call("termsOf", text) == terms[:60]
    assert modules.call("withTerm", text, terms[5]) == text
    assert modules.call("termsOf", modules.call("withoutTerm", text, terms[5])) == [*terms[:5], *terms[6:60]]


def test_terms_are_added_to_filters_in_json(modules: Modules) -> None:
    """In that encoding, and once."""
    terms = [
        *(modules.call("equals", 'a "b"', "c\\"), modules.call("equals", "k", "v", True)),
        *(modules.call("lacks", "a b"), "durationMs:>=1.500000", "durationMs:<2.5"),
        modules.call("equals", "k", ">=1"),
    ]
    first = {"key": "x", "op": "in", "value": ["1", "]"]}
    text = modules.call("withTermsOf", f" [{json.dumps(first)}] ", terms + terms)
    assert json.loads(text) == [
        first,
        {"key": 'a "b"', "op": "eq", "value": "c\\"},
        {"key": "k", "op": "neq", "value": "v"},
        {"key": "a b", "op": "not_exists"},
        {"key": "durationMs", "op": "gte", "value": "1.500000"},
        {"key": "durationMs", "op": "lt", "value": "2.5"},
        {"key": "k", "op": "eq", "value": ">=1"},
    ]
    issues = Issues()
    parse_filters(text, "filters", issues)
    issues.raise_if_any()
    assert modules.call("withTermsOf", "[]", ["a:b"]) == '[{"key":"a","op":"eq","value":"b"}]'


def test_attributes_that_are_called_like_fields(modules: Modules) -> None:
    """A link from an attribute finds the attribute."""
    fields = {*SPANS.fields, *LOGS.fields}
    keys = [*sorted(fields), "http.route", "attr:x", "a b"]
    named = modules.each("attribute", [[key] for key in keys])
    assert named == [f"attr:{key}" if key in fields or key == "attr:x" else key for key in keys]
    for key, term in zip(keys, modules.each("equals", [[each, "v"] for each in named]), strict=True):
        (found,) = parse(term)
        assert isinstance(found, Term)
        assert resolve_key(found.key, SPANS) == Attribute(key)


def test_terms_are_those_of_the_api(modules: Modules) -> None:
    """Of texts that people write: quotes in the middle, parentheses in values, spaces in lists, groups."""
    draw = random.Random(7)
    pieces = (
        "serviceName:cart", 'a"b:1', 'k:a"b', "k:/a(b", "k:b)", "k:[a, b , c]", 'k:["a b", c]', "-k:[a,b]", "has:k",
        "!has:k", "(a:1 or b:2)", '(a:"x) y" OR -b:[p, q] or has:c)', 'k:"a b"', '"a b":c', '"a\\"b":"c\\\\"', "d:>=10",
        'd:<"1 2"', "k:*a*", "attr:name:x", 'attr:"a b":x', "k:", "k:[]", "k:a:b", "-k:*",
        'k:*"a b"*', '-k:*"a (b"*', 'k:"a b"*', 'k:*"a \\"b"', '(k:*"a b"* or b:"x) y"* or c:*"d e")', 'k:>*"a',
        'k:**"a',
    )  # fmt: skip
    texts = [
        draw.choice((" ", "  ", "\t", "\u00a0")).join(draw.sample(pieces, draw.randrange(1, 5))) for _ in range(600)
    ]
    texts += [" ".join(drawn_text(draw) for _ in range(3)) for _ in range(3_000)]
    read = 0
    for text, terms in zip(texts, modules.each("termsOf", [[text] for text in texts]), strict=True):
        if text.lstrip().startswith("["):
            continue  # the encoding as JSON
        try:
            expected = parse(text)
        except FilterSyntaxError:
            assert "".join("".join(terms).split()) == "".join(text.split())  # nothing is lost
            continue
        read += 1
        assert [parse(term) for term in terms] == [[each] for each in expected], text
    assert read > 500
    assert modules.call("termsOf", ' [{"key": "a b", "op": "eq", "value": "c"}] ') == [
        '[{"key": "a b", "op": "eq", "value": "c"}]'
    ]


# Figures for people

SIZES: Final = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "min": 60e3, "h": 3600e3}


def test_durations_are_within_half_of_their_last_digit(modules: Modules) -> None:
    draw = random.Random(8)
    nanos = [
        1,
        999,
        1_000,
        999_999,
        10**6,
        10**9 - 1,
        6 * 10**10 - 1,
        36 * 10**11,
        *(draw.randrange(1, 10 ** draw.randrange(1, 17)) for _ in range(500)),
    ]
    texts = modules.each("durationOf", [[f"{each // 10**6}.{each % 10**6:06d}"] for each in nanos])
    for text, each in zip(texts, nanos, strict=True):
        number, unit = text.split(" ")
        last = Decimal(1).scaleb(Decimal(number).as_tuple().exponent)  # type: ignore[arg-type]  # a finite number
        assert abs(Decimal(number) * Decimal(str(SIZES[unit])) - Decimal(each) / 10**6) <= last * Decimal(
            str(SIZES[unit])
        ) * Decimal("0.501")
        digits = number.replace(".", "").lstrip("0")
        assert len(digits) >= 3 or unit == "ns"
        assert unit == "h" or float(number) < (60 if unit == "min" else 1_000), text
    assert modules.each("duration", [[None], [0]]) == ["-", "0"]


def test_ticks_are_round_and_as_many_as_there_is_room_for(modules: Modules) -> None:
    draw = random.Random(9)
    calls = [[1, 4], [1_000, 6], *([draw.uniform(1, 10) * 10 ** draw.randrange(-6, 12), 6] for _ in range(300))]
    for (top, most), ticks in zip(calls, modules.each("ticks", calls), strict=True):
        assert most / 2.5 - 1 < len(ticks) <= most
        values = [float(tick["label"]) for tick in ticks]
        assert [tick["at"] for tick in ticks] == pytest.approx([value / top for value in values])
        step = values[0]
        assert float(f"{step:.6e}".partition("e")[0]) in (1, 2, 5)
        assert values == pytest.approx([step * (at + 1) for at in range(len(values))])
        assert values[-1] <= top * (1 + 1e-9) < values[-1] + step
    assert modules.each("ticks", [[0, 4], [-1, 4], [None, 4]]) == [[], [], []]
    assert modules.call("elapsedTicks", 0, 2_000_000_000, 4)[1] == {"at": 0.5, "label": "1.00 s"}
    assert modules.call("elapsedTicks", 1_000, 3_000, 4)[-1] == {"at": 1, "label": "+2.00 us"}


def test_shares_are_all_or_nothing_only_if_they_are(modules: Modules) -> None:
    shares = [0, 1e-9, 0.0009, 0.001, 0.0499, 0.0999, 0.5, 0.899, 0.995, 0.9989, 0.99951, 1 - 1e-9, 1]
    texts = modules.each("share", [[each] for each in shares])
    assert texts == [
        "0 %", "< 0.1 %", "< 0.1 %", "0.1 %", "5.0 %", "10.0 %", "50 %", "90 %", "99.5 %", "99.9 %",
        "> 99.9 %", "> 99.9 %", "100 %",
    ]  # fmt: skip


def test_counts_keep_three_digits(modules: Modules) -> None:
    counts = [0, 1, 999, 1_000, 9_999, 10_000, 123_456, 9_999_999, 10**7, 123_456_789, 10**12]
    texts = modules.each("count", [[each] for each in counts])
    assert texts == ["0", "1", "999", "1,000", "9,999", "10.0k", "123k", "10000k", "10.0M", "123M", "1000G"]
    rates = [0, 0.0009, 0.001234, 1.26, 9.96, 10, 123.4, 12_345, 1e7]
    assert modules.each("rate", [[each] for each in rates]) == [
        *("0/s", "< 0.001/s", "0.0012/s", "1.3/s", "10/s", "10/s", "123/s", "12.3k/s", "10.0M/s"),
    ]
    assert all(math.isfinite(each) for each in rates)


# Where a sign-on leads back to.


def test_the_page_leaves_for_no_other_origin(modules: Modules) -> None:
    origin = "https://sluice.example"
    elsewhere = [
        *("/.//evil.example", "/x/..//", "/%2e//", "/\\evil", "//evil.example", "/\t/evil.example", "/x/..\\\\evil"),
    ]
    elsewhere += [
        *("https://evil.example/", "javascript:alert(1)", "x", "", "//sluice.example//evil.example", "//[", "//a:b"),
    ]
    assert modules.each("returnsTo", [[each, origin] for each in elsewhere]) == [None] * len(elsewhere)
    here = ["/ui/acme?q=%2F#x", "/x/..\\y", "//user:password@sluice.example/x", "/a\tb"]
    assert modules.each("returnsTo", [[each, origin] for each in here]) == [
        f"{origin}/ui/acme?q=%2F#x", f"{origin}/y", f"{origin}/x", f"{origin}/ab"
    ]  # fmt: skip


# The proof of work of a login.


def test_proofs_of_work_are_those_of_sha_256(modules: Modules) -> None:
    """Challenges of any length: of no whole block, of one, of several, and with an end that leaves no room."""
    challenges = ["x" * length for length in (0, 1, 46, 54, 55, 56, 62, 63, 64, 65, 110, 119, 127, 128, 200)]
    proofs = modules.each("solve", [[{"challenge": each, "bits": 12}] for each in challenges])
    for challenge, proof in zip(challenges, proofs, strict=True):
        first = next(number for number in itertools.count() if is_solved(challenge, str(number), 12))
        assert proof == str(first)
    (proof,) = modules.each("solve", [[{"challenge": "y" * 64, "bits": 20}]])
    assert is_solved("y" * 64, proof, 20)


def is_solved(challenge: str, proof: str, bits: int) -> bool:
    return int.from_bytes(hashlib.sha256((challenge + proof).encode()).digest()) >> (256 - bits) == 0
