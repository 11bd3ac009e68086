"""Sums of attributes against those of fractions: to the nearest double, half to even, whatever cancels whatever."""

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from query.settings import QuerySettings
from query.statements import Fn
from tests.query.conftest import MS, NOW, ONE_ENGINE, Explore, Loader, span

SMALLEST, LARGEST = 2.0**-27, 1e44  # between them sums are exact


@pytest.fixture(params=[1, 100_000], ids=["two scans", "one scan"])
def query_settings(request: pytest.FixtureRequest) -> QuerySettings:
    return QuerySettings(max_group_cardinality=request.param)


def nearest(numbers: list[float]) -> float:
    """Of the exact sum; a division of integers rounds half to even."""
    total = sum(Fraction(float(number)) for number in numbers)
    return total.numerator / total.denominator if total else 0.0


def any_double(rng: random.Random) -> float:
    """Of any exponent for which sums are exact."""
    return rng.choice((1, -1)) * math.ldexp(rng.uniform(1, 2), rng.randint(-27, 145))


def tie(rng: random.Random) -> list[float]:
    """Half way between two doubles, or a little beside."""
    number = any_double(rng)
    half = math.ulp(number) / 2
    return [number, half, *rng.choice(([], [SMALLEST], [-SMALLEST]))] if half >= SMALLEST else [number]


def cancelling(rng: random.Random) -> list[float]:
    """Greater ones leave a lesser one."""
    numbers = [any_double(rng) for _ in range(rng.randint(1, 4))]
    found = [*numbers, any_double(rng), *(-number for number in numbers)]
    rng.shuffle(found)
    return found


def alike(rng: random.Random) -> list[float]:
    scale = rng.choice((1, 128, 1e9, 1e-3))
    return [round(rng.uniform(-1, 1) * 1e6) * scale for _ in range(rng.randint(1, 12))]


def mixed(rng: random.Random) -> list[float]:
    """Integers beyond 2^53, which count as the doubles next to them, zeros of both signs, and edges."""
    edges = (0.0, -0.0, SMALLEST, -SMALLEST, LARGEST, -LARGEST, 2**53 + 1, -(2**63), 2**63 - 1, 10**18 + 3)
    return [rng.choice(edges) for _ in range(rng.randint(1, 5))]


MAKERS: tuple[Callable[[random.Random], list[float]], ...] = (tie, cancelling, alike, mixed)
NAMED: dict[str, list[float]] = {
    "a tie whose even neighbour is above": [1e16, -5.0],
    "the same below 0": [-1e16, 5.0],
    "a tie whose even neighbour is below": [2.0**53, 1.0],
    "integers": [10**16, -5],
    "decimals": [0.1] * 10 + [0.2],
    "zeros": [-0.0, -0.0],
    "far apart": [LARGEST, 1e-7, -LARGEST, 0.1] * 3,
    "many": [1e20, *[1.0] * 100, -1e20],
    "an integer beyond 2^53": [1700000000000000001],
}


async def load(loader: Loader, lists: dict[str, list[float]]) -> None:
    """A group a list, half a minute between one number and the next of it."""
    named = [(group, n, number) for group, numbers in lists.items() for n, number in enumerate(numbers)]
    await loader.spans(
        *(
            span(place, start=NOW - 3000 * 1000 * MS - n * 30_000 * MS, attributes={"g": group, "v": number})
            for place, (group, n, number) in enumerate(named, 1)
        )
    )


async def shown(explore: Explore, fn: Fn, minutes: int = 1440, **request: Any) -> list[tuple[str, float | None]]:
    body = {"fn": fn, "field": "v", "groupBy": "g", "limit": 100, "hours": 3, "intervalMinutes": minutes}
    answer = await explore.post("/spans/aggregate", body | request)
    assert answer.status == 200, answer.text
    return [(each["group"], each["value"]) for each in answer.json["groups"]]


async def test_sums_are_the_nearest_doubles_and_half_goes_to_even(explore: Explore, loader: Loader) -> None:
    """And a mean is that sum by the count. A short interval adds up the sums of many cells."""
    rng = random.Random(5)
    lists = NAMED | {f"{n}": rng.choice(MAKERS)(rng) for n in range(90)}
    await load(loader, lists)
    sums = {group: nearest(numbers) for group, numbers in lists.items()}
    for minutes in (1440, 1):
        assert dict(await shown(explore, Fn.SUM, minutes)) == sums
    means = {group: total / len(lists[group]) for group, total in sums.items()}
    assert dict(await shown(explore, Fn.AVG)) == means


@ONE_ENGINE
async def test_a_series_rounds_as_its_groups_do(explore: Explore, loader: Loader) -> None:
    numbers = [1e16, -5.0]
    await loader.spans(*(span(n + 1, attributes={"v": number}) for n, number in enumerate(numbers)))
    answer = await explore.post("/spans/aggregate", {"fn": "sum", "field": "v", "intervalMinutes": 1440, "hours": 24})
    points = answer.json["series"][0]["points"]
    assert [point["value"] for point in points if point["count"]] == [nearest(numbers)]


@ONE_ENGINE
async def test_groups_whose_sums_are_shown_alike_stand_by_their_texts(explore: Explore, loader: Loader) -> None:
    """What is ranked is what is shown."""
    await load(loader, {"b": [1e16, -4.75], "c": [1e16, -5.25], "a": [1e16, -5.0], "d": [1e16, -2.0]})
    assert [group for group, _ in await shown(explore, Fn.SUM)] == ["d", "a", "b", "c"]


BEYOND = [
    *([5e-324], [-5e-324, 0.0], [1.7976931348623157e308], [1e300, -1e300, 3.0], [3e-30, 5e-300, 1e-9], [1e45, 1e45]),
    *([math.nextafter(SMALLEST, 0)] * 4, [math.nextafter(LARGEST, math.inf), 1.0]),
]


@ONE_ENGINE
async def test_numbers_beyond_those_sizes_are_added_as_doubles(explore: Explore, loader: Loader) -> None:
    for n, numbers in enumerate(BEYOND):
        await load(loader, {f"g{n}": numbers})
        alone = [{"key": "g", "op": "eq", "value": f"g{n}"}]
        assert await shown(explore, Fn.SUM, filters=alone) == [(f"g{n}", nearest(numbers))]


@ONE_ENGINE
async def test_a_sum_beyond_doubles_is_none(explore: Explore, loader: Loader) -> None:
    await load(loader, {"g": [1.7976931348623157e308] * 2})
    assert await shown(explore, Fn.SUM) == [("g", None)]
