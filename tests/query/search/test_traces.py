"""Traces as a list: each once, in order, with what all of its spans say; against a plain computation."""

import random
from typing import Any

import pytest

from query.values import format_timestamp
from tests.query.conftest import HOUR, MS, NOW, SECOND, Explore, Loader, span

pytestmark = pytest.mark.both_stores

ZERO = "0" * 16


class Stored:
    """Spans of some traces, and what a list must say of them."""

    def __init__(self, traces: int, seed: int) -> None:
        drawn = random.Random(seed)  # a seed
        self.spans: list[dict[str, Any]] = []
        for trace in range(1, traces + 1):
            for number in range(drawn.randrange(1, 6)):
                self.spans.append(
                    {
                        "trace": trace,
                        "id": trace * 100 + number,
                        "parent": 0 if number == 0 and trace % 5 else 7,
                        "start": NOW - HOUR + drawn.randrange(60) * 30 * SECOND,
                        "duration": drawn.randrange(1, 9) * MS,
                        "name": f"n{drawn.randrange(3)}",
                        "status": drawn.choice([0, 2]),
                        "service": drawn.choice(["web", "cart", "db"]),
                    }
                )

    async def load(self, loader: Loader) -> None:
        for service in ("web", "cart", "db"):
            of_service = [one for one in self.spans if one["service"] == service]
            await loader.spans(
                *(
                    span(
                        one["id"],
                        parent=one["parent"],
                        trace=one["trace"],
                        start=one["start"],
                        duration=one["duration"],
                        name=one["name"],
                        status=one["status"],
                    )
                    for one in of_service
                ),
                resource={"service.name": service},
            )

    def expected(self, *, by_duration: bool, name: str | None) -> list[dict[str, Any]]:
        found = []
        for trace in {one["trace"] for one in self.spans}:
            whole = [one for one in self.spans if one["trace"] == trace]
            matched = [one for one in whole if name in (None, one["name"])]
            if not matched:
                continue
            rank = max(one["duration" if by_duration else "start"] for one in matched)
            start = min(one["start"] for one in whole)
            services: dict[str, int] = {}
            for one in whole:
                services[one["service"]] = services.get(one["service"], 0) + 1
            roots = [one for one in whole if not one["parent"]]
            shown = {
                "traceId": f"{trace:032x}",
                "startTime": format_timestamp(start),
                "durationMs": (max(one["start"] + one["duration"] for one in whole) - start) / 1e6,
                "spanCount": len(whole),
                "errorCount": sum(one["status"] == 2 for one in whole),
                "services": sorted(services, key=lambda each: (-services[each], each)),
                "serviceCount": len(services),
                "matched": len(matched),
                "root": roots[0]["name"] if roots else None,
            }
            found.append((rank, trace, shown))
        return [shown for _, _, shown in sorted(found, key=lambda each: each[:2], reverse=True)]


async def listed(explore: Explore, **query: Any) -> list[Any]:
    """All pages, of seven each."""
    found: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await explore.get("/traces", limit=7, hours=2, **query, **cursor)
        assert answer.status == 200, answer.text
        found += answer.json["data"]
        if not answer.json["hasMore"]:
            assert answer.json["nextCursor"] is None
            return [one | {"root": one["root"] and one["root"]["name"]} for one in found]
        cursor = {"cursor": answer.json["nextCursor"]}


@pytest.mark.parametrize(
    ("first_spans", "sort", "name"),
    [
        (10, "time", "n1"),
        (10, "duration", None),
        (500_000, "time", None),
        pytest.param(10, "time", None, marks=pytest.mark.long),
        pytest.param(500_000, "duration", "n1", marks=pytest.mark.long),
    ],
)
async def test_every_trace_once_and_in_order(
    loader: Loader, explore: Explore, monkeypatch: pytest.MonkeyPatch, sort: str, name: str | None, first_spans: int
) -> None:
    monkeypatch.setattr("query.search.traces._FIRST_SPANS", first_spans)
    stored = Stored(40, 3)
    await stored.load(loader)
    filters = {} if name is None else {"filters": f"name:{name}"}
    assert await listed(explore, sort=sort, **filters) == stored.expected(by_duration=sort == "duration", name=name)


async def test_no_traces(explore: Explore) -> None:
    assert (await explore.get("/traces")).json == {"data": [], "nextCursor": None, "hasMore": False}
