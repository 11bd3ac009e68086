"""One error: what is known of it, and how often it occurred over the window."""

from collections import Counter
from typing import Any

from query.values import HOUR, MINUTE, format_timestamp
from tests.query.conftest import NOW, ONE_ENGINE, OTHER_PROJECT, SECOND, Explore
from tests.query.error_groups.conftest import Occurrences, Raised, fingerprint
from tests.query.error_groups.model import group

ONE = f"/errors/{fingerprint(1)}"
DAY = 24 * HOUR


async def test_an_error_is_what_its_list_says_and_a_series(occurrences: Occurrences, explore: Explore) -> None:
    stored = await occurrences.store(
        *(Raised(1, NOW - n * n * SECOND, message=str(n), trace=n % 5, release=str(n % 3)) for n in range(1, 60)),
        *(Raised(2, NOW - n * SECOND) for n in range(1, 9)),
    )
    found = (await explore.get(ONE, hours=1)).json
    ours = [each for each in stored if each.error == 1 and each.at >= NOW - HOUR]
    counts = Counter(each.at // MINUTE for each in ours)
    first, last = (NOW - HOUR) // MINUTE, (NOW - 1) // MINUTE
    minutes = 1 if last - first < 60 else 2
    if minutes == 2:
        counts = Counter(each.at // MINUTE // 2 for each in ours)
        first, last = first // 2, last // 2
    assert found == {
        **group(ours, stored),
        "range": {"from": format_timestamp(NOW - HOUR), "to": format_timestamp(NOW)},
        "intervalMinutes": minutes,
        "series": [
            {"bucket": format_timestamp(n * minutes * MINUTE)[:19] + "Z", "count": counts[n]}
            for n in range(first, last + 1)
        ],
    }
    assert found["series"][0]["bucket"][:19] <= found["range"]["from"][:19]


async def test_intervals_give_at_most_sixty_points(occurrences: Occurrences, explore: Explore) -> None:
    noon = NOW // DAY * DAY
    await occurrences.store(Raised(1, noon - MINUTE), Raised(1, noon - 1))
    for from_ago, to_ago, minutes, points in (
        *((HOUR, 0, 1, 60), (HOUR + MINUTE, 0, 2, 31), (DAY, 0, 30, 48), (720 * HOUR, 0, 720, 60)),
        (MINUTE, MINUTE - 1, 1, 1),
    ):
        found = (await explore.get(ONE, from_=noon - from_ago, to=noon - to_ago)).json
        assert (found["intervalMinutes"], len(found["series"])) == (minutes, points)
        assert sum(each["count"] for each in found["series"]) == found["count"] == (1 if to_ago else 2)


async def test_an_error_without_occurrences_in_the_window_is_there_with_none(
    occurrences: Occurrences, explore: Explore
) -> None:
    await occurrences.store(Raised(1, NOW - 10 * DAY, release="1"))
    for query in ({"hours": 1}, {"hours": 720, "filters": "release:2"}):
        found: dict[str, Any] = (await explore.get(ONE, **query)).json
        assert {each["count"] for each in found.pop("series")} == {0}
        del found["range"], found["intervalMinutes"]
        assert found == {
            **dict.fromkeys(("message", "firstSeen", "lastSeen", "firstRelease", "lastRelease", "latestOccurrenceId")),
            **dict.fromkeys(("count", "traces", "releaseCount", "environmentCount", "serviceCount"), 0),
            **{name: [] for name in ("releases", "environments", "services", "sources")},
            "tracesExact": True,
            "facetsExact": True,
            "fingerprint": fingerprint(1),
            "type": "ValueError",
            "firstEver": format_timestamp(NOW - 10 * DAY),
        }
    assert (await explore.get(f"{ONE}/occurrences", hours=1)).json == {"data": [], "nextCursor": None, "hasMore": False}


@ONE_ENGINE
async def test_fingerprints_in_the_path(occurrences: Occurrences, explore: Explore) -> None:
    await occurrences.store(Raised(0xAB))
    await occurrences.store(Raised(2), project=OTHER_PROJECT)
    known = [fingerprint(0xAB), fingerprint(0xAB).upper()]
    unknown = [fingerprint(2), "0" * 14 + "ab", "0" * 32, "x", "%20" * 32, "0" * 30 + "%20b", "%D9%A3" * 32, "x" * 64]
    for below in ("", "/occurrences"):
        found = {name: (await explore.get(f"/errors/{name}{below}")).status for name in known + unknown}
        assert found == dict.fromkeys(known, 200) | dict.fromkeys(unknown, 404), below
