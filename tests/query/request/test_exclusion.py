"""Which filters cannot exclude a row, by key, operator and value alone."""

from typing import Any

import msgspec
import pytest

from chassis.http.validation import Issues
from query.fields import LOGS, SPANS, TelemetryTable
from query.request.exclusion import matches_every_row, matches_every_text
from query.request.filters import Op, WrittenFilter, check_filters, conditions
from tests.query.conftest import NOW


def matches(table: TelemetryTable, written: WrittenFilter) -> bool:
    issues = Issues()
    (found,) = conditions(check_filters([written], "f", issues), table, NOW, "f", issues)
    issues.raise_if_any()
    return matches_every_row(found)


ALL_KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"]


@pytest.mark.parametrize(
    ("key", "op", "value"),
    [
        ("user.id", "not_in", []),
        ("attr:user.id", "not_in", []),
        ("serviceName", "neq", ""),
        ("serviceName", "not_in", ["", ""]),
        ("traceId", "neq", "no id"),
        ("traceId", "neq", "0" * 32),
        ("traceId", "not_contains", "x"),
        ("name", "exists", None),
        ("name", "contains", ""),
        ("name", "starts_with", ""),
        ("name", "ends_with", ""),
        ("name", "regex", ".*"),
        ("environment", "regex", "(?s)^.*"),
        ("kind", "in", ALL_KINDS),
        ("kind", "not_contains", "Z"),
        ("statusCode", "regex", ""),
        ("durationMs", "exists", None),
        ("durationMs", "gte", 0),
        ("durationMs", "gt", -1),
        ("durationMs", "lt", 1e30),
        ("durationMs", "neq", -1),
        ("durationMs", "neq", "abc"),
        ("durationMs", "neq", 0.0000001),
        ("durationMs", "contains", "."),
        ("durationMs", "not_contains", "x"),
        ("startTime", "gte", "1970-01-01T00:00:00Z"),
        ("startTime", "contains", "T"),
    ],
)
def test_every_span_matches(key: str, op: str, value: Any) -> None:
    assert matches(SPANS, WrittenFilter(key=key, op=Op(op), value=value))


@pytest.mark.parametrize(
    ("key", "op", "value"),
    [
        ("user.id", "not_in", ["a"]),
        ("user.id", "neq", "a"),
        ("user.id", "neq", ""),
        ("user.id", "in", []),
        ("user.id", "exists", None),
        ("user.id", "not_exists", None),
        ("user.id", "regex", ".*"),
        ("user.id", "contains", ""),
        ("user.id", "not_contains", ""),
        ("serviceName", "exists", None),
        ("serviceName", "not_in", ["", "a"]),
        ("name", "neq", ""),
        ("name", "regex", "a|b"),
        ("name", "not_exists", None),
        ("kind", "in", ALL_KINDS[1:]),
        ("kind", "not_contains", "R"),
        ("parentSpanId", "exists", None),
        ("durationMs", "gt", 0),
        ("durationMs", "neq", 0),
        ("durationMs", "lt", 0),
        ("durationMs", "contains", "1"),
        ("startTime", "gte", "now-1h"),
        ("traceId", "not_contains", "a"),
    ],
)
def test_not_every_span_matches(key: str, op: str, value: Any) -> None:
    assert not matches(SPANS, WrittenFilter(key=key, op=Op(op), value=value))


def test_fields_of_spans_are_attributes_of_log_records() -> None:
    for key in ("durationMs", "name"):
        written = WrittenFilter(key=key, op=Op.EXISTS)
        assert (matches(SPANS, written), matches(LOGS, written)) == (True, False)
    assert not matches(LOGS, WrittenFilter(key="body", op=Op.EXISTS))
    assert matches(LOGS, WrittenFilter(key="severityNumber", op=Op.NEQ, value=0))


@pytest.mark.parametrize(
    ("alternatives", "every"),
    [
        ([{"key": "k", "op": "eq", "value": "1"}, {"key": "k", "op": "not_in", "value": []}], True),
        ([{"key": "k", "op": "exists"}, {"key": "k", "op": "not_exists"}], True),
        ([{"key": "k", "op": "neq", "value": "1"}, {"key": "k", "op": "eq", "value": "1"}], True),
        ([{"key": "k", "op": "neq", "value": "1"}, {"key": "k", "op": "eq", "value": "2"}], False),
        ([{"key": "k", "op": "exists"}, {"key": "l", "op": "not_exists"}], False),
    ],
)
def test_whether_alternatives_match_every_span_together(alternatives: list[dict[str, Any]], every: bool) -> None:
    assert matches(SPANS, msgspec.convert({"any": alternatives}, WrittenFilter)) is every


@pytest.mark.parametrize(
    "pattern",
    ["", ".*", "a*", "^", "$", "^a?", "a*$", "(a|b*)", "(?:a|)", "(?i)x*", "(?P<n>x)?", "[ab]*?", "a{0,3}", "(a*)+",
     "^.*$", "|", "a|", "((a)|(b)?)c*", "\\Aa*"],
)  # fmt: skip
def test_patterns_that_match_every_text(pattern: str) -> None:
    assert matches_every_text(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["a", ".", ".+", "a|b", "^$", "^a*$", "\\*", "[*]", "(a*)b", "a{1,}", "a{2}", "(ab?)", "x*y", "\\(?i)", "\\bx?",
     "(a|b)"],
)  # fmt: skip
def test_patterns_that_do_not_match_every_text(pattern: str) -> None:
    assert not matches_every_text(pattern)
