"""Log records by group and time, against the records counted in plain Python."""

import random
from collections import Counter
from typing import Any

import pytest

from chassis.clickhouse import ClickHouse
from query.settings import QuerySettings
from query.values import HOUR, MINUTE, SECOND, format_timestamp
from tests.query.conftest import NOW, OTHER_PROJECT, Explore, Loader, issues, record, served
from tests.query.logs.made import OWN, Made, batch, load

PATH = "/logs/aggregate"
LIMITS = {"maxScanRows": 50_000_000, "maxSeries": 100, "maxGroupCardinality": 100_000}


def expected(made: list[Made], key: str | None, seconds: int, limit: int) -> dict[str, Any]:
    """Of the last two hours."""
    begin, width = NOW - 2 * HOUR, (seconds or 60) * SECOND
    counts = Counter(None if key is None else each.text(key) for each in made)
    if key is None:
        counts[None] += 0
    texts = sorted(counts, key=lambda text: (-counts[text], text is None, (text or "").encode()))
    shown = texts[:limit]
    cells = Counter((None if key is None else each.text(key), each.at // width) for each in made)
    numbers = range(begin // width, (NOW - 1) // width + 1) if seconds else ()
    points = {
        text: [{"bucket": format_timestamp(n * width)[:19] + "Z", "count": cells[text, n]} for n in numbers]
        for text in shown
    }
    return {
        "groupBy": key,
        "intervalSeconds": seconds or None,
        "range": {"from": format_timestamp(begin), "to": format_timestamp(NOW)},
        "groups": [{"group": text, "count": counts[text]} for text in shown],
        "series": [{"group": text, "points": points[text]} for text in shown] if seconds else [],
        "scanned": len(made),
        "scanTruncated": False,
        "groupCount": len(texts),
        "groupsTruncated": len(texts) > limit,
        "limits": LIMITS,
    }


@pytest.mark.parametrize(
    ("clickhouse_url", "seed"),
    [("embedded", 0), ("embedded", 4), pytest.param("http", 2, marks=pytest.mark.second_store)],
    indirect=["clickhouse_url"],
)
async def test_every_count_is_that_of_the_records(seed: int, explore: Explore, loader: Loader) -> None:
    rng = random.Random(seed)
    made = await load(loader, [batch(rng) for _ in range(seed)])
    await loader.logs(record(severity=9, body="theirs"), project=OTHER_PROJECT)
    filtered = [each for each in made if each.severity >= 13 or each.value("a") is not None]
    shapes = ((120, 3), (7, 100), (0, 10))
    for n, key in enumerate((None, *OWN, "a", "h", "resource.h", "attr:body", "none")):
        for seconds, limit in shapes if seed else shapes[n % 3 :][:1]:
            body = {"groupBy": key, "hours": 2, "intervalSeconds": seconds, "limit": limit}
            answer = await explore.post(PATH, body)
            assert answer.status == 200, answer.text
            assert answer.json == expected(made, key, seconds, limit), key
            if (seconds, limit) == shapes[n % 3]:
                answer = await explore.post(PATH, body | {"filters": "(severityNumber:>=13 or has:a)"})
                assert answer.json == {**expected(filtered, key, seconds, limit), "scanned": len(made)}, key


async def test_more_cells_than_are_held_take_two_scans(explore_store: ClickHouse, loader: Loader) -> None:
    made = await load(loader, [batch(random.Random(3), 200)])
    async with served(explore_store, QuerySettings(max_group_cardinality=1), [NOW]) as client:
        for key in ("severityNumber", "body", "traceId", "a", None):
            answer = await client.post(PATH, {"groupBy": key, "hours": 2, "intervalSeconds": 120, "limit": 3})
            assert answer.json == {**expected(made, key, 120, 3), "limits": {**LIMITS, "maxGroupCardinality": 1}}


async def test_the_histogram_of_severities(explore: Explore, loader: Loader) -> None:
    begin = (NOW - HOUR) // MINUTE * MINUTE
    await loader.logs(
        *(record(at=begin + n * SECOND, severity=severity) for n, severity in enumerate([9, 9, 17, 0])),
        record(at=begin + MINUTE, severity=17),
    )
    body = {"groupBy": "severityNumber", "from": begin, "to": begin + 2 * MINUTE, "intervalSeconds": 60, "limit": 25}
    answer = await explore.post(PATH, body)
    first, second = (format_timestamp(begin + n * MINUTE)[:19] + "Z" for n in range(2))
    assert answer.json["series"] == [
        {"group": "17", "points": [{"bucket": first, "count": 1}, {"bucket": second, "count": 1}]},
        {"group": "9", "points": [{"bucket": first, "count": 2}, {"bucket": second, "count": 0}]},
        {"group": None, "points": [{"bucket": first, "count": 1}, {"bucket": second, "count": 0}]},
    ]


async def test_groups_have_so_many_bytes(explore: Explore, loader: Loader) -> None:
    """In JSON they may take twelve times as many."""
    bodies = [{"groupBy": "body", "hours": 1, "intervalSeconds": interval} for interval in (0, 60)]
    await loader.logs(*(record(at=NOW - n * SECOND, body=str(n) * 2**20) for n in range(1, 4)))
    assert [(await explore.post(PATH, body)).status for body in bodies] == [200, 200]
    await loader.logs(*(record(at=NOW - n * SECOND, body=str(n) * 2**20) for n in range(4, 7)))
    answers = [await explore.post(PATH, body) for body in bodies]
    for answer in (*answers, await explore.get("/logs/attributes/values", key="body", hours=1)):
        assert [code for _, code in issues(answer)] == ["too_expensive"]


async def test_the_newest_records_are_scanned(explore_store: ClickHouse, loader: Loader) -> None:
    await loader.logs(*(record(at=NOW - n * MINUTE, severity=9) for n in range(1, 60)))
    async with served(explore_store, QuerySettings(max_scan_rows=20, max_series=0), [NOW]) as client:
        answer = (await client.post(PATH, {"groupBy": "severityNumber", "hours": 1})).json
    assert answer["scanTruncated"]
    assert answer["groups"] == [{"group": "9", "count": answer["scanned"]}]
    assert 10 <= answer["scanned"] <= 20
    assert answer["range"]["from"] > format_timestamp(NOW - HOUR)
    assert answer["series"] == []


async def test_the_default_interval_has_at_most_sixty_points(explore: Explore, loader: Loader) -> None:
    await loader.logs(record(at=NOW - 1))
    for length, seconds in ((59 * SECOND, 1), (290 * SECOND, 5), (700 * HOUR, 43_200)):
        answer = (await explore.post(PATH, {"from": NOW - length, "to": NOW})).json
        assert answer["intervalSeconds"] == seconds
        assert 58 <= len(answer["series"][0]["points"]) <= 60
