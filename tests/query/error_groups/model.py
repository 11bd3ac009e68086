"""What groups of occurrences must look like, said in Python."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from query.statements import Window
from query.values import HOUR, format_timestamp
from tests.query.conftest import NOW
from tests.query.error_groups.conftest import Raised, fingerprint

TOP = 20
PARTS = 24
DAY = Window(NOW - 24 * HOUR, NOW)


def group(raised: Sequence[Raised], every: Sequence[Raised] = ()) -> dict[str, Any]:
    """One group; `raised` are all of one error, and not none. `every`: those outside of the window and the filters,
    too.
    """
    latest = max(raised, key=lambda each: each.order)
    releases = [each for each in raised if each.release]
    return {
        "fingerprint": fingerprint(latest.error),
        "type": latest.type or None,
        "message": latest.message or None,
        **extent(raised),
        "firstEver": format_timestamp(min(each.at for each in (*raised, *every) if each.error == latest.error)),
        "firstRelease": min(releases, key=lambda each: (each.at, each.release)).release if releases else None,
        "lastRelease": max(releases, key=lambda each: (each.at, each.release)).release if releases else None,
        "latestOccurrenceId": latest.id,
        "traces": len({each.trace for each in raised if each.trace}),
        "tracesExact": True,
        "facetsExact": True,
        **facet("releases", "releaseCount", "release", raised, lambda each: each.release),
        **facet("environments", "environmentCount", "environment", raised, lambda each: each.environment),
        **facet("services", "serviceCount", "serviceName", raised, lambda each: each.service),
        "sources": facet("sources", "", "source", raised, lambda each: each.source)["sources"],
    }


def extent(raised: Sequence[Raised]) -> dict[str, Any]:
    times = [each.at for each in raised]
    return {
        "count": len(times),
        "firstSeen": format_timestamp(min(times)),
        "lastSeen": format_timestamp(max(times)),
    }


def facet(
    name: str, count: str, key: str, raised: Sequence[Raised], value_of: Callable[[Raised], str]
) -> dict[str, Any]:
    found = Counter(map(value_of, raised))
    values = sorted(found, key=lambda value: (-found[value], value))
    shown = [
        {**extent([each for each in raised if value_of(each) == value]), key: value or None} for value in values[:TOP]
    ]
    return {name: shown, count: len(values)}


def series(raised: Sequence[Raised], window: Window) -> list[int]:
    counts = Counter((each.at - window.from_ns) * PARTS // (window.to_ns - window.from_ns) for each in raised)
    return [counts[part] for part in range(PARTS)]


def groups(raised: Sequence[Raised], every: Sequence[Raised] = (), window: Window = DAY) -> dict[str, dict[str, Any]]:
    """All groups as lists show them, by fingerprint."""
    of_errors = {error: [each for each in raised if each.error == error] for error in {each.error for each in raised}}
    return {
        fingerprint(error): {**group(found, every), "series": series(found, window)}
        for error, found in of_errors.items()
    }


RANKS: dict[str, Callable[[dict[str, Any]], tuple[Any, str]]] = {
    sort: lambda found, sort=sort: (found[sort], found["fingerprint"])  # type: ignore[misc]
    for sort in ("lastSeen", "count", "firstSeen")
}


def ordered(raised: Sequence[Raised], sort: str, every: Sequence[Raised] = ()) -> list[dict[str, Any]]:
    """The groups as the list has them."""
    return sorted(groups(raised, every).values(), key=RANKS[sort], reverse=True)
