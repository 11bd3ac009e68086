"""What a comparison counts, against a plain model of it over the same spans, and against the lists of the API."""

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any, Final, NamedTuple

import pytest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope

from chassis.clickhouse import ClickHouse
from query.analysis.comparison import MIN_Z, Totals, score
from tests.query import model
from tests.query.conftest import (
    NOW,
    ONE_ENGINE,
    OTHER_PROJECT,
    SECOND,
    Explore,
    Loader,
    key_values,
    span,
)
from tests.query.model import as_shown, is_number, text_of
from tests.selection import scaled

SPIKE, BASELINE = {"from": "-10m", "to": "now"}, {"from": "-1h", "to": "-10m"}
BODY: Final = {"spike": SPIKE, "baseline": BASELINE, "limit": 200}
OWN_FIELDS: Final = ("name", "serviceName", "kind", "statusCode", "environment", "release")
DUPLICATES: Final = {"resource.service.name", "resource.service.version", "resource.deployment.environment"}
KINDS: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
TYPED: Final = (
    *("", "200", "200.0", "0", "-0", "é😀", "true", "'; DROP TABLE spans --", "{p0:UInt64}", "a\1k\2s\3A", "%_\\"),
    *(0, 3, 200, 10**16, 0.0, -0.0, 0.1, 200.0, 1e16, float("nan"), float("inf"), True, None, b"ab", [1]),
)
KEYS: Final = (
    *("k", "l", "host", "resource.host", "resource.k", "scope.name", "name", "attr:k", "`'\"\\", "\1\2", "id"),
    *("resource.service.name", "service.name", "", "n"),
)


@dataclass
class Stored:
    """A span as the API shows it: own fields that it has, and `attributes`."""

    spike: bool
    fields: dict[str, str]
    shown: dict[str, Any] = field(default_factory=dict)


def value_of(stored: Stored, key: str) -> Any:
    """What a filter on `key` looks at; KeyError where it finds nothing."""
    return stored.fields[key] if key in OWN_FIELDS else model.value_of(stored.shown, key)


def has(stored: Stored, key: str) -> bool:
    try:
        value_of(stored, key)
    except KeyError:
        return False
    return True


def equals(value: Any, text: str) -> bool:
    return text_of(value) == text or (is_number(value) and number_of(text) == Fraction(value))


def number_of(text: str) -> Fraction | None:
    try:
        return Fraction(text)
    except ValueError:
        return None


def spelled(key: str) -> str:
    """As a filter has to spell an attribute."""
    return f"attr:{key}" if key == "name" or key.startswith("attr:") else key


def compared_keys(stored: list[Stored]) -> list[str]:
    names = {spelled(key) for each in stored for key in each.shown if key}
    return [*OWN_FIELDS, *sorted(names - DUPLICATES)]


def is_left_out(stored: list[Stored], key: str) -> bool:
    """Identifiers, and numbers that have too many values."""
    values = [value_of(each, key) for each in stored if has(each, key)]
    sides = [
        [text_of(value_of(each, key)) for each in stored if has(each, key) and each.spike is side]
        for side in (True, False)
    ]
    numeric = all(type(value) in (int, float) for value in values)
    unique = len(sides[0]) >= 20 and len(set(sides[0])) > 0.9 * len(sides[0])
    return unique or (numeric and any(len(set(side)) > 50 for side in sides))


def compared(stored: list[Stored], keys: list[str] | None, least: int) -> tuple[int, list[dict[str, Any]]]:
    """Pairs considered, and what an answer lists."""
    totals = Totals(sum(each.spike for each in stored), sum(not each.spike for each in stored))
    found, considered = [], 0
    for key in keys or compared_keys(stored):
        if not keys and key not in OWN_FIELDS and is_left_out(stored, key):
            continue
        for text, s, b in told_once([found_by(stored, key, text) for text in frequent(stored, key, least)]):
            considered += 1
            figures = score(totals, s, b)
            if figures.z > MIN_Z:
                found.append((figures.rank, finding(key, text, s, b, figures)))
    found.sort(key=lambda each: (*each[0], each[1]["key"], each[1]["value"]))
    return considered, [each for _, each in found]


class FoundBy(NamedTuple):
    """A value as it is stored, by how many spans of the spike so; and the places of all spans that its filter finds."""

    text: str
    exact: int
    spike: frozenset[int]
    baseline: frozenset[int]


def frequent(stored: list[Stored], key: str, least: int) -> dict[str, int]:
    """Texts that enough spans of the spike have."""
    counts = Counter(text_of(value_of(each, key)) for each in stored if each.spike and has(each, key))
    return {text: exact for text, exact in counts.items() if exact >= least}


def found_by(stored: list[Stored], key: str, text: str) -> FoundBy:
    having = [(n, each, value_of(each, key)) for n, each in enumerate(stored) if has(each, key)]
    exact = sum(each.spike and text_of(value) == text for _, each, value in having)
    found = [(n, each.spike) for n, each, value in having if equals(value, text)]
    return FoundBy(text, exact, *(frozenset(n for n, spike in found if spike is side) for side in (True, False)))


def told_once(values: list[FoundBy]) -> list[tuple[str, int, int]]:
    """Texts with their spans of either side; of spellings of one number that share spans the one that finds most."""
    sets: dict[Any, list[FoundBy]] = {}
    for each in values:
        number = number_of(each.text)
        sets.setdefault(each.text if number is None else number, []).append(each)
    kept = list[FoundBy]()
    for equal in sets.values():
        equal.sort(key=lambda one: (-len(one.spike), -len(one.baseline), -one.exact, len(one.text), one.text))
        shared = any((a.spike & b.spike) | (a.baseline & b.baseline) for a, b in combinations(equal, 2))
        kept += equal[:1] if shared else equal
    return [(each.text, len(each.spike), len(each.baseline)) for each in kept]


def finding(key: str, text: str, s: int, b: int, figures: Any) -> dict[str, Any]:
    shares = {"spikeShare": figures.spike_share, "baselineShare": figures.baseline_share}
    others = {name: getattr(figures, name) for name in ("surplus", "lift", "contribution")}
    counts = {"spikeCount": s, "baselineCount": b, "expectedCount": figures.expected}
    return {"key": key, "value": text, **counts, **shares, **others}


async def stored_at_random(rng: random.Random, loader: Loader) -> list[Stored]:
    """Spans of both windows. Each batch has a resource and a scope; each side prefers other values."""
    stored, number = list[Stored](), 0
    favourites = {side: rng.sample(TYPED, 3) for side in (True, False)}
    for batch in range(16):
        spike = batch % 2 == 0
        resource = some(rng, ["k", "host", "resource.host", "\1\2"], favourites[spike])
        if rng.random() < 0.7:
            resource |= {"service.name": rng.choice("ab"), "service.version": rng.choice("12")}
        if rng.random() < 0.5:
            resource["deployment.environment"] = "prod"
        scope_name, scope = rng.choice(["", "otel", "lib"]), some(rng, ["k", "name"], favourites[spike])
        spans = []
        for _ in range(rng.randint(5, 20)):
            number += 1
            own = some(rng, KEYS, favourites[spike]) | {"id": f"i{number}", "n": number % 60}
            name, kind, status = rng.choice("xyz" if spike else "x"), rng.choice([1, 2]), rng.choice([0, 2])
            start = NOW - (rng.randint(1, 599) if spike else rng.randint(601, 3599)) * SECOND
            spans.append(span(number, name=name, kind=kind, status=status, start=start, attributes=own))
            fields = own_fields(name, kind, status, resource)
            stored.append(
                Stored(spike, fields, as_shown(own, resource, ({"name": scope_name} if scope_name else {}) | scope))
            )
        pb_scope = InstrumentationScope(name=scope_name, version="v" * spike, attributes=key_values(scope))
        if spike:
            for each in stored[-len(spans) :]:
                each.shown.setdefault("scope.version", "v")
        await loader.spans(*spans, resource=resource, scope=pb_scope)
    return stored


def some(rng: random.Random, keys: Any, favourites: list[Any]) -> dict[str, Any]:
    """Some of the keys; most values are favourites."""
    return {
        key: rng.choice(favourites) if rng.random() < 0.7 else rng.choice(TYPED) for key in keys if rng.random() < 0.4
    }


def own_fields(name: str, kind: int, status: int, resource: dict[str, Any]) -> dict[str, str]:
    fields = {
        "name": name,
        "kind": KINDS[kind],
        "statusCode": ("UNSET", "OK", "ERROR")[status],
        "environment": resource.get("deployment.environment", "unknown"),
        "serviceName": resource.get("service.name"),
        "release": resource.get("service.version"),
    }
    return {key: value for key, value in fields.items() if value is not None}


@pytest.mark.parametrize(
    ("clickhouse_url", "seed"),
    [
        ("embedded", 0),
        pytest.param("embedded", 1, marks=pytest.mark.long),
        pytest.param("embedded", 2, marks=pytest.mark.long),
        pytest.param("http", 0, marks=pytest.mark.second_store),
    ],
    indirect=["clickhouse_url"],
)
async def test_counts_are_those_of_a_plain_model(
    seed: int, loader: Loader, explore: Explore, clickhouse: ClickHouse
) -> None:
    """Over parts as inserts leave them, and over a merged one, whose Maps are split by key."""
    rng = random.Random(seed)
    stored = await stored_at_random(rng, loader)
    await loader.spans(*(span(n, name="foreign", start=NOW - SECOND) for n in range(1, 99)), project=OTHER_PROJECT)
    await check(explore, stored, 5)
    if seed == 0:
        await clickhouse.command("ALTER TABLE spans MODIFY SETTING min_bytes_for_wide_part = 0")
        await clickhouse.command("OPTIMIZE TABLE spans FINAL")
        await check(explore, stored, 5)
    await check(explore, stored, 1)
    await check(explore, stored, 3, keys=["k", "attr:k", "resource.host", "name", "scope.name", "n", "id", "release"])


async def check(explore: Explore, stored: list[Stored], least: int, keys: list[str] | None = None) -> None:
    answer = await explore.post("/spans/compare", {**BODY, "minSpikeCount": least, "keys": keys})
    assert answer.status == 200, answer.text
    considered, attributes = compared(stored, keys, least)
    assert answer.json["attributes"] == attributes[:200]
    assert answer.json["pairsConsidered"] == considered
    assert answer.json["truncated"] is (len(attributes) > 200)
    assert attributes


@ONE_ENGINE
@pytest.mark.sized
async def test_each_finding_is_a_filter_that_finds_as_many_spans(loader: Loader, explore: Explore) -> None:
    stored = await stored_at_random(random.Random(7), loader)
    assert sum(each.spike for each in stored) <= 200
    answer = (await explore.post("/spans/compare", BODY)).json
    assert len(answer["attributes"]) > 10
    for each in answer["attributes"][:: scaled(5, 1)]:
        filters = json.dumps([{"key": each["key"], "op": "eq", "value": each["value"]}])
        for side, count in ((SPIKE, each["spikeCount"]), (BASELINE, each["baselineCount"])):
            rows = await explore.data(from_=side["from"], to=side["to"], filters=filters, limit=200)
            assert len(rows) == count, each
