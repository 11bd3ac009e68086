"""Heatmaps against the spans counted in plain Python, and against filters with the bounds that they print."""

import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from chassis.clickhouse import ClickHouse
from query.analysis.heatmap import log_rows
from query.request.filters import resolve_key
from query.rows import SPANS
from query.settings import QuerySettings
from query.values import HOUR, MINUTE, SECOND, format_timestamp
from tests.query.analysis.test_aggregate_figures import Made, batch, decoded, load
from tests.query.conftest import NOW, OTHER_PROJECT, Explore, Loader, served, span
from tests.query.model import is_number

PATH = "/spans/heatmap"
DURATION = SPANS.fields["durationMs"]


async def shown(explore: Explore, **body: Any) -> Any:
    return decoded(await explore.post(PATH, body))


def counted(answer: Any, values: Sequence[tuple[int, Fraction, bool]]) -> None:
    """Cells, `under`, `over` and `total` are those of `values`: (start, number, whether it is an error)."""
    edges = [Fraction(row["from"]) for row in answer["rows"]]
    edges += [Fraction(row["to"]) for row in answer["rows"][-1:]]
    assert [Fraction(row["to"]) for row in answer["rows"]] == edges[1:]
    assert edges == sorted(set(edges))
    begin, width = NOW - 2 * HOUR, round(Fraction(answer["columnSeconds"]) * SECOND)
    cells, errors, outside = Counter[tuple[int, int]](), Counter[tuple[int, int]](), Counter[str]()
    for start, number, failed in values:
        row = sum(edge <= number for edge in edges) - 1
        if 0 <= row < len(answer["rows"]):
            cells[(start - begin) // width, row] += 1
            errors[(start - begin) // width, row] += failed
        else:
            outside["under" if number < 1 else "over"] += 1
    assert answer["cells"] == [[*cell, cells[cell], errors[cell]] for cell in sorted(cells)]
    assert (answer["under"], answer["over"]) == (outside["under"], outside["over"])
    assert answer["total"] == len(values) == sum(cell[2] for cell in answer["cells"]) + answer["under"] + answer["over"]
    used = {row for _, row in cells}
    assert not used or (min(used), max(used)) == (0, len(answer["rows"]) - 1)


def numbers(spans: Sequence[Made], key: str) -> list[tuple[int, Fraction, bool]]:
    if key == "durationMs":
        return [(made.start, Fraction(max(made.duration, 0), 10**6), made.status == 2) for made in spans]
    found = [(made, made.value(key)) for made in spans]
    return [(made.start, Fraction(value), made.status == 2) for made, value in found if is_number(value)]


@pytest.mark.parametrize(
    ("clickhouse_url", "seed"),
    [
        pytest.param("embedded", 0, marks=pytest.mark.long),
        ("embedded", 1),
        pytest.param("embedded", 3, marks=pytest.mark.long),
        pytest.param("embedded", 4, marks=pytest.mark.long),
        pytest.param("http", 2, marks=pytest.mark.second_store),
    ],
    indirect=["clickhouse_url"],
)
async def test_every_cell_is_that_of_the_spans(
    seed: int, clickhouse: ClickHouse, explore: Explore, loader: Loader
) -> None:
    """Negative durations, absent keys, mixed types, NaN; also if the roll-up is lost."""
    rng = random.Random(seed)
    spans = await load(loader, [batch(rng) for _ in range(seed)])
    if seed in (1, 3):
        await clickhouse.command("TRUNCATE TABLE attribute_keys")
    for key in ("durationMs", "a", "b", "h", "resource.h", "name", "startTime"):
        for columns, per_octave in ((None, None), (7, 3), *(((1, 1), (120, 8)) if key in ("durationMs", "a") else ())):
            body = {"field": key, "columns": columns, "rowsPerOctave": per_octave, "hours": 2}
            answer = await shown(explore, **body)
            assert (answer["field"], answer["scanned"], answer["columns"]) == (key, len(spans), columns or 60)
            counted(answer, numbers(spans, key))
            filters = [{"key": "statusCode", "op": "eq", "value": "ERROR"}]
            failed = [made for made in spans if made.status == 2]
            counted(await shown(explore, **body, filters=filters), numbers(failed, key))


async def test_the_whole_answer(explore: Explore, loader: Loader) -> None:
    begin = NOW - HOUR
    await loader.spans(
        span(1, start=begin, duration=1_000_000),
        span(2, start=begin + 1, duration=1_189_209, status=2),
        span(3, start=begin + 20 * SECOND, duration=1_189_210, status=1),
        span(4, start=begin + 39 * SECOND, duration=1_999_999, status=2),
        span(5, start=begin + 39 * SECOND, duration=0),
        span(6, start=begin + 40 * SECOND, duration=5),
    )
    await loader.spans(span(7, start=begin), project=OTHER_PROJECT)
    answer = await explore.post(PATH, {"columns": 2, "from": begin, "to": begin + 40 * SECOND})
    assert answer.status == 200, answer.text
    assert answer.json == {
        "field": "durationMs",
        "range": {"from": format_timestamp(begin), "to": format_timestamp(begin + 40 * SECOND)},
        "columnSeconds": 20,
        "columns": 2,
        "rows": [
            {"from": 1, "to": 1.18921},
            {"from": 1.18921, "to": 1.41422},
            {"from": 1.41422, "to": 1.6818},
            {"from": 1.6818, "to": 2},
        ],
        "cells": [[0, 0, 2, 1], [1, 1, 1, 0], [1, 3, 1, 1]],
        "under": 1,
        "over": 0,
        "total": 5,
        "scanned": 5,
        "scanTruncated": False,
        "limits": {"maxScanRows": 50_000_000, "maxSeries": 100, "maxGroupCardinality": 100_000},
    }
    assert '"from":1.189210' in answer.text


async def matching(explore: Explore, key: str, row: Any) -> int:
    """The number of spans that filters with the bounds of a row find, as printed."""
    filters = [{"key": key, "op": "gte", "value": "FROM"}, {"key": key, "op": "lt", "value": "TO"}]
    body = json.dumps({"fn": "count", "filters": filters, "hours": 24})
    body = body.replace('"FROM"', row["from"]).replace('"TO"', row["to"])
    answer = await explore.post("/spans/aggregate", body.encode())
    assert answer.status == 200, answer.text
    return int(answer.json["groups"][0]["value"])


def edges_around(edges: Sequence[int]) -> list[int]:
    return sorted({edge + near for edge in edges for near in (-1, 0, 1) if 0 <= edge + near < 2**62})


@pytest.mark.parametrize("per_octave", [1, pytest.param(3, marks=pytest.mark.long), 8])
async def test_rows_of_durations_are_those_of_the_filters(per_octave: int, explore: Explore, loader: Loader) -> None:
    """A nanosecond on either side of every edge."""
    durations = edges_around([int(edge) for edge in log_rows(DURATION, per_octave).edges])
    await loader.spans(*(span(n, start=NOW - MINUTE, duration=each) for n, each in enumerate(durations, 1)))
    text = (await explore.post(PATH, {"columns": 1, "rowsPerOctave": per_octave})).text
    answer = json.loads(text, parse_float=str, parse_int=str)
    rows = {int(row): int(spans) for _, row, spans, _ in answer["cells"]}
    assert sum(rows.values()) + int(answer["under"]) == len(durations)
    bounds = [(round(Decimal(row["from"]) * 10**6), round(Decimal(row["to"]) * 10**6)) for row in answer["rows"]]
    assert [rows.get(n, 0) for n in range(len(bounds))] == [
        sum(low <= each < high for each in durations) for low, high in bounds
    ]
    for n in range(0, len(bounds), max(1, len(bounds) // 12)):
        assert await matching(explore, "durationMs", answer["rows"][n]) == rows.get(n, 0)


@pytest.mark.parametrize(
    "per_octave", [1, pytest.param(5, marks=pytest.mark.long), pytest.param(8, marks=pytest.mark.long)]
)
async def test_rows_of_numbers_are_those_of_the_filters(per_octave: int, explore: Explore, loader: Loader) -> None:
    """The doubles next to edges, and integers beyond 2^53, many of which are the same double."""
    edges = [float(each) for each in log_rows(resolve_key("v", SPANS), per_octave).edges]
    assert all(edge < 2**53 or edge == int(edge) for edge in edges)
    values: list[Any] = [
        near for edge in edges for near in (math.nextafter(edge, 0), edge, math.nextafter(edge, math.inf))
    ]
    values += [
        int(edge) + near
        for edge in edges
        if 2**52 < edge < 2**63
        for near in (-513, -2, -1, 0, 1, 2)
        if edge < 2**63 - 9
    ]
    values += [2**53 + 1, 2**63 - 1, -(2**63), -1, 0, 0.0, -0.0, 5e-324, 1e300, math.nan, math.inf, "5", True]
    await loader.spans(
        *(span(n, start=NOW - MINUTE, attributes={"v": each}) for n, each in enumerate(values, 1)),
    )
    drawn = [Fraction(each) for each in values if is_number(each)]
    text = (await explore.post(PATH, {"field": "v", "columns": 1, "rowsPerOctave": per_octave})).text
    answer = json.loads(text, parse_float=str, parse_int=str)
    rows = {int(row): int(spans) for _, row, spans, _ in answer["cells"]}
    bounds = [(Fraction(row["from"]), Fraction(row["to"])) for row in answer["rows"]]
    # What an edge means for a double is what a filter makes of it: the double nearest to it.
    exact = [(each if each.denominator == 1 and each > 2**53 else Fraction(float(each))) for each, _ in bounds]
    exact.append(bounds[-1][1])
    wanted = [sum(low <= each < high for each in drawn) for low, high in pairwise(exact)]
    assert [rows.get(n, 0) for n in range(len(bounds))] == wanted
    assert sum(rows.values()) + int(answer["under"]) + int(answer["over"]) == len(drawn) == int(answer["total"])
    for n in range(len(bounds) - 1, -1, -max(1, len(bounds) // 12)):
        assert await matching(explore, "v", answer["rows"][n]) == rows.get(n, 0), answer["rows"][n]


@pytest.mark.parametrize("per_octave", range(1, 9))
@pytest.mark.parametrize("key", ["durationMs", "v"])
def test_a_program_that_reads_edges_as_doubles_writes_the_same_numbers(key: str, per_octave: int) -> None:
    rows = log_rows(resolve_key(key, SPANS), per_octave)
    assert list(rows.edges) == sorted(rows.edges)
    assert (len(rows.edges) - 1) * 120 + 2 <= 100_000  # rows of a read
    for n, edge in enumerate(rows.edges[:-1]):
        exact = Fraction(edge, rows.unit) if isinstance(edge, int) else Fraction(repr(edge))
        assert Fraction(repr(float(exact))) == exact
        ideal = 2 ** (rows.lowest_octave + Fraction(n, per_octave))
        assert ideal * (1 - 1e-12) <= float(exact) <= ideal * (1 + 1e-5) + 1e-6


async def test_over_the_limit_the_newest_spans_are_drawn(
    explore_store: ClickHouse, moving_clock: list[int], loader: Loader
) -> None:
    begin = NOW // MINUTE * MINUTE - 10 * MINUTE
    await loader.spans(*(span(n, start=begin + n * SECOND) for n in range(1, 6)))
    async with served(explore_store, QuerySettings(max_scan_rows=2), moving_clock) as explore:
        answer = await shown(explore, columns=7)
    assert (answer["scanned"], answer["scanTruncated"], answer["total"]) == (2, True, 2)
    assert answer["range"]["from"] == format_timestamp(begin + 4 * SECOND)
    assert answer["columns"] <= 7


async def test_a_window_of_few_nanoseconds_has_a_column_for_each(explore: Explore, loader: Loader) -> None:
    begin = NOW - MINUTE
    await loader.spans(*(span(n + 1, start=begin + n) for n in range(5)))
    answer = await shown(explore, **{"from": begin, "to": begin + 3})
    assert (answer["columns"], answer["columnSeconds"]) == (3, Decimal("0.000000001"))
    assert [cell[0] for cell in answer["cells"]] == [0, 1, 2]
