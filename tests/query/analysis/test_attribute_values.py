"""The values of a key, for suggestions while a filter is typed."""

import pytest

from tests.query.conftest import NOW, SECOND, Explore, Loader, span

pytestmark = pytest.mark.both_stores

START = NOW - 600 * SECOND


async def test_values_by_frequency(loader: Loader, explore: Explore) -> None:
    await loader.spans(
        *(
            span(n, start=START + n, attributes={"route": f"/{'ab'[n % 3 == 0]}{n % 2}"}, name="x")
            for n in range(1, 13)
        ),
        span(13, start=START, name="y"),
        resource={"service.name": "web"},
    )
    answer = (await explore.get("/attributes/values", key="route")).json
    assert answer["key"] == "route"
    assert answer["data"] == [
        {"value": "/a0", "count": 4},
        {"value": "/a1", "count": 4},
        {"value": "/b0", "count": 2},
        {"value": "/b1", "count": 2},
    ]
    assert (answer["complete"], answer["scanned"]) == (True, 13)
    answer = (await explore.get("/attributes/values", key="route", prefix="/b", limit="1")).json
    assert (answer["data"], answer["complete"]) == ([{"value": "/b0", "count": 2}], False)
    answer = (await explore.get("/attributes/values", key="name", filters="!has:route")).json
    assert answer["data"] == [{"value": "y", "count": 1}]
    answer = (await explore.get("/attributes/values", key="service.name")).json
    assert answer["data"] == [{"value": "web", "count": 13}]
    assert (await explore.get("/attributes/values", key="none")).json["data"] == []
