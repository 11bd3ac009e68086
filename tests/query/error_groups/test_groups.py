"""Lists of errors: what a group says, their order, filters, and what they may not be asked."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chassis.clickhouse import ClickHouse, QueryLimits, QueryTooLarge
from chassis.clickhouse.target import open_client, parse_url
from chassis.http.cursor import CursorSigner
from chassis.limits.fairness import Requester
from query import sql
from query.error_groups.listing import error_page, fetch, plan
from query.metrics import QueryMetrics
from query.read_store import ReadStores
from query.rows import ERRORS
from query.search.listing import ListScope
from query.settings import QuerySettings
from query.statements import BUCKET, LatestOccurrences, Window
from query.values import HOUR, format_timestamp
from tests.query.conftest import NOW, ONE_ENGINE, OTHER_PROJECT, SECOND, Explore, served
from tests.query.error_groups.conftest import Occurrences, Raised, fingerprint
from tests.query.error_groups.model import groups, ordered
from tests.query.test_sql import granules
from tests.selection import scaled

FIELDS = "fingerprint, type, message, source, serviceName, environment, release, time, traceId, spanId"


async def test_a_group_tells_what_is_known_of_its_occurrences(occurrences: Occurrences, explore: Explore) -> None:
    at = NOW - 600 * SECOND
    _, _, last = await occurrences.store(
        Raised(1, at, message="first", trace=5, span=1, service="cart", release="1.0", environment="prod"),
        Raised(1, at + 1, message="second", trace=5, span=2, service="cart", release="1.1", environment="prod"),
        Raised(1, at + 2, message="", source="log"),
    )
    assert await explore.data("/errors") == [
        {
            "fingerprint": "0" * 31 + "1",
            "type": "ValueError",
            "message": None,
            "count": 3,
            "firstSeen": format_timestamp(at),
            "lastSeen": format_timestamp(at + 2),
            "firstEver": format_timestamp(at),
            "firstRelease": "1.0",
            "lastRelease": "1.1",
            "latestOccurrenceId": last.id,
            "traces": 1,
            "tracesExact": True,
            "facetsExact": True,
            "releases": [
                {**moment(at + 2), "release": None},
                {**moment(at), "release": "1.0"},
                {**moment(at + 1), "release": "1.1"},
            ],
            "releaseCount": 3,
            "environments": [
                {
                    "count": 2,
                    "firstSeen": format_timestamp(at),
                    "lastSeen": format_timestamp(at + 1),
                    "environment": "prod",
                },
                {**moment(at + 2), "environment": "unknown"},
            ],
            "environmentCount": 2,
            "services": [
                {
                    "count": 2,
                    "firstSeen": format_timestamp(at),
                    "lastSeen": format_timestamp(at + 1),
                    "serviceName": "cart",
                },
                {**moment(at + 2), "serviceName": None},
            ],
            "serviceCount": 2,
            "sources": [
                {"count": 2, "firstSeen": format_timestamp(at), "lastSeen": format_timestamp(at + 1), "source": "span"},
                {**moment(at + 2), "source": "log"},
            ],
            "series": [0] * 23 + [3],
        }
    ]


def moment(at: int) -> dict[str, Any]:
    return {"count": 1, "firstSeen": format_timestamp(at), "lastSeen": format_timestamp(at)}


async def test_the_latest_of_a_tie_is_the_first_that_its_list_shows(occurrences: Occurrences, explore: Explore) -> None:
    same = [Raised(trace=trace, span=n, message="matches") for trace in (1, 2) for n in (1, 2)]
    await occurrences.store(*same, Raised(trace=3, span=1, message="other"), same[3], Raised(at=NOW - HOUR))
    for filters in ("", "message:matches", "-traceId:00000000000000000000000000000003"):
        (found,) = await explore.data("/errors", filters=filters)
        first = (await explore.data(f"/errors/{fingerprint(1)}/occurrences", filters=filters))[0]
        assert (found["latestOccurrenceId"], found["message"]) == (first["id"], first["message"]), filters


async def test_of_many_releases_the_most_frequent_are_shown_and_all_are_counted(
    occurrences: Occurrences, explore: Explore
) -> None:
    often = [Raised(release=f"1.{n}", at=NOW - (n + 1) * SECOND) for n in range(25) for _ in range(n + 1)]
    await occurrences.store(*often, Raised(release="0.1", at=NOW - 60 * SECOND), Raised(release="9", at=NOW - 1))
    (found,) = await explore.data("/errors")
    assert found["releaseCount"] == 27
    assert [(each["release"], each["count"]) for each in found["releases"]] == [
        (f"1.{n}", n + 1) for n in range(24, 4, -1)
    ]
    assert (found["firstRelease"], found["lastRelease"]) == ("0.1", "9")


NAMES = st.sampled_from(["", "a", "b", "ä"])
RAISED = st.builds(
    Raised,
    error=st.integers(1, 4),
    at=st.sampled_from([0, 1, 2, SECOND, BUCKET, 40 * BUCKET, 23 * HOUR]).map(lambda ago: NOW - 1 - ago),
    type=st.sampled_from(["", "E"]),
    message=st.sampled_from(["", "x", "y"]),
    source=st.sampled_from(["span", "log"]),
    trace=st.integers(0, 3),
    span=st.integers(0, 2),
    service=NAMES,
    environment=st.sampled_from(["unknown", "prod"]),
    release=NAMES,
)


@ONE_ENGINE
@pytest.mark.sized
@settings(max_examples=scaled(12, 100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    raised=st.lists(RAISED, max_size=25),
    sort=st.sampled_from(["lastSeen", "count", "firstSeen"]),
    limit=st.integers(1, 5),
    release=st.none() | NAMES,
)
async def test_pages_of_groups_are_those_of_a_plain_model(
    raised: list[Raised], sort: str, limit: int, release: str | None, clickhouse: ClickHouse, occurrences: Occurrences
) -> None:
    project = await empty_project(clickhouse)
    stored = every = await occurrences.store(*raised, project=project)
    query = {"sort": sort, "limit": str(limit)}
    if release is not None:
        query["filters"] = f"release:{release}" if release else "!has:release"
        stored = [each for each in stored if each.release == release]
    assert await pages(clickhouse, project, query) == ordered(stored, sort, every)


async def empty_project(clickhouse: ClickHouse) -> int:
    ((highest,),) = await clickhouse.query("SELECT max(project_id) FROM error_occurrences", {}, limits=QueryLimits())
    return max(int(str(highest)), 100) + 1


async def pages(clickhouse: ClickHouse, project: int, query: Mapping[str, str]) -> list[Any]:
    """All groups, page after page."""
    store = ReadStores(clickhouse, QuerySettings(), QueryMetrics()).for_requester(Requester("o1", "mine"))
    signer, found = CursorSigner(b"k" * 32), []
    cursor: dict[str, str] = {}
    while True:
        planned = plan({**query, **cursor}, ListScope("o", project, ERRORS), signer, NOW)
        page = await fetch(store, signer, planned)
        found += msgspec.json.decode(msgspec.json.encode(error_page(page, None)))["data"]
        if page.next_cursor is None:
            return found
        cursor = {"cursor": page.next_cursor}


FINDS: list[tuple[str, set[int]]] = [
    ("", {1, 2, 3}),
    ("type:KeyError", {2}),
    ("!has:type", {3}),
    ("message:*refused*", {1}),
    ("source:log", {3}),
    ("serviceName:cart", {1, 2}),
    ("-serviceName:cart", {3}),
    ("environment:prod", {2}),
    ("release:[1,2]", {1, 2}),
    (f"traceId:{5:032X}", {1}),
    ("!has:traceId", {2, 3}),
    (f"spanId:{6:016x}", {1}),
    (f"fingerprint:[{fingerprint(1)},{fingerprint(3)}]", {1, 3}),
    (f"-fingerprint:{fingerprint(1)}", {2, 3}),
    ("fingerprint:1", set()),
    ("time:<=now-2m", {2}),
    ('[{"key": "message", "op": "regex", "value": "^conn.*7$"}]', {1}),
    ("type:ValueError serviceName:cart", {1}),
    ("type:ValueError serviceName:none", set()),
]


@ONE_ENGINE
async def test_filters(occurrences: Occurrences, explore: Explore) -> None:
    await occurrences.store(
        Raised(1, message="connection refused 7", trace=5, span=6, service="cart", release="1"),
        Raised(2, NOW - 120 * SECOND, type="KeyError", service="cart", environment="prod", release="2"),
        Raised(3, type="", source="log"),
    )
    await occurrences.store(Raised(4, message="foreign"), project=OTHER_PROJECT)
    for filters, expected in FINDS:
        found = await explore.data("/errors", filters=filters, hours=1)
        assert {int(each["fingerprint"], 16) for each in found} == expected, filters


async def test_filters_and_window_decide_what_a_group_counts(occurrences: Occurrences, explore: Explore) -> None:
    stored = await occurrences.store(
        *(Raised(1, NOW - n * 60 * SECOND, message=str(n), release=str(n % 2)) for n in range(1, 30))
    )
    found = await explore.data("/errors", filters="release:1", from_="now-20m", to="now-5m")
    counted = [each for each in stored if each.release == "1" and 5 < int(each.message) <= 20]
    window = Window(NOW - 20 * 60 * SECOND, NOW - 5 * 60 * SECOND)
    assert found == [groups(counted, stored, window)[fingerprint(1)]]


async def test_parts_of_the_series_are_equal_to_the_nanosecond(occurrences: Occurrences, explore: Explore) -> None:
    """The first and the last nanosecond of each part; of windows shorter than 24 ns some parts have none."""
    for number, length in enumerate((1, 23, 24, 25, 1_000, HOUR + 7)):
        end = NOW - number * 2 * HOUR
        begins = [end - length + -(-part * length // 24) for part in range(24)]
        times = {at for begin in begins for at in (begin - 1, begin) if end - length <= at < end} | {end - 1}
        of_all, errors = [Raised(10 * number, at) for at in sorted(times)], Raised(10 * number + 1, end - length)
        stored = await occurrences.store(*of_all, errors)
        answer = (await explore.get("/errors", from_=end - length, to=end)).json
        window = Window(end - length, end)
        assert {each["fingerprint"]: each for each in answer["data"]} == groups(stored, stored, window), length
        assert answer["range"] == {"from": format_timestamp(window.from_ns), "to": format_timestamp(window.to_ns)}


async def test_a_new_error_began_in_the_window(occurrences: Occurrences, explore: Explore) -> None:
    """An old one began before it, whatever the filters find of it."""
    old, new = NOW - 20 * 24 * HOUR, NOW - 60 * SECOND
    await occurrences.store(Raised(1, old, environment="prod"), Raised(1, new), Raised(2, new))
    await occurrences.store(Raised(2, old), project=OTHER_PROJECT)
    for filters in ("", "environment:unknown"):
        found = {each["fingerprint"]: each for each in await explore.data("/errors", hours=1, filters=filters)}
        assert [found[fingerprint(n)]["firstEver"] for n in (1, 2)] == [format_timestamp(old), format_timestamp(new)]
        assert found[fingerprint(1)]["firstSeen"] == format_timestamp(new)
    assert (await explore.get(f"/errors/{fingerprint(1)}", hours=1)).json["firstEver"] == format_timestamp(old)
    assert (await explore.get(f"/errors/{fingerprint(2)}", to="now-1h")).json["firstEver"] == format_timestamp(new)


class Shortsighted(ClickHouse):
    """A store that may not read all of the past."""

    async def query(self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits) -> list[tuple[Any, ...]]:
        if sql.startswith("SELECT fingerprint, toUnixTimestamp64Nano(min(time))\n"):
            raise QueryTooLarge("rows", 158)
        return await super().query(sql, parameters, limits=limits)


async def test_the_list_does_without_the_past_if_that_is_too_long(
    occurrences: Occurrences, clickhouse_url: str, database: str
) -> None:
    await occurrences.store(Raised())
    async with served(Shortsighted(clickhouse_url, database=database), QuerySettings(), [NOW]) as client:
        (found,) = await client.data("/errors")
    assert (found["count"], found["firstEver"]) == (1, None)


async def test_an_attribute_is_answered_with_the_fields_there_are(explore: Explore) -> None:
    details = (await explore.get("/errors", filters="http.route:/x")).json["error"]["details"]
    assert [issue["message"] for issue in details] == [f"Must be one of {FIELDS}."]


class Forgetful(ClickHouse):
    """A store without the memory to count traces one by one."""

    async def query(self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits) -> list[tuple[Any, ...]]:
        if "uniqExact" in sql:
            raise QueryTooLarge("memory", 241)
        return await super().query(sql, parameters, limits=limits)


async def test_too_many_traces_are_estimated_and_that_is_said(
    occurrences: Occurrences, clickhouse_url: str, database: str
) -> None:
    await occurrences.store(*(Raised(trace=n // 2 + 1) for n in range(10)), Raised())
    async with served(Forgetful(clickhouse_url, database=database), QuerySettings(), [NOW]) as client:
        (found,) = await client.data("/errors")
    assert (found["count"], found["traces"], found["tracesExact"]) == (11, 5, False)


async def test_a_release_of_each_occurrence_is_estimated_and_that_is_said(
    occurrences: Occurrences, explore: Explore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is shown is exact as far as it goes; an error with few releases beside it is exact in all."""
    often = [Raised(1, NOW - n * SECOND, release="often", environment="prod") for n in range(2, 300)]
    once = [Raised(1, NOW - n * SECOND, release=f"r{n:03}", service=f"s{n % 3}") for n in range(300, 500)]
    few = [Raised(2, NOW - n * SECOND, release=str(n % 20)) for n in range(1, 60)]
    stored = groups(await occurrences.store(*often, *once, *few))
    assert {each["fingerprint"]: each for each in await explore.data("/errors")} == stored
    monkeypatch.setattr("query.error_groups.groups.MAX_FACET_COMBINATIONS", 100)
    found = {each["fingerprint"]: each for each in await explore.data("/errors")}
    assert found[fingerprint(2)] == stored[fingerprint(2)]
    estimated, exact = found[fingerprint(1)], stored[fingerprint(1)]
    about = ("facetsExact", "releases", "releaseCount")
    assert {**estimated, **dict.fromkeys(about)} == {**exact, **dict.fromkeys(about)}
    assert not estimated["facetsExact"]
    assert estimated["releaseCount"] == pytest.approx(201, rel=0.02)
    assert estimated["releases"][0] == exact["releases"][0]
    assert [each["count"] for each in estimated["releases"]] == [298, *[1] * 19]


async def test_the_latest_occurrences_are_found_by_the_sort_key(
    clickhouse: ClickHouse, clickhouse_url: str, database: str
) -> None:
    noon = (NOW // (24 * HOUR) - 1) * 24 * HOUR + 12 * HOUR
    await clickhouse.command(
        "INSERT INTO error_occurrences (project_id, time, fingerprint)"
        f" SELECT 7, fromUnixTimestamp64Nano(toInt64({noon}) + toInt64(number) * 100000000, 'UTC'),"
        " toFixedString(toString(number % 50), 16) FROM numbers(400000)"
    )
    places = tuple((str(n).encode().ljust(16, b"\0"), noon + n * HOUR) for n in range(1, 4))
    whole = Window(places[0][1], places[-1][1] + 1)
    query = sql.emit(LatestOccurrences(project_id=7, window=whole, fingerprint_times=places))
    engine = open_client(parse_url(clickhouse_url, database), 30)
    try:
        read, of = granules(engine, query.sql, query.parameters)
        bare = replaced(query)
        read_all, _ = granules(engine, bare.sql, bare.parameters)
    finally:
        engine.close()
    assert of >= 40
    assert read <= 6 < read_all


def replaced(query: sql.Query) -> sql.Query:
    """The same without the lists of places."""
    text = "\n".join(line for line in query.sql.splitlines() if " IN (" not in line)
    return sql.Query(text, {name: value for name, value in query.parameters.items() if f"{{{name}:" in text})


class Answering(ClickHouse):
    """A store whose reads are answered by `reply`."""

    def __init__(
        self, url: str, reply: Callable[[str, Mapping[str, object]], Awaitable[list[tuple[Any, ...]]]]
    ) -> None:
        super().__init__(url)
        self._reply = reply

    async def query(self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits) -> list[tuple[Any, ...]]:
        assert limits.max_seconds
        return await self._reply(sql, parameters)


async def test_the_newest_groups_are_found_without_the_whole_day(clickhouse_url: str) -> None:
    asked: list[int] = []

    async def reply(sql: str, parameters: Mapping[str, object]) -> list[tuple[Any, ...]]:
        if "AS rank" not in sql:
            return []
        asked.append(int(str(parameters["p3"])))
        return [(NOW - n, n.to_bytes(16, "big")) for n in range(1, 4 if len(asked) == 2 else 2)]

    async with served(Answering(clickhouse_url, reply), QuerySettings(), [NOW]) as client:
        assert (await client.get("/errors", limit=2)).status == 200
    assert [NOW - from_ns <= 12 * BUCKET for from_ns in asked] == [True, True]
