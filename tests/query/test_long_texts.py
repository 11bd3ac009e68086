"""Texts beyond what a server takes as one parameter: in filters, and as groups that are asked for again."""

import json
import random
from typing import Any, Final

import pytest
from clickhouse_connect.driver.binding import format_bind_value
from hypothesis import given
from hypothesis import strategies as st

from chassis.clickhouse import ClickHouse, QueryLimits
from proto.otlp.policy import Policy
from query.request.filters import MAX_VALUE, MAX_VALUES
from query.request.parameters import MAX_BODY_BYTES
from query.settings import QuerySettings
from query.sql.bindings import Bindings
from tests.query.conftest import Explore, Loader, served, span

MAX_PARAMETER: Final = 128 * 1024  # http_max_field_value_size
ALPHABET: Final = "a\\'\"\n\t\0é🦥,[]"


def random_text(length: int) -> str:
    return "".join(random.Random(length).choices(ALPHABET, k=length))


def largest_parameter(bindings: Bindings) -> int:
    return max(len(str(format_bind_value(value)).encode()) for value in bindings.values.values())


@given(st.lists(st.tuples(st.sampled_from([*ALPHABET, "ab"]), st.integers(0, 40_000)), max_size=12))
def test_no_parameter_is_larger_than_a_server_takes(texts: list[tuple[str, int]]) -> None:
    bindings = Bindings()
    bindings.texts(tuple(piece * times for piece, times in texts))
    for piece, times in texts:
        bindings.text(piece * times)
    assert largest_parameter(bindings) < MAX_PARAMETER
    single = [value for value in bindings.values.values() if isinstance(value, str)]
    arrays = [value for value in bindings.values.values() if isinstance(value, list)]
    assert {text for array in arrays for text in array} <= {piece * times for piece, times in texts}
    assert sum(map(len, single)) <= 2 * sum(len(piece) * times for piece, times in texts)


async def test_the_engine_has_the_same_texts(clickhouse: ClickHouse) -> None:
    texts = tuple(random_text(length) for length in (0, 1, 9_000, 9_001, 16_383, 16_384, 16_385, 40_000, 2, 300_000, 3))
    for some in ((), texts[:2], texts[6:7], texts):
        bindings = Bindings()
        sql = f"SELECT {bindings.texts(some)}, {', '.join(map(bindings.text, some)) or 1}"
        rows = await clickhouse.query(sql, bindings.used_parameters(sql), limits=QueryLimits())
        assert rows == [(list(some), *(some or (1,)))]


@pytest.mark.parametrize("character", ["🦥", "\\", "'"])
async def test_filters_of_long_values(character: str, explore: Explore, loader: Loader) -> None:
    """As many as a body may have, of as many bytes as they may have; of a field, an attribute and a resource's."""
    values = [f"{n}".rjust(MAX_VALUE, character) for n in range(MAX_VALUES)]
    fitting = values[: (MAX_BODY_BYTES - 1000) // len(json.dumps(values[0], ensure_ascii=False).encode())]
    fitting[0] = "op"
    await loader.spans(span(1, name="op", attributes={"v": fitting[-2]}), resource={"r": fitting[-3]})
    await loader.spans(span(2, name="other", attributes={"v": "other"}), resource={"r": "other"})
    for key in ("name", "v", "r"):
        for op, found in (("in", ["op"]), ("not_in", ["other"])):
            body = {"fn": "count", "groupBy": "name", "filters": [{"key": key, "op": op, "value": fitting}]}
            answer = await explore.post("/spans/aggregate", as_sent(body))
            assert answer.status == 200, answer.text
            assert [each["group"] for each in answer.json["groups"]] == found


def as_sent(body: dict[str, Any]) -> bytes:
    """JSON without escapes for what is no ASCII, so that most fits into a body."""
    return json.dumps(body, ensure_ascii=False).encode()


@pytest.mark.long
async def test_groups_of_long_texts(explore_store: ClickHouse, moving_clock: list[int], loader: Loader) -> None:
    """Ranked first and asked for again: each has its series."""
    texts = [random_text(length) for length in (16_384, 60_000, 140_000, 2**20)]
    loader.policy = Policy(sensitive_words=(), max_value_bytes=2**22)
    for n, text in enumerate(texts):
        await loader.spans(*(span(10 * n + k + 1, attributes={"v": text}) for k in range(n + 1)))
    await loader.spans(*(span(100 + n, attributes={"v": f"{n}".rjust(4000, "🦥")}) for n in range(60)))
    async with served(explore_store, QuerySettings(max_group_cardinality=1), moving_clock) as explore:
        answer = await explore.post("/spans/aggregate", {"fn": "count", "groupBy": "v", "hours": 1, "limit": 100})
    assert answer.status == 200, answer.text
    shown = answer.json
    assert [each["group"] for each in shown["groups"][:4]] == [*reversed(texts[1:]), shown["groups"][3]["group"]]
    assert shown["groupCount"] == 64
    for group, series in zip(shown["groups"], shown["series"], strict=True):
        assert sum(point["count"] for point in series["points"]) == group["count"] > 0
