"""What groups of occurrences must look like, said in Python."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from query.timestamps import format_timestamp
from tests.query.error_groups.conftest import Raised, fingerprint

TOP = 20


def group(raised: Sequence[Raised]) -> dict[str, Any]:
    """One group as lists show it; `raised` are all of one error, and not none."""
    latest = max(raised, key=lambda each: each.order)
    releases = [each for each in raised if each.release]
    return {
        "fingerprint": fingerprint(latest.error),
        "type": latest.type or None,
        "message": latest.message or None,
        **extent(raised),
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


def groups(raised: Sequence[Raised]) -> dict[str, dict[str, Any]]:
    """All groups by fingerprint."""
    return {
        fingerprint(error): group([each for each in raised if each.error == error])
        for error in {each.error for each in raised}
    }


RANKS: dict[str, Callable[[dict[str, Any]], tuple[Any, str]]] = {
    sort: lambda found, sort=sort: (found[sort], found["fingerprint"])  # type: ignore[misc]
    for sort in ("lastSeen", "count", "firstSeen")
}


def ordered(raised: Sequence[Raised], sort: str) -> list[dict[str, Any]]:
    """The groups as the list has them."""
    return sorted(groups(raised).values(), key=RANKS[sort], reverse=True)
