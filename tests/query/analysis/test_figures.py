"""Several figures at once, against each computed from the generated spans in plain Python."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from chassis.clickhouse import ClickHouse
from query.analysis.windows import INTERVALS_SECONDS, default_interval_seconds, points_of_seconds
from query.settings import QuerySettings
from query.statements import Fn, Window
from query.values import HOUR, MINUTE, SECOND, format_timestamp
from tests.query.analysis.test_aggregate_figures import (
    FIELDS,
    GROUPS,
    KEYS,
    Made,
    batch,
    decoded,
    figure,
    load,
    same,
)
from tests.query.conftest import NOW, OTHER_PROJECT, Explore, Loader, served, span
from tests.query.model import text_of

PATH = "/spans/figures"
FILTERS: dict[str | None, Any] = {
    None: None,
    "statusCode": {"key": "statusCode", "op": "eq", "value": "ERROR"},
    "name": {"key": "name", "op": "in", "value": ["a", "9"]},
    "a": {"key": "a", "op": "exists"},
    "h": {"key": "h", "op": "not_exists"},
    "none": {"key": "name", "op": "eq", "value": "none such"},
}


def covers(filtered: str | None, made: Made) -> bool:
    match filtered:
        case None:
            return True
        case "statusCode":
            return made.status == 2
        case "name":
            return made.name in ("a", "9")
        case "a":
            return made.value("a") is not None
        case "h":
            return made.value("h") is None
    return False


def figures(rng: random.Random) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Up to six, some of which cover the same values; each with the name of its filter."""
    shared = rng.choice(["durationMs", "a", "h"]), rng.choice([*FILTERS])
    for _ in range(rng.randint(1, 6)):
        fn = rng.choice([*Fn])
        key, filtered = (
            shared if rng.random() < 0.5 else (rng.choice([*FIELDS, *KEYS, "durationMs"]), rng.choice([*FILTERS]))
        )
        if fn is Fn.COUNT and rng.random() < 0.5:
            key = None  # type: ignore[assignment]
        filters = [FILTERS[filtered]] if filtered else [None, list[Any]()][rng.randrange(2)]
        yield {"fn": fn, "field": key, "filters": filters}, filtered


def expected(request: Mapping[str, Any], filtered: Sequence[str | None], spans: Sequence[Made]) -> list[Any]:
    """(group, its spans, values) in the order of the answer."""
    groups: dict[tuple[str | None, ...], list[Made]] = {} if request["groupBy"] else {(): []}
    for made in spans:
        values = [made.value(key) for key in request["groupBy"] or ()]
        groups.setdefault(tuple(None if value is None else text_of(value) for value in values), []).append(made)

    def place(group: tuple[tuple[str | None, ...], list[Made]]) -> tuple[Any, ...]:
        rank = request["sort"] or 0
        value = wanted(request["figures"][rank], filtered[rank], group[1])
        texts = [(text is None, (text or "").encode()) for text in group[0]]
        return value is None, -(value or 0), *texts

    return sorted(groups.items(), key=place)


def wanted(asked: Mapping[str, Any], filtered: str | None, spans: Sequence[Made]) -> Any:
    return figure(Fn(asked["fn"]), asked["field"], [made for made in spans if covers(filtered, made)])


def check(answer: Any, request: Mapping[str, Any], filtered: Sequence[str | None], spans: Sequence[Made]) -> None:
    groups, limit = expected(request, filtered, spans), request["limit"]
    assert answer["figures"] == [asked | {"filters": asked["filters"] or []} for asked in request["figures"]]
    assert answer["groupBy"] == (request["groupBy"] or [])
    assert (answer["groupCount"], answer["groupsTruncated"]) == (len(groups), len(groups) > limit)
    assert [tuple(each["group"]) for each in answer["groups"]] == [group for group, _ in groups[:limit]]
    for shown, (_, members) in zip(answer["groups"], groups, strict=False):
        assert shown["count"] == len(members)
        check_values(shown["values"], request, filtered, members)
    width = request["intervalSeconds"] * SECOND
    if not width:
        assert (answer["series"], answer["intervalSeconds"]) == ([], None)
        return
    assert [tuple(each["group"]) for each in answer["series"]] == [group for group, _ in groups[:limit]]
    starts = range((NOW - 2 * HOUR) // width * width, NOW, width)
    for series, (_, members) in zip(answer["series"], groups, strict=False):
        assert [point["bucket"] for point in series["points"]] == [format_timestamp(each)[:19] + "Z" for each in starts]
        for point, start in zip(series["points"], starts, strict=True):
            inside = [made for made in members if start <= made.start < start + width]
            assert point["count"] == len(inside)
            check_values(point["values"], request, filtered, inside)


def check_values(
    values: Sequence[Any], request: Mapping[str, Any], filtered: Sequence[str | None], spans: Sequence[Made]
) -> None:
    for value, asked, each in zip(values, request["figures"], filtered, strict=True):
        right = wanted(asked, each, spans)
        assert same(value, right), (asked, value, right)


def requests(rng: random.Random) -> Iterator[tuple[dict[str, Any], list[str | None]]]:
    for _ in range(25):
        made = list(figures(rng))
        keys = [rng.choice([key for key in GROUPS if key]) for _ in range(rng.randint(0, 3))]
        yield (
            {
                "figures": [asked for asked, _ in made],
                "groupBy": keys or rng.choice([None, []]),
                "limit": rng.randint(1, 12),
                "sort": rng.choice([None, rng.randrange(len(made))]),
                "hours": 2,
                "intervalSeconds": rng.choice([0, 420, 1001]),
            },
            [filtered for _, filtered in made],
        )


@pytest.fixture(params=[1, 100_000], ids=["two scans", "one scan"])
def query_settings(request: pytest.FixtureRequest) -> QuerySettings:
    return QuerySettings(max_group_cardinality=request.param)


@pytest.mark.parametrize(
    ("clickhouse_url", "seed"),
    [
        pytest.param("embedded", 0, marks=pytest.mark.long),
        pytest.param("embedded", 2, marks=pytest.mark.long),
        ("embedded", 1),
        pytest.param("embedded", 3, marks=pytest.mark.long),
        pytest.param("http", 2, marks=pytest.mark.second_store),
    ],
    indirect=["clickhouse_url"],
)
async def test_every_figure_is_that_of_the_spans(
    seed: int, clickhouse: ClickHouse, explore: Explore, loader: Loader
) -> None:
    """Ties, absent keys, mixed types, NaN, figures that cover no span of a group; also if the roll-up is lost."""
    rng = random.Random(seed)
    spans = await load(loader, [batch(rng) for _ in range(seed)])
    if seed in (1, 3):
        await clickhouse.command("TRUNCATE TABLE attribute_keys")
    for request, filtered in requests(rng):
        answer = decoded(await explore.post(PATH, request))
        assert answer["scanned"] == len(spans)
        check(answer, request, filtered, spans)


async def test_the_whole_answer(explore: Explore, loader: Loader) -> None:
    noon = NOW // HOUR * HOUR - 3 * HOUR
    await loader.spans(
        span(1, start=noon + 1, duration=1_500_000, status=2, attributes={"route": "/a"}),
        span(2, start=noon + 59 * SECOND, duration=12_345_678, attributes={"route": "/a"}),
        span(3, start=noon + 3 * SECOND, duration=3),
        resource={"service.name": "cart"},
    )
    await loader.spans(span(4, start=noon + 1), project=OTHER_PROJECT)
    failed = [{"key": "statusCode", "op": "eq", "value": "ERROR"}]
    body: dict[str, Any] = {"figures": [{"fn": "count", "filters": failed}, {"fn": "p95", "field": "durationMs"}]}
    body |= {"groupBy": ["serviceName", "route"], "limit": 1, "sort": 1, "intervalSeconds": 30, "from": noon}
    answer = await explore.post(PATH, body | {"to": noon + MINUTE})
    assert answer.status == 200, answer.text
    bucket, half = format_timestamp(noon)[:19] + "Z", format_timestamp(noon + 30 * SECOND)[:19] + "Z"
    assert answer.json == {
        "figures": [
            {"fn": "count", "field": None, "filters": failed},
            {"fn": "p95", "field": "durationMs", "filters": []},
        ],
        "groupBy": ["serviceName", "route"],
        "intervalSeconds": 30,
        "range": {"from": format_timestamp(noon), "to": format_timestamp(noon + MINUTE)},
        "groups": [{"group": ["cart", "/a"], "count": 2, "values": [1, 12.345678]}],
        "series": [
            {
                "group": ["cart", "/a"],
                "points": [
                    {"bucket": bucket, "count": 1, "values": [1, 1.5]},
                    {"bucket": half, "count": 1, "values": [0, 12.345678]},
                ],
            }
        ],
        "scanned": 3,
        "scanTruncated": False,
        "groupCount": 2,
        "groupsTruncated": True,
        "limits": {"maxScanRows": 50_000_000, "maxSeries": 100, "maxGroupCardinality": 1},
    } | {"limits": answer.json["limits"]}


async def test_no_spans_are_one_group_or_none(explore: Explore) -> None:
    asked = [{"fn": "count"}, {"fn": "sum", "field": "durationMs"}, {"fn": "p50", "field": "durationMs"}]
    answer = (await explore.post(PATH, {"figures": asked, "hours": 1})).json
    assert answer["groups"] == [{"group": [], "count": 0, "values": [0, 0, None]}]
    assert {(point["count"], *point["values"]) for point in answer["series"][0]["points"]} == {(0, 0, 0, None)}
    assert (answer["groupCount"], answer["intervalSeconds"]) == (1, 120)
    assert len(answer["series"][0]["points"]) in (30, 31), "an hour that begins within an interval has parts of two"
    answer = (await explore.post(PATH, {"figures": asked, "groupBy": ["name"]})).json
    assert (answer["groups"], answer["series"], answer["groupCount"]) == ([], [], 0)


async def test_over_the_limit_the_newest_spans_are_scanned(
    explore_store: ClickHouse, moving_clock: list[int], loader: Loader
) -> None:
    begin = NOW // MINUTE * MINUTE - 10 * MINUTE
    await loader.spans(*(span(n, start=begin + n * SECOND) for n in range(1, 6)))
    settings = QuerySettings(max_scan_rows=2, max_series=0)
    async with served(explore_store, settings, moving_clock) as explore:
        answer = (await explore.post(PATH, {"figures": [{"fn": "count"}], "groupBy": ["name"]})).json
    assert (answer["scanned"], answer["scanTruncated"], answer["groups"][0]["values"]) == (2, True, [2])
    assert answer["range"]["from"] == format_timestamp(begin + 4 * SECOND)
    assert answer["series"] == []


@pytest.mark.parametrize(
    ("length", "seconds"), [(60, 1), (90, 2), (300, 5), (600, 10), (900, 15), (1800, 30), (3600, 60)]
)
def test_the_interval_is_the_shortest_with_sixty_points(length: int, seconds: int) -> None:
    window = Window(1_795_176_000 * SECOND, (1_795_176_000 + length) * SECOND)
    assert default_interval_seconds(window) == seconds
    assert all(points_of_seconds(window, each) > 60 for each in INTERVALS_SECONDS if each < seconds)


@pytest.mark.long  # a busy machine takes longer than a read may
async def test_the_largest_request_is_one_statement_that_the_engine_takes(explore: Explore, loader: Loader) -> None:
    """A hundred and forty filters on keys that occur in several places."""
    await loader.spans(span(1, attributes={"scope.k": 1, "resource.scope.k": 2}), resource={"scope.k": 3})
    filters = [{"key": "scope.k", "op": "gte", "value": str(2**60 + n)} for n in range(20)]
    asked = [
        {"fn": fn, "field": "scope.k", "filters": [*filters[1:], {"key": "scope.k", "op": "lt", "value": n}]}
        for n, fn in enumerate(("sum", "avg", "p95", "count_unique", "min", "max"))
    ]
    body = {"figures": asked, "filters": filters, "groupBy": ["scope.k", "scope.name", "scope.l"]}
    answer = await explore.post(PATH, body)
    assert answer.status == 200, answer.text
