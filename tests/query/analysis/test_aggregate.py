"""What aggregates are asked, what they answer, and where they end."""

import itertools
import math
import re
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.clickhouse import ClickHouse, QueryLimits
from query import sql
from query.analysis.time_buckets import INTERVALS_MINUTES, bucket_labels, default_interval_minutes, point_count
from query.fields import SPAN_KINDS, SPANS, STATUS_CODES
from query.request.filters import resolve_key
from query.settings import QuerySettings
from query.statements import Aggregation, Fn, GroupRanking, GroupSeries, Statement, TimeBuckets
from query.statements.window import BUCKET, Window
from query.timestamps import HOUR, MINUTE, SECOND, format_timestamp
from tests.query.conftest import FOREIGN_PATH, NOW, OTHER_PROJECT, Answer, Explore, Loader, issues, served, span

PATH = "/spans/aggregate"
KEYS = [
    *("fn", "field", "groupBy", "range", "groups", "series"),
    *("scanned", "scanTruncated", "groupCount", "groupsTruncated", "limits"),
]


async def shown(explore: Explore, **body: Any) -> Any:
    answer = await explore.post(PATH, body)
    assert answer.status == 200, answer.text
    return answer.json


async def ranking(explore: Explore, **body: Any) -> list[tuple[str | None, Any, int]]:
    groups = (await shown(explore, **body))["groups"]
    return [(each["group"], each["value"], each["count"]) for each in groups]


async def test_the_whole_answer(explore: Explore, loader: Loader) -> None:
    noon = NOW // HOUR * HOUR - 3 * HOUR
    await loader.spans(
        span(1, start=noon + 1, duration=1_500_000, attributes={"route": "/a"}),
        span(2, start=noon + 31 * MINUTE, duration=12_345_678, attributes={"route": "/a"}),
        span(3, start=noon + 59 * MINUTE, duration=3, attributes={"route": "/b"}),
        span(4, start=noon + HOUR, attributes={"route": "/a"}),
    )
    body: dict[str, Any] = {"fn": "max", "field": "durationMs", "groupBy": "route", "from": format_timestamp(noon)}
    body |= {"to": (noon + HOUR) // SECOND, "intervalMinutes": 30, "limit": 1}
    answer = await explore.post(PATH, body)
    half, hour = format_timestamp(noon + 30 * MINUTE), format_timestamp(noon + HOUR)
    assert answer.json == {
        "fn": "max",
        "field": "durationMs",
        "groupBy": "route",
        "range": {"from": format_timestamp(noon), "to": hour},
        "groups": [{"group": "/a", "value": 12.345678, "count": 2}],
        "series": [
            {
                "group": "/a",
                "points": [
                    {"bucket": format_timestamp(noon)[:19] + "Z", "value": 1.5, "count": 1},
                    {"bucket": half[:19] + "Z", "value": 12.345678, "count": 1},
                ],
            }
        ],
        "scanned": 3,
        "scanTruncated": False,
        "groupCount": 2,
        "groupsTruncated": True,
        "limits": {"maxScanRows": 50_000_000, "maxSeries": 100, "maxGroupCardinality": 100_000},
    }
    assert [*answer.json] == KEYS
    assert '"value":1.500000' in answer.text


async def test_no_spans_are_one_group_or_none(explore: Explore, loader: Loader) -> None:
    await loader.spans(span(1), project=OTHER_PROJECT)
    await loader.spans(span(2))  # is filtered out
    filters = [{"key": "name", "op": "eq", "value": "none such"}]
    times: list[dict[str, Any]] = [{"hours": 1}, {"from": "now-3h", "to": "now-1h"}]
    for fn, time in itertools.product(Fn, times):
        nothing = 0 if fn in (Fn.COUNT, Fn.COUNT_UNIQUE, Fn.SUM) else None
        answer = await shown(explore, fn=fn, field="durationMs", filters=filters, intervalMinutes=30, **time)
        assert answer["groups"] == [{"group": None, "value": nothing, "count": 0}]
        assert {(point["value"], point["count"]) for point in answer["series"][0]["points"]} == {(nothing, 0)}
        assert (answer["groupCount"], answer["groupsTruncated"]) == (1, False)
        answer = await shown(explore, fn=fn, field="durationMs", filters=filters, groupBy="name", **time)
        assert (answer["groups"], answer["series"], answer["groupCount"]) == ([], [], 0)


async def test_null_means_what_absence_means(explore: Explore, loader: Loader) -> None:
    await loader.spans(span(1))
    names = ("from", "to", "hours", "field", "groupBy", "filters", "limit", "intervalMinutes")
    assert await shown(explore, fn="count", **dict.fromkeys(names)) == await shown(explore, fn="count")


async def test_what_a_field_counts(explore: Explore, loader: Loader) -> None:
    await loader.spans(
        span(1, name="a", attributes={"v": 3, "name": "own"}),
        span(2, name="a", attributes={"v": "3"}),
        span(3, name="b", attributes={"v": ""}),
        span(4, name="c"),
        resource={"host": "h1", "service.version": ""},
    )
    by_name = {"groupBy": "name", "hours": 1}
    assert await ranking(explore, fn="count", **by_name) == [("a", 2, 2), ("b", 1, 1), ("c", 1, 1)]
    assert await ranking(explore, fn="count", field="v", **by_name) == [("a", 2, 2), ("b", 1, 1), ("c", 0, 1)]
    assert await ranking(explore, fn="count_unique", field="v", **by_name) == [("a", 1, 2), ("b", 1, 1), ("c", 0, 1)]
    assert await ranking(explore, fn="sum", field="v", **by_name) == [("a", 3, 2), ("b", None, 1), ("c", None, 1)]
    assert await ranking(explore, fn="min", field="serviceName") == [(None, None, 4)]
    # own fields first, attr: forces the attribute, a key that is absent falls back to the resource
    assert await ranking(explore, fn="count", field="attr:name") == [(None, 1, 4)]
    assert await ranking(explore, fn="count", groupBy="attr:name") == [(None, 3, 3), ("own", 1, 1)]
    assert await ranking(explore, fn="count", groupBy="host") == [("h1", 4, 4)]
    assert await ranking(explore, fn="count", groupBy="v") == [("3", 2, 2), ("", 1, 1), (None, 1, 1)]
    assert await ranking(explore, fn="count", groupBy="release") == [(None, 4, 4)]


async def test_groups_are_the_texts_that_filters_take(explore: Explore, loader: Loader) -> None:
    await loader.spans(
        span(1, trace=0xABC, parent=7, duration=12_345_678, kind=2, status=2, start=NOW - 7),
        resource={"service.name": "cart"},
    )
    texts = {
        "traceId": f"{0xABC:032x}",
        "spanId": f"{1:016x}",
        "parentSpanId": f"{7:016x}",
        "durationMs": "12.345678",
        "kind": "SERVER",
        "statusCode": "ERROR",
        "startTime": format_timestamp(NOW - 7),
        "serviceName": "cart",
        "environment": "unknown",
    }
    for key, text in texts.items():
        assert await ranking(explore, fn="count", groupBy=key) == [(text, 1, 1)]
        filters = [{"key": key, "op": "eq", "value": text}]
        assert await ranking(explore, fn="count", filters=filters) == [(None, 1, 1)]


async def test_groups_are_ranked_over_the_whole_window(explore: Explore, loader: Loader) -> None:
    """A group that leads in every interval but one may still be second; the series follow the groups."""
    begin = NOW // HOUR * HOUR - 2 * HOUR
    spikes = [span(n, start=begin + n, attributes={"g": "spike"}) for n in range(1, 8)]
    steady = [span(20 + n, start=begin + n * 10 * MINUTE, attributes={"g": "steady"}) for n in range(6)]
    await loader.spans(*spikes, *steady)
    answer = await shown(explore, fn="count", groupBy="g", limit=1, intervalMinutes=10, hours=4)
    assert answer["groups"] == [{"group": "spike", "value": 7, "count": 7}]
    assert [each["group"] for each in answer["series"]] == ["spike"]
    assert (answer["groupCount"], answer["groupsTruncated"]) == (2, True)
    answer = await shown(explore, fn="count", groupBy="g", limit=2, intervalMinutes=10, hours=4)
    assert [each["group"] for each in answer["series"]] == [each["group"] for each in answer["groups"]]
    assert answer["groupsTruncated"] is False


async def test_ties_are_ordered_by_the_bytes_of_the_text(explore: Explore, loader: Loader) -> None:
    texts = ["a", "B", "é", "\U0001f600", "\uffff", "", "10", "9"]
    await loader.spans(*(span(n + 1, attributes={"g": text}) for n, text in enumerate(texts)), span(99))
    ranked = [group for group, _, _ in await ranking(explore, fn="count", groupBy="g")]
    assert ranked == [*sorted(texts, key=str.encode), None]
    await loader.spans(span(100, duration=9 * 10**6), span(101, duration=10**7))
    ranked = [group for group, _, _ in await ranking(explore, fn="count", groupBy="durationMs")]
    assert ranked == ["1.000000", "10.000000", "9.000000"]


async def test_only_the_filtered_spans_of_the_project_count(explore: Explore, loader: Loader) -> None:
    hostile = "'; DROP TABLE spans; -- {p0:UInt64} % _ \\ \0 `"
    await loader.spans(span(1, attributes={hostile: hostile}), span(2, attributes={"v": 2}))
    await loader.spans(span(3, attributes={hostile: hostile}), project=OTHER_PROJECT)
    filters = [{"key": hostile, "op": "eq", "value": hostile}]
    body = {"fn": "count_unique", "field": hostile, "groupBy": hostile}
    assert await ranking(explore, **body, filters=filters) == [(hostile, 1, 1)]
    assert await ranking(explore, **body) == [(hostile, 1, 1), (None, 0, 1)]
    assert (await explore.post(PATH, body, base=FOREIGN_PATH)).status == 404
    assert (await explore.post(PATH, body, token="blind")).status == 403


async def test_integers_and_sums_beyond_doubles(explore: Explore, loader: Loader) -> None:
    """Durations are added up as integers; numbers of attributes are doubles, and null where they end."""
    years = 9 * 10**17
    await loader.spans(
        *(span(n, duration=years + n, attributes={"big": 1.5e308, "exact": 2**53 + 1}) for n in range(1, 31))
    )
    total = sum(years + n for n in range(1, 31))
    answer = await explore.post(PATH, {"fn": "sum", "field": "durationMs"})
    assert f'"value":{total // 10**6}.{total % 10**6:06d}' in answer.text
    assert await ranking(explore, fn="sum", field="big") == [(None, None, 30)]
    assert await ranking(explore, fn="p50", field="big") == [(None, 1.5e308, 30)]
    assert await ranking(explore, fn="max", field="exact") == [(None, float(2**53), 30)]
    assert await ranking(explore, fn="count_unique", field="exact") == [(None, 1, 30)]


async def test_threads_do_not_show(
    clickhouse: ClickHouse, clickhouse_url: str, database: str, moving_clock: list[int], loader: Loader
) -> None:
    """Sums of decimal fractions, many groups, several parts."""
    for part in range(4):
        await loader.spans(
            *(
                span(n, duration=n * 37, attributes={"v": n / 7 + part * 1e6, "g": str(n % 11)})
                for n in range(part * 400 + 1, part * 400 + 401)
            )
        )
    bodies = [
        {"fn": fn, "field": field, "groupBy": "g", "limit": 7, "hours": 1} for fn in Fn for field in ("durationMs", "v")
    ]
    answers = []
    for threads in (1, 4):
        store = ClickHouse(clickhouse_url, database=database, handles=2)
        async with served(store, QuerySettings(max_threads=threads), moving_clock) as explore:
            answers.append([(await explore.post(PATH, body)).text for body in bodies])
    assert answers[0] == answers[1]


LEVELS = {fn: float(f"0.{fn.thousandths * 10**9 - 5:012d}") for fn in Fn if fn.thousandths is not None}


async def test_percentiles_are_the_nearest_rank_for_every_number_of_spans(clickhouse: ClickHouse) -> None:
    """The engine itself, with the level that the statement has, for n from 1 to some thousands."""
    counts = [*range(1, 400), *range(1000, 3001, 100)]
    for fn, level in LEVELS.items():
        statement = Aggregation(
            project_id=1,
            window=Window(0, HOUR),
            conditions=(),
            fn=fn,
            subject=SPANS.fields["durationMs"],
            group_by=None,
            buckets=TimeBuckets(0, HOUR),
            limit=1,
        )
        assert f"quantileExactState({level})" in sql.emit(statement).sql
        query = (
            f"SELECT n, quantileExact({level})(number) FROM (SELECT arrayJoin({counts}) AS n) AS counts,"
            " numbers(1, 3000) AS numbers WHERE number <= n GROUP BY n ORDER BY n"
        )
        rows = await clickhouse.query(query, {}, limits=QueryLimits())
        assert rows == [(n, math.ceil(Fraction(fn.thousandths or 0, 1000) * n)) for n in counts]


def test_percentiles_are_the_nearest_rank_up_to_a_hundred_million_spans() -> None:
    """The engine's arithmetic: floor(level * n) in doubles. What could go wrong is next to a whole q * n."""
    largest = 100_000_000
    assert QuerySettings(max_scan_rows=largest).max_scan_rows == largest
    critical = {n + near for n in (*range(1000, largest, 999_000), largest) for near in (-2, -1, 0, 1, 2)}
    critical |= {1000 * k for k in range(1, 100_000)} | {*range(1, 20_000)} | {*range(largest - 20_000, largest + 1)}
    for fn, level in LEVELS.items():
        thousandths = fn.thousandths or 0
        wrong = [n for n in critical if n <= largest and math.floor(level * n) != -(-thousandths * n // 1000) - 1]
        assert wrong == [], fn


HOSTILE = st.text(min_size=1, max_size=40) | st.sampled_from(
    [
        "'",
        "\\",
        "{p0:UInt64}",
        "{x:Identifier}",
        "' OR 1=1 --",
        "`",
        "%",
        "\0",
        "*/",
        *SPANS.fields,
        "attr:name",
        "scope.name",
    ]
)
LITERALS = {"UTC", "", ".", "0", "i", "d", "(?s)", "Nullable(Float64)", "UInt64", "UInt128"}
LITERALS |= {"\\x01", "\\x02", "\\x03", "\\x03A", "\\x03B", "\\x03C", *SPAN_KINDS, *STATUS_CODES}


@given(st.sampled_from(Fn), HOSTILE, HOSTILE, st.lists(HOSTILE, min_size=1, max_size=3), st.booleans())
def test_no_text_of_a_request_reaches_the_statement(
    fn: Fn, key: str, group_by: str, groups: list[str], guarded: bool
) -> None:
    """The project comes first and what follows is built of a fixed vocabulary."""
    parts: dict[str, Any] = {"project_id": 7, "window": Window(0, HOUR), "conditions": (), "fn": fn}
    parts |= {"subject": resolve_key(key, SPANS), "group_by": resolve_key(group_by, SPANS)}
    parts["existing_attributes"] = frozenset({key}) if guarded else None
    steps = TimeBuckets(0, HOUR)
    statements: list[Statement] = [
        Aggregation(buckets=steps, limit=10, **parts),
        GroupRanking(limit=10, **parts),
        GroupSeries(buckets=steps, groups=(*groups, None), **parts),
    ]
    for query in map(sql.emit, statements):
        where = query.sql.split("\nWHERE ", 1)[1]
        project = re.match(r"project_id = \{(p\d+):UInt64\}\n  AND ", where)
        assert project is not None
        assert query.parameters[project[1]] == 7
        vocabulary = re.sub(r"\{p\d+:[A-Za-z0-9()]+\}", "", query.sql)
        assert re.fullmatch(r"[A-Za-z0-9_()\[\]=<>!*+\-/%.,' \n\\]*", vocabulary)
        assert set(re.findall(r"'([^']*)'", vocabulary)) <= LITERALS


WRONG: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({}, [("body.fn", "missing")]),
    ({"fn": None}, [("body.fn", "type")]),
    ({"fn": "median"}, [("body.fn", "not_allowed")]),
    ({"fn": "p95"}, [("body.field", "missing")]),
    ({"fn": "count_unique", "field": None}, [("body.field", "missing")]),
    ({"fn": "sum", "field": 5}, [("body.field", "type")]),
    ({"fn": "count", "field": ""}, [("body.field", "length")]),
    ({"fn": "count", "field": "x" * 257}, [("body.field", "length")]),
    ({"fn": "count", "groupBy": ""}, [("body.groupBy", "length")]),
    ({"fn": "count", "groupBy": "attr:"}, [("body.groupBy", "length")]),
    ({"fn": "count", "groupBy": "x" * 257}, [("body.groupBy", "length")]),
    ({"fn": "count", "groupBy": "\ud800"}, [("body", "malformed")]),
    ({"fn": "count", "hours": 0}, [("body.hours", "too_small")]),
    ({"fn": "count", "hours": 721}, [("body.hours", "too_large")]),
    ({"fn": "count", "hours": 1.5}, [("body.hours", "type")]),
    ({"fn": "count", "limit": 0}, [("body.limit", "too_small")]),
    ({"fn": "count", "limit": 101}, [("body.limit", "too_large")]),
    ({"fn": "count", "intervalMinutes": 0}, [("body.intervalMinutes", "too_small")]),
    ({"fn": "count", "intervalMinutes": 43_201}, [("body.intervalMinutes", "too_large")]),
    ({"fn": "count", "from": "now-1501m", "intervalMinutes": 1}, [("body.intervalMinutes", "too_small")]),
    ({"fn": "count", "from": "yesterday"}, [("body.from", "format")]),
    ({"fn": "count", "from": "now", "to": "now"}, [("body.from", "range")]),
    ({"fn": "count", "from": "now-721h"}, [("body.from", "range")]),
    ({"fn": "count", "filters": "a:b"}, [("body.filters", "type")]),
    ({"fn": "count", "filters": [{"key": "a", "op": "exists"}] * 21}, [("body.filters", "too_many")]),
    ({"fn": "count", "filters": [{"key": "a", "op": "gt", "value": "x"}]}, [("body.filters[0].value", "type")]),
    ({"fn": "count", "filters": [{"key": "a", "op": "regex", "value": "("}]}, [("body.filters[0].value", "format")]),
    (
        {
            "fn": "avg",
            "filters": [{"key": "k" * 257, "op": "eq", "value": "x"}, {"key": "a", "op": "gt", "value": "x"}],
        },
        [("body.field", "missing"), ("body.filters[0].key", "length"), ("body.filters[1].value", "type")],
    ),
    ({"fn": "count", "group_by": "a"}, [("body.group_by", "unknown_field")]),
    (
        {"fn": "p42", "from": "x", "to": "y", "limit": 0, "groupBy": "", "extra": 1, "filters": [{"key": "a"}]},
        [
            ("body.extra", "unknown_field"),
            ("body.filters[0].op", "missing"),
            ("body.fn", "not_allowed"),
            ("body.from", "format"),
            ("body.groupBy", "length"),
            ("body.limit", "too_small"),
            ("body.to", "format"),
        ],
    ),
]


async def test_bad_input_is_named(explore: Explore) -> None:
    found = [issues(await explore.post(PATH, body)) for body, _ in WRONG]
    assert [sorted(each) for each in found] == [wanted for _, wanted in WRONG]


RIGHT: list[dict[str, Any]] = [
    {"fn": "count", "field": "x" * 256, "groupBy": "attr:" + "x" * 256},
    {"fn": "count", "hours": 1, "limit": 1, "intervalMinutes": 1},
    {"fn": "count", "hours": 720, "limit": 100, "intervalMinutes": 43_200},
    {"fn": "count", "from": (NOW - 1499 * MINUTE) // MINUTE * 60, "to": NOW // MINUTE * 60, "intervalMinutes": 1},
    {"fn": "count", "filters": [{"key": "a", "op": "exists"}] * 20},
    {"fn": "count", "from": 1_795_188_000.5, "to": "2026-11-20T18:00:00Z"},
]


async def test_each_bound_belongs_to_what_is_allowed(explore: Explore) -> None:
    answers = [await explore.post(PATH, body) for body in RIGHT]
    assert [(each.status, each.text[:200]) for each in answers if each.status != 200] == []


async def test_bodies_that_are_none(explore: Explore) -> None:
    assert issues(await explore.post(PATH, b"{")) == [("body", "malformed")]
    assert issues(await explore.post(PATH, b"[]")) == [("body", "type")]
    assert (await explore.post(PATH, b" " * 300_000)).status == 413


NOON: Final = 1_795_176_000 * SECOND  # 2026-11-20T12:00:00Z


@pytest.mark.parametrize(
    ("to", "hours", "minutes"),
    [
        *((NOON + HOUR, *each) for each in ((1, 1), (2, 2), (3, 5), (6, 10), (12, 15), (24, 30), (168, 180))),
        (NOON + HOUR, 720, 1440),  # 61 half days, of which the first and the last are cut
        (NOON, 720, 720),  # 60 whole ones
    ],
)
def test_the_interval_is_the_shortest_that_can_be_read(to: int, hours: int, minutes: int) -> None:
    window = Window(to - hours * HOUR, to)
    assert default_interval_minutes(window) == minutes
    assert point_count(window, minutes) <= 60
    shorter = [each for each in INTERVALS_MINUTES if each < minutes]
    assert all(point_count(window, each) > 60 for each in shorter)


def test_intervals_begin_at_multiples_since_1970() -> None:
    window = Window(100 * HOUR + 7, 103 * HOUR + 1)
    assert bucket_labels(window, 90) == ["1970-01-05T03:00:00Z", "1970-01-05T04:30:00Z", "1970-01-05T06:00:00Z"]
    assert bucket_labels(Window(HOUR, 2 * HOUR), 30) == ["1970-01-01T01:00:00Z", "1970-01-01T01:30:00Z"]
    assert bucket_labels(Window(HOUR, 2 * HOUR), 43_200) == ["1970-01-01T00:00:00Z"]


BEGIN = NOW // BUCKET * BUCKET - 4 * BUCKET
STARTS = [BEGIN + n * BUCKET + second * SECOND for n, count in enumerate((5, 4, 3)) for second in range(count)]


@pytest.mark.parametrize(
    ("ceiling", "scanned", "after"),
    [
        (12, 12, -HOUR),  # all
        (11, 7, BUCKET),  # whole buckets of five minutes
        (7, 7, BUCKET),
        (6, 3, 2 * BUCKET),
        (3, 3, 2 * BUCKET),
        (2, 2, 2 * BUCKET + SECOND),  # within a bucket that is too large: seconds
        (1, 1, 2 * BUCKET + 2 * SECOND),
    ],
)
async def test_over_the_ceiling_the_newest_spans_are_looked_at(
    ceiling: int, scanned: int, after: int, explore_store: ClickHouse, moving_clock: list[int], loader: Loader
) -> None:
    begin = BEGIN + after
    spans = [span(n + 1, start=start, name=f"{n % 2}") for n, start in enumerate(STARTS)]
    await loader.spans(*spans)
    await loader.spans(span(99, start=BEGIN + 2 * BUCKET + 2 * SECOND), project=OTHER_PROJECT)
    body = {"fn": "count", "groupBy": "name", "from": BEGIN - HOUR, "intervalMinutes": 1}
    body |= {"to": BEGIN + 3 * BUCKET, "filters": [{"key": "name", "op": "eq", "value": "0"}]}
    async with served(explore_store, QuerySettings(max_scan_rows=ceiling), moving_clock) as explore:
        answer = await shown(explore, **body)
    assert (answer["scanned"], answer["scanTruncated"]) == (scanned, scanned < 12)
    assert answer["range"]["from"] == format_timestamp(begin)
    assert answer["limits"]["maxScanRows"] == ceiling
    seen = sum(start >= begin and n % 2 == 0 for n, start in enumerate(STARTS))
    assert [each["count"] for each in answer["groups"]] == ([seen] if seen else [])
    for series in answer["series"]:
        assert len(series["points"]) == point_count(Window(begin, BEGIN + 3 * BUCKET), 1)
        assert sum(point["count"] for point in series["points"]) == seen


@pytest.mark.parametrize(("step", "kept"), [(10**6, 2), (10**3, 2), (1, 2), (0, 5)])
async def test_a_ceiling_may_fall_between_nanoseconds(
    step: int, kept: int, explore_store: ClickHouse, moving_clock: list[int], loader: Loader
) -> None:
    """Spans of one nanosecond stay together."""
    last = BEGIN + 1_234_567_890
    await loader.spans(*(span(n + 1, start=last - n * step) for n in range(5)))
    async with served(explore_store, QuerySettings(max_scan_rows=2), moving_clock) as explore:
        answer = await shown(explore, fn="count", **{"from": BEGIN, "to": last + 1})
    assert (answer["scanned"], answer["scanTruncated"]) == (kept, True)
    assert answer["groups"] == [{"group": None, "value": kept, "count": kept}]


async def test_only_so_many_groups_have_series(
    explore_store: ClickHouse, moving_clock: list[int], loader: Loader
) -> None:
    await loader.spans(*(span(n, name=str(n)) for n in range(1, 6)))
    async with served(explore_store, QuerySettings(max_series=2), moving_clock) as explore:
        answer = await shown(explore, fn="count", groupBy="name", limit=4)
    assert [each["group"] for each in answer["groups"]] == ["1", "2", "3", "4"]
    assert [each["group"] for each in answer["series"]] == ["1", "2"]
    assert answer["limits"]["maxSeries"] == 2


async def test_groups_that_do_not_fit_into_memory(
    clickhouse: ClickHouse, explore_store: ClickHouse, moving_clock: list[int]
) -> None:
    """They are refused, not cut: which are the greatest would not be known."""
    await clickhouse.command(
        "INSERT INTO spans (project_id, start_time, trace_id)"
        f" SELECT 7, fromUnixTimestamp64Nano(toInt64({NOW - HOUR}), 'UTC'),"
        " toFixedString(concat('12345678', reinterpretAsString(number + 1)), 16) FROM numbers(300000)"
    )
    async with served(explore_store, QuerySettings(max_memory_bytes=12 * 2**20), moving_clock) as explore:
        refused: Answer = await explore.post(PATH, {"fn": "count", "groupBy": "traceId"})
        assert issues(refused) == [("query", "too_expensive")]
        assert (await ranking(explore, fn="count"))[0][1] == 300_000
