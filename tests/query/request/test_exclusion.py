"""Which filters cannot exclude a row, by key, operator and value alone."""

import json
import random
from typing import Any

import pytest

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.http.validation import Issues
from query.request.exclusion import matches_every_row
from query.request.filters import conditions, parse_filters
from query.request.patterns import may_match
from query.rows import LOGS, SPANS, TelemetryTable
from tests.query.conftest import MS, NOW, ONE_ENGINE, Explore, Loader, span
from tests.selection import scaled


def matches(table: TelemetryTable, written: str) -> bool:
    issues = Issues()
    (found,) = conditions(parse_filters(written, "f", issues), table, NOW, "f", issues)
    issues.raise_if_any()
    return matches_every_row(found)


def regex(key: str, pattern: str) -> str:
    """Text has no term for patterns."""
    return json.dumps([{"key": key, "op": "regex", "value": pattern}])


def none_of(key: str, *values: str) -> str:
    return json.dumps([{"key": key, "op": "not_in", "value": values}])


def test_every_span_matches() -> None:
    written = [
        *(none_of("user.id"), none_of("attr:user.id"), none_of("serviceName", "", ""), '-serviceName:""'),
        *('-traceId:"no id"', "-traceId:" + "0" * 32, "-traceId:*x*", "has:name", 'name:*""*', 'name:""*', 'name:*""'),
        *(regex("name", ".*"), regex("environment", "(?s)^.*"), regex("environment", "."), regex("environment", ".+?")),
        *("kind:[unspecified,internal,server,client,producer,consumer]", "-kind:*Z*", regex("kind", "^[A-Z]+$")),
        *(regex("statusCode", ""), regex("traceId", "^[0-9a-f]{32}$"), '-environment:""'),
        *(
            "has:durationMs",
            "durationMs:>=0",
            "durationMs:>-1",
            "durationMs:<1e30",
            "-durationMs:-1",
            "-durationMs:abc",
        ),
        *("-durationMs:0.0000001", "durationMs:*.*", "-durationMs:*x*"),
        *('startTime:>="1970-01-01T00:00:00Z"', "startTime:*T*"),
    ]
    assert [each for each in written if not matches(SPANS, each)] == []


def test_not_every_span_matches() -> None:
    written = [
        *("-user.id:[a]", "-user.id:a", '-user.id:""', "has:user.id", "!has:user.id", 'user.id:*""*', '-user.id:*""*'),
        *('[{"key": "user.id", "op": "in", "value": []}]', regex("user.id", ".*"), "has:serviceName"),
        *(none_of("serviceName", "", "a"), '-name:""', regex("name", "a|b"), "!has:name", "has:parentSpanId"),
        *("kind:[internal,server,client,producer,consumer]", "-kind:*R*", regex("kind", "ER$")),
        *("durationMs:>0", "-durationMs:0", "durationMs:<0", "durationMs:*1*", "-durationMs:*12.5*"),
        *(
            "startTime:>=now-1h",
            "-startTime:*2026-11-20*",
            "startTime:2026-11*",
            "-traceId:*a*",
            regex("traceId", "^0af7"),
        ),
        *("-environment:prod", regex("environment", "^[a-z]+$")),
    ]
    assert [each for each in written if matches(SPANS, each)] == []


def test_fields_of_spans_are_attributes_of_log_records() -> None:
    for key in ("durationMs", "name"):
        assert (matches(SPANS, f"has:{key}"), matches(LOGS, f"has:{key}")) == (True, False)
    assert not matches(LOGS, "has:body")
    assert matches(LOGS, "-severityNumber:0")
    assert not matches(LOGS, "(severityNumber:<5 or severityNumber:>=5)")
    assert matches(LOGS, "(severityNumber:<5 or severityNumber:>=5 or !has:severityNumber)")


TOGETHER = [
    *("has:k or !has:k", "-k:1 or k:1", "-k:a or -k:b", "-k:a or has:k", "-k:a or k:[a,b]", "-k:ab or k:*b*"),
    *("-k:*ab* or k:*a*", "-k:*a* or -k:b", "durationMs:<5 or durationMs:>=5", "-durationMs:7 or durationMs:>=5"),
    *("durationMs:<5 or durationMs:>5 or durationMs:5", "-kind:server or -kind:client"),
    "-traceId:" + "0" * 31 + "1 or traceId:*01",
    # what a resource has under k, the row has under k
    *("has:k or !has:resource.k", 'k:*""* or -resource.k:a'),
]
NOT_TOGETHER = [
    *("-k:1 or k:2", "has:k or !has:l", "-k:a or -l:a", "-k:a or -k:[b,a]", "-k:1 or -k:1.0", "-k:ab or k:b*"),
    *(
        "-k:*a* or k:*ab*",
        "-k:*a* or -k:*b*",
        "durationMs:<5 or durationMs:>5",
        "durationMs:<5 or -durationMs:5 or k:5",
    ),
    # a text is neither below nor above a number
    *("k:<5 or k:>=5", "k:<5 or k:>=5 or !has:k", "-kind:server or kind:client", "!has:k or has:resource.k"),
    "serviceName:web or serviceName:api",
]


def test_whether_alternatives_match_every_span_together() -> None:
    assert [each for each in TOGETHER if not matches(SPANS, f"({each})")] == []
    assert [each for each in NOT_TOGETHER if matches(SPANS, f"({each})")] == []

    def together(term: str, pattern: str) -> bool:
        (first,) = parse_filters(term, "f", Issues())
        value = {"value": first.values[0]} if first.values else {}
        alternatives = [{"key": "k", "op": first.op, **value}, {"key": "k", "op": "regex", "value": pattern}]
        return matches(SPANS, json.dumps([{"any": alternatives}]))

    assert together("-k:ab", "^a")
    assert together("!has:k", "^.*?$")
    assert not together("-k:ab", "^b")
    assert not together("!has:k", "^test-")
    nothing = {"any": [{"key": "k", "op": "eq", "value": "1"}, {"key": "k", "op": "not_in", "value": []}]}
    assert matches(SPANS, json.dumps([nothing]))


EVERY_TEXT = [
    *("", ".*", "a*", "^", "$", "^a?", "a*$", "(a|b*)", "(?:a|)", "(?i)x*", "(?P<n>x)?", "[ab]*?", "a{0,3}", "(a*)+"),
    *("^.*$", "|", "a|", "|a", "((a)|(b)?)c*", "\\Aa*", ".|^$", "^[\\s\\S]*$", "^.*?$", "^(.|x)*$", "^[^a]|a|^$"),
    *("^(?s:.*?)\\z", "^([a]|[^a])*$", "^(\\x71|[^q])*$", "^(\\Qq\\E|[^q])*$", "^(\\161|[^q])*$", "^(\\pL|\\PL)*$"),
    *("^([[:alpha:]]|[[:^alpha:]])*$", "^[(?i)\\D\\d]*$", "^\\C*$", "^\\B|\\b"),
]
SOME_TEXTS = [
    *(
        "a",
        ".",
        ".+",
        ".+?",
        "a|b",
        "^$",
        "^a*$",
        "\\*",
        "[*]",
        "(a*)b",
        "a{1,}",
        "a{2}",
        "(ab?)",
        "x*y",
        "\\(?i)",
        "\\bx",
    ),
    *("(a|b)", "^prod", "^(prod|staging)$", "\\Qa*\\E", "a??b", "^[^q]*$", "[a-z]+@shop\\.example"),
]


def test_patterns_that_match_every_text() -> None:
    assert [each for each in EVERY_TEXT if not matches(SPANS, regex("name", each))] == []
    assert [each for each in SOME_TEXTS if matches(SPANS, regex("name", each))] == []


TEXTS = ["", "a", "ab", "b", "q", "200", "200.0", "5", "4.5"]
PIECES = ["", "a", "b", "ab", "0", "q"]
PATTERNS = ["^a", "b$", ".*", "^$", "[ab]", ".|^$", "^[^a]*$", "a+?b", "^.*?$", "(ab|q)*?0"]
VALUES = [*TEXTS, "aab", "qaqbq", "qbqaq", "qabq", "qbq", "zabz0", "za0bz", 4, 5, 6, 200, 200.0, 4.5, True, None, "~"]
LISTED = {"in", "not_in"}
OPS: dict[str, list[Any]] = {
    **dict.fromkeys(("eq", "neq", "in", "not_in"), TEXTS),
    **dict.fromkeys(("contains", "not_contains", "starts_with", "ends_with"), PIECES),
    "regex": PATTERNS,
    **{op: [4, 5, 200] for op in ("gt", "gte", "lt", "lte")},
    **{op: [None] for op in ("exists", "not_exists")},
}


def some_filter(rng: random.Random, key: str) -> dict[str, Any]:
    op = rng.choice([*OPS, "neq", "not_contains", "neq", "not_in"])
    value = rng.sample(OPS[op], rng.randint(0, 3)) if op in LISTED else rng.choice(OPS[op])
    return {"key": key, "op": op} | ({} if value is None else {"value": value})


@pytest.mark.sized
@ONE_ENGINE
async def test_refused_filters_match_every_stored_span_and_accepted_ones_do_not(
    loader: Loader, explore: Explore
) -> None:
    """Of one key, where the sample has a value of each kind that random filters can tell apart."""
    rng = random.Random(3)
    durations = [0, 111_111, 4 * MS, 5 * MS, 6 * MS, 200 * MS, 4_500_000, 111_111_111, 201 * MS, 5111 * MS, 15 * MS + 1]
    stored = []
    for n, value in enumerate(VALUES):
        attributes = {"k": value} | ({"l": rng.choice(VALUES)} if n % 3 else {})
        name = value if isinstance(value, str) else "other"
        stored.append(span(n + 1, name=name, attributes=attributes, duration=durations[n % len(durations)]))
    await loader.spans(*stored, resource={"resource.x": "1"})
    await loader.spans(span(100, name="ba", attributes={"l": "a"}, duration=7 * MS), resource={"k": "of resource"})
    await loader.spans(span(101, name="qaqb", duration=9 * MS), resource={"deployment.environment": "prod"})
    count = len(VALUES) + 2
    seen = {True: 0, False: 0}
    for _ in range(scaled(60, 400)):
        keys = rng.choice([["k"], ["k"], ["name"], ["durationMs"], ["k", "l", "resource.k"]])
        group = [some_filter(rng, rng.choice(keys)) for _ in range(rng.randint(1, 4))]
        found = len(await explore.names(filters=json.dumps([{"any": group}]), from_="-2m"))
        refused = matches(SPANS, json.dumps([{"any": group}]))
        assert found == count or not refused, group
        assert found < count or refused or len(keys) > 1, group
        seen[refused] += 1
    assert min(seen.values()) > 5


@ONE_ENGINE
async def test_a_pattern_that_the_engine_finds_may_match(clickhouse: ClickHouse) -> None:
    rng = random.Random(4)
    atoms = [
        *("a", "b", ".", "[^a]", "[ab]", "\\d", "\\W", "^", "$", "\\b", "\\x61", "\\Qb*\\E", "\\pL", "(?i)"),
        *("[[:alpha:]]", "é"),
    ]

    def pattern(depth: int) -> str:
        kind = rng.randrange(5 if depth else 1)
        if kind < 2:
            return rng.choice(atoms)
        if kind == 2:
            times = rng.choice(["*", "+?", "??", "{0,2}", "{2}"])
            return f"({rng.choice(['', '?:', '?i:'])}{pattern(depth - 1)})" + times
        return pattern(depth - 1) + ("|" if kind == 3 else "") + pattern(depth - 1)

    patterns = [pattern(4) for _ in range(300)]
    texts = ["", "a", "b", "A", "ab", "0", "~", "b*", "é", "a\nb"]
    rows = []
    for text in texts:
        sql = "SELECT " + ", ".join(f"match({{t:String}}, {{p{n}:String}})" for n in range(len(patterns)))
        values = {"t": text} | {f"p{n}": each for n, each in enumerate(patterns)}
        rows += await clickhouse.query(sql, values, limits=QueryLimits())
    for text, row in zip(texts, rows, strict=True):
        wrong = [each for each, matched in zip(patterns, row, strict=True) if matched and not may_match(each, text)]
        assert wrong == [], text
