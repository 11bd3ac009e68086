"""The list of keys where spans carry more of them than anybody lists."""

import pytest

from chassis.clickhouse import ClickHouse
from proto.otlp import codec
from query.analysis import attributes
from query.settings import QuerySettings
from query.statements import BUCKET
from tests.query.conftest import NOW, PROJECT, SECOND, Explore, Loader, span

AGO = NOW // BUCKET * BUCKET - 3 * BUCKET  # a bucket that windows up to now have as a whole
MOST = QuerySettings().max_attribute_keys


async def flooded(clickhouse: ClickHouse, keys: int, start_ns: int = AGO) -> None:
    """A roll-up without limit: an older release named every key of every span."""
    await clickhouse.command(
        "INSERT INTO attribute_keys SELECT {project:UInt64}, toStartOfFiveMinutes(toDateTime({second:UInt32}, 'UTC')),"
        " concat('flood.', toString(number)), 1, 0 FROM numbers({keys:UInt64})",
        {"project": PROJECT, "second": start_ns // SECOND, "keys": keys},
    )


def spans_of(data: list[dict[str, object]]) -> dict[object, object]:
    return {row["key"]: row["spans"] for row in data}


@pytest.mark.parametrize("keys", [MOST + 500, pytest.param(1_000_000, marks=pytest.mark.long)])
async def test_of_a_million_keys_those_of_most_spans_are_listed(
    loader: Loader, explore: Explore, clickhouse: ClickHouse, keys: int
) -> None:
    await flooded(clickhouse, keys)
    rare = {f"rare.{n}": n for n in range(50)}
    await loader.spans(*(span(n, start=AGO + n, attributes={"often": 1, **rare}) for n in range(1, 601)))
    answer = await explore.get("/attributes", from_=AGO - BUCKET, to=NOW)
    assert answer.status == 200
    assert answer.headers["X-Sluice-Truncated"] == "keys"
    found = spans_of(answer.json["data"])
    assert len([key for key in found if str(key).startswith(("flood.", "rare.", "often"))]) == MOST
    assert found["often"] == 600
    assert {key: found[key] for key in rare} == dict.fromkeys(rare, 600)


async def test_too_many_lists_in_parts_of_buckets_are_counted_in_whole_ones(
    loader: Loader, explore: Explore, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attributes, "MAX_ATTRIBUTE_SETS", 10)
    monkeypatch.setattr(attributes, "_MAX_GROUP_BY_KEYS", 10)
    each = [span(n, start=AGO + n * SECOND, attributes={"often": n, f"only.{n}": 1}) for n in range(1, 101)]
    await loader.spans(*each, resource={"host": "a"})
    answer = await explore.get("/attributes", from_=AGO + 21 * SECOND, to=AGO + 51 * SECOND)
    assert (answer.status, answer.headers["X-Sluice-Truncated"]) == (200, "keys")
    found = {row["key"]: (row["spans"], row["numeric"]) for row in answer.json["data"]}
    assert found["often"] == (100, True)
    assert found["resource.host"] == (100, False)
    assert {key for key in found if key.startswith("only.")} == {f"only.{n}" for n in range(1, 101)}


async def test_what_the_roll_up_does_not_name_is_told(loader: Loader, explore: Explore) -> None:
    loader.named = codec.new_named_keys(0, 3)
    await loader.spans(span(1, start=AGO, attributes={"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}))
    answer = await explore.get("/attributes", from_=AGO - BUCKET, to=NOW)
    assert answer.headers["X-Sluice-Truncated"] == "keys"
    assert spans_of(answer.json["data"]).keys() & {"a", "b", "c", "d", "e", "", "\ufffd", "ff"} == {"a", "b", "c"}
    whole = await explore.get("/attributes", from_=AGO, to=AGO + SECOND)  # of its spans, all of which are looked at
    assert "X-Sluice-Truncated" not in whole.headers
    assert spans_of(whole.json["data"]).keys() >= {"a", "b", "c", "d", "e"}


@pytest.mark.parametrize("key", ["late", "resource.late", "scope.late"])
async def test_filters_and_groups_of_a_key_that_is_not_named_are_exact(
    loader: Loader, explore: Explore, key: str
) -> None:
    loader.named = codec.new_named_keys(0, 1)
    await loader.spans(span(1, name="first", attributes={"a": 1}))
    place, _, name = key.rpartition(".")
    if place == "resource":
        await loader.spans(span(2, name="second"), resource={name: "x"})
    else:
        await loader.spans(span(2, name="second", attributes={key: "x"}))
    assert await explore.names(filters=f"{key}:x") == ["second"]
    assert await explore.names(filters=f"has:{key}") == ["second"]
    assert await explore.names(filters=f"!has:{key}") == ["first"]
    assert await explore.names(filters=f"-{key}:x") == ["first"]
    answer = await explore.post("/spans/aggregate", {"fn": "count", "groupBy": key})
    assert [(each["group"], each["count"]) for each in answer.json["groups"]] == [("x", 1), (None, 1)]
