"""What aggregates are asked, what they answer, and where they end."""

import itertools
import math
from fractions import Fraction
from typing import Any, Final

import pytest

from chassis.clickhouse import ClickHouse, QueryLimits
from query import sql
from query.analysis.windows import INTERVALS_MINUTES, bucket_labels, default_interval_minutes, point_count
from query.rows import SPANS
from query.settings import QuerySettings
from query.statements import BUCKET, Aggregation, Fn, TimeBuckets, Window
from query.values import HOUR, MINUTE, SECOND, format_timestamp
from tests.query.conftest import NOW, OTHER_PROJECT, Answer, Explore, Loader, issues, served, span

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


async def test_ties_are_ordered_by_the_bytes_of_the_text(explore: Explore, loader: Loader) -> None:
    texts = ["a", "B", "é", "\U0001f600", "\uffff", "", "10", "9"]
    await loader.spans(*(span(n + 1, attributes={"g": text}) for n, text in enumerate(texts)), span(99))
    ranked = [group for group, _, _ in await ranking(explore, fn="count", groupBy="g")]
    assert ranked == [*sorted(texts, key=str.encode), None]
    await loader.spans(span(100, duration=9 * 10**6), span(101, duration=10**7))
    ranked = [group for group, _, _ in await ranking(explore, fn="count", groupBy="durationMs")]
    assert ranked == ["1.000000", "10.000000", "9.000000"]


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


CEILINGS = [
    (12, 12, -HOUR),  # all
    (11, 7, BUCKET),  # whole buckets of five minutes
    (7, 7, BUCKET),
    (6, 3, 2 * BUCKET),
    (3, 3, 2 * BUCKET),
    (2, 2, 2 * BUCKET + SECOND),  # within a bucket that is too large: seconds
    (1, 1, 2 * BUCKET + 2 * SECOND),
]


async def test_over_the_ceiling_the_newest_spans_are_looked_at(
    clickhouse_url: str, database: str, loader: Loader
) -> None:
    await loader.spans(*(span(n + 1, start=start, name=f"{n % 2}") for n, start in enumerate(STARTS)))
    await loader.spans(span(99, start=BEGIN + 2 * BUCKET + 2 * SECOND), project=OTHER_PROJECT)
    body = {"fn": "count", "groupBy": "name", "from": BEGIN - HOUR, "intervalMinutes": 1}
    body |= {"to": BEGIN + 3 * BUCKET, "filters": [{"key": "name", "op": "eq", "value": "0"}]}
    for ceiling, scanned, after in CEILINGS:
        begin = BEGIN + after
        settings = QuerySettings(max_scan_rows=ceiling)
        async with served(ClickHouse(clickhouse_url, database=database), settings, [NOW]) as explore:
            answer = await shown(explore, **body)
        assert (answer["scanned"], answer["scanTruncated"]) == (scanned, scanned < 12)
        assert answer["range"]["from"] == format_timestamp(begin)
        assert answer["limits"]["maxScanRows"] == ceiling
        seen = sum(start >= begin and n % 2 == 0 for n, start in enumerate(STARTS))
        assert [each["count"] for each in answer["groups"]] == ([seen] if seen else [])
        for series in answer["series"]:
            assert len(series["points"]) == point_count(Window(begin, BEGIN + 3 * BUCKET), 1)
            assert sum(point["count"] for point in series["points"]) == seen


async def test_a_ceiling_may_fall_between_nanoseconds(
    explore_store: ClickHouse, moving_clock: list[int], loader: Loader
) -> None:
    """Spans of one nanosecond stay together."""
    last = BEGIN + 1_234_567_890
    async with served(explore_store, QuerySettings(max_scan_rows=2), moving_clock) as explore:
        for hours, (step, kept) in enumerate(((10**6, 2), (10**3, 2), (1, 2), (0, 5))):
            end = last - hours * HOUR
            await loader.spans(*(span(n + 1, start=end - n * step) for n in range(5)))
            answer = await shown(explore, fn="count", **{"from": BEGIN - hours * HOUR, "to": end + 1})
            assert (answer["scanned"], answer["scanTruncated"]) == (kept, True), step
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
