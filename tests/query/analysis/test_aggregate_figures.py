"""Every figure of an aggregate against the same one computed from the generated spans in plain Python."""

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import pytest

from chassis.clickhouse import ClickHouse
from query.rows import SPAN_KINDS, STATUS_CODES
from query.settings import QuerySettings
from query.statements import Fn
from query.values import MINUTE, format_millis, format_timestamp
from tests.query import model
from tests.query.conftest import HOUR, NOW, Answer, Explore, Loader, span
from tests.query.model import as_shown, is_number, text_of

T = TypeVar("T", int, float)
KEYS = ("a", "b", "h", "resource.h")
FIELDS = ("durationMs", "name", "kind", "statusCode", "serviceName", "release", "statusMessage", "traceId", "spanId")
GROUPS = (*FIELDS, "parentSpanId", "startTime", "environment", *KEYS, "attr:name", None)


@dataclass
class Made:
    """A generated span. `resource`: the attributes of its resource."""

    number: int
    start: int
    duration: int
    name: str
    kind: int
    status: int
    message: str
    trace: int
    parent: int
    attributes: dict[str, Any]
    resource: dict[str, Any] = field(default_factory=dict)

    def value(self, key: str) -> Any:
        """As filters find it; None: absent. Own fields as their texts."""
        if key in OWN:
            return OWN[key](self)
        try:
            return model.value_of(as_shown(self.attributes, self.resource, {}), key)
        except KeyError:
            return None


OWN: Mapping[str, Callable[[Made], str | None]] = {
    "name": lambda made: made.name,
    "kind": lambda made: SPAN_KINDS[made.kind],
    "statusCode": lambda made: STATUS_CODES[made.status],
    "statusMessage": lambda made: made.message or None,
    "serviceName": lambda made: made.resource.get("service.name"),
    "release": lambda made: made.resource.get("service.version"),
    "environment": lambda _: "unknown",
    "durationMs": lambda made: format_millis(max(made.duration, 0)),
    "startTime": lambda made: format_timestamp(made.start),
    "traceId": lambda made: f"{made.trace:032x}",
    "spanId": lambda made: f"{made.number:016x}",
    "parentSpanId": lambda made: f"{made.parent:016x}" if made.parent else None,
}


def figure(fn: Fn, key: str | None, spans: Sequence[Made]) -> Any:
    """What the answer is to show as `value`."""
    if fn is Fn.COUNT and key is None:
        return len(spans)
    assert key is not None
    found = [value for value in (made.value(key) for made in spans) if value is not None]
    if fn is Fn.COUNT:
        return len(found)
    if fn is Fn.COUNT_UNIQUE:
        return len({text_of(value) for value in found})
    if not spans:
        return 0 if fn is Fn.SUM else None
    if key == "durationMs":
        return millis(fn, [max(made.duration, 0) for made in spans])
    return double(fn, [float(value) for value in found if is_number(value)])


def millis(fn: Fn, nanos: list[int]) -> Decimal:
    made = sum(nanos) if fn is Fn.SUM else (2 * sum(nanos) + len(nanos)) // (2 * len(nanos))
    return Decimal(made if fn in (Fn.SUM, Fn.AVG) else ranked(fn, nanos)) / 10**6


def double(fn: Fn, numbers: list[float]) -> float | None:
    if not numbers:
        return None
    if fn in (Fn.SUM, Fn.AVG):
        total = math.fsum(numbers)
        return total if fn is Fn.SUM else total / len(numbers)
    return ranked(fn, numbers)


def ranked(fn: Fn, values: list[T]) -> T:
    if fn is Fn.MIN:
        return min(values)
    if fn is Fn.MAX:
        return max(values)
    thousandths = int(fn.removeprefix("p").ljust(3, "0"))
    return sorted(values)[math.ceil(Fraction(thousandths, 1000) * len(values)) - 1]


# Sums of these are the same in any order; that sums hardly depend on it has a test of its own.
VALUES = [
    *("", "x", "y", "7", "é", "NaN", "\1\2\3", True, 0, -0.0, 7, 7.0, -3, 0.125, 2.5, 1000, math.nan, math.inf),
    [1, "x"],
]
ATTRIBUTES = ("a", "b", "h", "resource.h", "name")


def some(rng: random.Random, keys: Sequence[str]) -> dict[str, Any]:
    return {key: rng.choice(VALUES) for key in keys if rng.random() < 0.4}


def made_span(rng: random.Random) -> Made:
    return Made(
        number=0,
        start=NOW - 100 * MINUTE + rng.randrange(90 * 60_000) * 10**6 + 7,
        duration=rng.choice([rng.randint(-3, 12), rng.randrange(5_000_000_000)]),
        name=rng.choice(["a", "b", "10", "9"]),
        kind=rng.randrange(6),
        status=rng.randrange(3),
        message=rng.choice(["", "refused"]),
        trace=rng.randint(1, 3),
        parent=rng.randint(0, 2),
        attributes=some(rng, ATTRIBUTES),
    )


def batch(rng: random.Random) -> tuple[dict[str, Any], list[Made]]:
    resource = some(rng, ("h", "a"))
    resource |= {key: rng.choice(["cart", "2"]) for key in ("service.name", "service.version") if rng.random() < 0.5}
    return resource, [made_span(rng) for _ in range(rng.choice([1, 5, 20, 40]))]


async def load(loader: Loader, batches: Sequence[tuple[dict[str, Any], list[Made]]]) -> list[Made]:
    made = list[Made]()
    for resource, spans in batches:
        for each in spans:
            each.resource, each.number = resource, len(made) + 1
            made.append(each)
        await loader.spans(*map(sent, spans), resource=resource)
    return made


def sent(made: Made) -> Any:
    return span(**{name: value for name, value in vars(made).items() if name != "resource"})


def decoded(answer: Answer) -> Any:
    """JSON with decimal numbers as they stand there; NaN and Infinity are no JSON."""
    assert answer.status == 200, answer.text
    return json.loads(answer.text, parse_float=Decimal, parse_constant=pytest.fail)


def expected(
    fn: Fn, key: str | None, group_by: str | None, spans: Sequence[Made]
) -> list[tuple[str | None, list[Made]]]:
    """The groups in the order of the answer."""
    groups: dict[str | None, list[Made]] = {} if group_by else {None: []}
    for made in spans:
        value = made.value(group_by) if group_by else None
        groups.setdefault(None if value is None else text_of(value), []).append(made)

    def place(group: tuple[str | None, list[Made]]) -> tuple[Any, ...]:
        value = figure(fn, key, group[1])
        return value is None, -(value or 0), group[0] is None, (group[0] or "").encode()

    return sorted(groups.items(), key=place)


def same(shown: Any, wanted: Any) -> bool:
    """Integers and milliseconds to the last digit, doubles as doubles."""
    if wanted is None or isinstance(wanted, int | Decimal):
        return shown == wanted and (shown is None) == (wanted is None)
    return shown is not None and float(shown) == wanted


def check(answer: Any, request: Mapping[str, Any], spans: Sequence[Made], minutes: int) -> None:
    """All of `answer` to `request` about `spans`, which are those within its window."""
    fn, key, group_by, limit = Fn(request["fn"]), request.get("field"), request.get("groupBy"), request["limit"]
    groups = expected(fn, key, group_by, spans)
    assert (answer["fn"], answer["field"], answer["groupBy"]) == (fn, key, group_by)
    assert answer["groupCount"] == len(groups)
    assert answer["groupsTruncated"] is (len(groups) > limit)
    assert [each["group"] for each in answer["groups"]] == [group for group, _ in groups[:limit]]
    assert [each["group"] for each in answer["series"]] == [group for group, _ in groups[:limit]]
    for shown, series, (_, members) in zip(answer["groups"], answer["series"], groups, strict=False):
        assert shown["count"] == len(members)
        assert same(shown["value"], figure(fn, key, members)), (shown, figure(fn, key, members))
        check_points(series["points"], fn, key, members, minutes)


def check_points(points: Sequence[Any], fn: Fn, key: str | None, members: Sequence[Made], minutes: int) -> None:
    width = minutes * MINUTE
    starts = range((NOW - 2 * HOUR) // width * width, NOW, width)
    assert [point["bucket"] for point in points] == [format_timestamp(start)[:19] + "Z" for start in starts]
    for point, start in zip(points, starts, strict=True):
        inside = [made for made in members if start <= made.start < start + width]
        assert point["count"] == len(inside)
        assert same(point["value"], figure(fn, key, inside)), (point, figure(fn, key, inside))


def requests(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Some of each function."""
    for fn in [*Fn] * 3:
        key = rng.choice([*FIELDS, *KEYS, "durationMs", "a"] + [None] * (fn is Fn.COUNT))
        group_by, limit = rng.choice(GROUPS), rng.randint(1, 12)
        yield {"fn": fn, "field": key, "groupBy": group_by, "limit": limit, "hours": 2, "intervalMinutes": 7}


@pytest.fixture(params=[1, 100_000], ids=["two scans", "one scan"])
def query_settings(request: pytest.FixtureRequest) -> QuerySettings:
    return QuerySettings(max_group_cardinality=request.param)


@pytest.mark.parametrize(
    ("clickhouse_url", "seed"),
    [
        ("embedded", 0),
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
    """Missing keys, mixed types, empty texts, ties, q * n whole; what the roll-up knows, and what it has lost."""
    rng = random.Random(seed)
    spans = await load(loader, [batch(rng) for _ in range(seed)])
    if seed in (1, 3):
        await clickhouse.command("TRUNCATE TABLE attribute_keys")
    for request in requests(rng):
        answer = decoded(await explore.post("/spans/aggregate", request))
        assert answer["scanned"] == len(spans)
        check(answer, request, spans, 7)
