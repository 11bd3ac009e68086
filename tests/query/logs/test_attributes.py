"""The keys of log records and the values of a key, against the records counted in plain Python."""

import json
import random
from typing import Any

import pytest

from query.logs import handlers
from query.settings import QuerySettings
from query.values import HOUR, SECOND, format_timestamp
from tests.query.conftest import NOW, OTHER_PROJECT, Explore, Loader, record, served
from tests.query.logs.made import OWN, Made, batch, load, named, numeric

PATH = "/logs/attributes"
VALUES = "/logs/attributes/values"
PREFIXED = (("a", "7"), ("h", "7"), ("body", "7"), ("environment", "unk"), ("severityText", "unk"), ("time", "20"))


def expected(made: list[Made]) -> list[dict[str, Any]]:
    keys = [
        {"key": key, "records": sum(each.value(key) is not None for each in made), "numeric": numeric(key, made)}
        for key in (*OWN, *named(made))
    ]
    return sorted((key for key in keys if key["records"]), key=lambda key: (-key["records"], key["key"]))


@pytest.mark.parametrize(
    ("clickhouse_url", "seed"),
    [("embedded", 4), ("embedded", 9), pytest.param("http", 3, marks=pytest.mark.second_store)],
    indirect=["clickhouse_url"],
)
async def test_keys_are_those_that_filters_find(
    seed: int, explore: Explore, loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a key is numeric is known only where its records are looked at again."""
    rng = random.Random(seed)
    made = await load(loader, [batch(rng, 3 if seed == 9 else 30) for _ in range(seed)])
    await loader.logs(record(attributes={"theirs": 1}), project=OTHER_PROJECT)
    found = expected(made)
    for rechecked, keys in ((0, [key | {"numeric": False} for key in found]), (16, found)):
        monkeypatch.setattr(handlers, "MAX_RECHECKED", rechecked)
        answer = (await explore.get(PATH, hours=2)).json
        assert (answer["scanned"], answer["scanTruncated"]) == (len(made), False)
        assert answer["range"] == {"from": format_timestamp(NOW - 2 * HOUR), "to": format_timestamp(NOW)}
        assert [key | ({} if rechecked else {"numeric": False}) for key in answer["data"]] == keys
    for key in found:
        filters = json.dumps([{"key": key["key"], "op": "exists"}])
        counted = (await explore.post("/logs/aggregate", {"filters": filters, "hours": 2, "intervalSeconds": 0})).json
        assert counted["groups"][0]["count"] == key["records"], key


async def test_a_double_that_is_not_finite_beneath_a_key(explore: Explore, loader: Loader) -> None:
    """Where a record has the key itself it does not count; where it does not, it is the key's value."""
    nan = float("nan")
    await loader.logs(
        record(attributes={"a": 1, "resource.a": nan, "b": 1}),
        record(attributes={"resource.b": nan, "c": nan, "resource.c": 1, "e": 0.5}),
    )
    keys = {key["key"]: (key["records"], key["numeric"]) for key in (await explore.get(PATH)).json["data"]}
    assert {name: keys[name] for name in ("a", "b", "c", "e", "resource.a", "resource.b", "resource.c")} == {
        "a": (1, True),
        "b": (2, False),
        "c": (1, False),
        "e": (1, True),
        "resource.a": (1, False),
        "resource.b": (1, False),
        "resource.c": (1, True),
    }


async def test_too_many_lists_leave_the_newest_records(
    explore: Explore, loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "MAX_ATTRIBUTE_SETS", 1)
    await loader.logs(*(record(at=NOW - n * SECOND, attributes={f"k{n}": n}) for n in range(1, 100)))
    answer = (await explore.get(PATH, hours=1)).json
    assert answer["scanTruncated"]
    assert answer["scanned"] == 1
    assert answer["range"]["from"] > format_timestamp(NOW - HOUR)
    assert {"key": "k1", "records": 1, "numeric": True} in answer["data"]


async def test_only_the_newest_records_are_read(
    explore: Explore, loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "MAX_RECORDS", 10)
    await loader.logs(*(record(at=NOW - n * SECOND, attributes={f"k{n}": n}) for n in range(1, 100)))
    answer = (await explore.get(PATH, hours=1)).json
    assert answer["scanTruncated"]
    scanned = answer["scanned"]
    assert 5 <= scanned <= 10, "the window may begin at a bucket boundary"
    assert {key["key"] for key in answer["data"] if key["key"].startswith("k")} == {
        f"k{n}" for n in range(1, scanned + 1)
    }


async def test_more_keys_than_are_listed_are_announced(explore_store: Any, loader: Loader) -> None:
    await loader.logs(*(record(attributes={f"k{n}": n for n in range(most)}) for most in range(1, 8)))
    async with served(explore_store, QuerySettings(max_attribute_keys=3), [NOW]) as client:
        answer = await client.get(PATH)
        assert answer.headers["X-Sluice-Truncated"] == "keys"
        keys = [key["key"] for key in answer.json["data"] if key["key"].startswith("k")]
        assert keys == ["k0", "k1", "k2"]


async def test_without_records_there_are_no_keys(explore: Explore) -> None:
    answer = await explore.get(PATH, hours=1)
    assert answer.json == {
        "data": [],
        "range": {"from": format_timestamp(NOW - HOUR), "to": format_timestamp(NOW)},
        "scanned": 0,
        "scanTruncated": False,
    }
    assert "X-Sluice-Truncated" not in answer.headers


async def test_values_by_frequency(explore: Explore, loader: Loader) -> None:
    rng = random.Random(5)
    made = await load(loader, [batch(rng) for _ in range(5)])
    for key, prefix in (*((key, "") for key in (*OWN, "a", "h", "resource.h", "attr:body", "x y", "none")), *PREFIXED):
        counts: dict[str, int] = {}
        for text in (each.text(key) for each in made):
            if text is not None and text.startswith(prefix):
                counts[text] = counts.get(text, 0) + 1
        values = sorted(counts, key=lambda text: (-counts[text], text.encode()))
        answer = (await explore.get(VALUES, key=key, prefix=prefix, limit=7, hours=2)).json
        assert answer["data"] == [{"value": text, "count": counts[text]} for text in values[:7]], key
        assert answer["complete"] is (len(values) <= 7)
        assert answer["scanned"] == len(made)


async def test_values_are_those_that_filters_leave(explore: Explore, loader: Loader) -> None:
    await loader.logs(
        record(severity=17, attributes={"route": "/a"}), record(severity=9, attributes={"route": "/b"}), record()
    )
    answer = (await explore.get(VALUES, key="route", filters="severityNumber:>=17")).json
    assert answer["data"] == [{"value": "/a", "count": 1}]
