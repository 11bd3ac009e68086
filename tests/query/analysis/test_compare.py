"""POST .../spans/compare: what it finds, and what it says of it."""

from typing import Any

from tests.query.conftest import HOUR, NOW, SECOND, Explore, Loader, span

SPIKE = {"from": "-10m", "to": "now"}
BASELINE = {"from": "-70m", "to": "-10m"}
BODY = {"spike": SPIKE, "baseline": BASELINE}
RECENT, BEFORE = NOW - 60 * SECOND, NOW - HOUR // 2


async def compared(explore: Explore, **body: Any) -> Any:
    """The answer to a comparison that must succeed."""
    answer = await explore.post("/spans/compare", {**BODY, **body})
    assert answer.status == 200, answer.text
    return answer.json


def pairs(answer: Any) -> list[tuple[str, str]]:
    return [(each["key"], each["value"]) for each in answer["attributes"]]


async def test_the_difference_is_found(explore: Explore, loader: Loader) -> None:
    spike = [
        span(
            n, start=RECENT, attributes={"http.route": "/pay" if n < 80 else "/cart", "user": f"u{n}", "retries": n % 3}
        )
        for n in range(1, 101)
    ]
    baseline = [
        span(
            n, start=BEFORE, attributes={"http.route": "/pay" if n < 21 else "/cart", "user": f"u{n}", "retries": n % 3}
        )
        for n in range(1, 201)
    ]
    await loader.spans(*spike, resource={"service.name": "shop", "host.name": "a"})
    await loader.spans(*baseline, resource={"service.name": "shop", "host.name": "b"})
    answer = await compared(explore)
    assert answer["spike"]["total"] == 100
    assert answer["baseline"]["total"] == 200
    assert pairs(answer) == [("resource.host.name", "a"), ("http.route", "/pay")]
    route = answer["attributes"][1]
    assert route["spikeCount"] == 79
    assert route["baselineCount"] == 20
