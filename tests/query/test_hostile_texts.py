"""Texts that others take for SQL, patterns or paths are data here, and reach nothing of anybody else."""

import json
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pytest
from aiohttp import ClientResponse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from yarl import URL

from chassis.clickhouse import ClickHouse, QueryLimits
from query.request.filters import MAX_KEY, Op
from tests.query.conftest import ONE_ENGINE, OTHER_PROJECT, PATH, Explore, Loader, record, span
from tests.query.test_defects import BASELINE, BEFORE, RECENT, SPIKE, aggregated, compared, counts
from tests.selection import scaled

pytestmark = pytest.mark.both_stores

SECRET: Final = "of-somebody-else"
HOSTILE: Final = [
    *("'", '"', "\\", "`", "\\'", "''", "%", "_", "\0", "\1", "\2", "\3", "\3A", "\1k\2s", "\n", "\t", "\\N", "\\x27"),
    *("{x:Identifier}", "{p0:UInt64}", "{p0}", "{{p0:String}}", "$1", "?", ":p0", "%(p0)s", "{", "}", "{{}}", ";"),
    *("${jndi:ldap://x}", "a\0b", "\\0", "\r", "%_%", "*/ OR 1 /*", "NULL", "file('/etc/passwd')", "%s", "(1)", "\x7f"),
    *("' OR 1=1 --", "'; DROP TABLE spans; --", "1; SELECT 1", "*/", "/*", "--", "#", "k' OR project_id = 8 --"),
    *("') UNION ALL SELECT * FROM spans --", "project_id", "attributes", "resource.", "scope.", "attr:", "attr:name"),
    *("[", "]", "*", ".*", "(?s).*", "null", "NaN", "true", "0", "-1", "1e400", "now()", "now", " ", "é", "e\u0301"),
    *("🦥", "\U0010ffff", "😀" * 60, "a" * MAX_KEY, "\u202e", "\ufeff", "name", "k"),
]
TEXTS: Final = (
    st.sampled_from(["", *HOSTILE])
    | st.text(max_size=30)
    | (st.lists(st.sampled_from(HOSTILE), min_size=2, max_size=3).map("".join))
)
ANYTHING: Final = TEXTS | st.none() | st.integers() | st.floats() | st.lists(TEXTS) | st.dictionaries(TEXTS, TEXTS)
TOGETHER: Final = 10  # texts in one request; two filters each are as many as it may have
HOLDS: Final = {
    "eq": str.__eq__,
    "contains": str.__contains__,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
}
OF_TEXTS: Final = (Op.EQ, Op.NEQ, Op.CONTAINS, Op.NOT_CONTAINS, Op.STARTS_WITH, Op.ENDS_WITH, Op.IN, Op.NOT_IN)


def some(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """`from_` stands for `from`."""
    return st.fixed_dictionaries({}, optional={name.rstrip("_"): each for name, each in optional.items()})


class Call(NamedTuple):
    """A request; with a body a POST."""

    path: str
    query: dict[str, str]
    body: dict[str, Any] | None = None


NAMED: Final = TEXTS.filter(lambda text: 0 < len(text) <= MAX_KEY)
VALID: Final = st.fixed_dictionaries(
    {"key": TEXTS.filter(bool), "op": st.sampled_from(OF_TEXTS).map(str), "value": TEXTS}
)
FILTERS: Final = st.lists(
    VALID | some(key=ANYTHING, op=st.sampled_from(Op).map(str) | TEXTS, value=ANYTHING),
    max_size=2,
)
TERM: Final = VALID.map(lambda each: "{}:{}".format(*(json.dumps(each[name]) for name in ("key", "value"))))
WRITTEN: Final = VALID.map(lambda each: json.dumps([each])) | TERM | TEXTS | FILTERS.map(json.dumps)
QUERY: Final = some(filters=WRITTEN) | some(
    from_=TEXTS, to=TEXTS, hours=TEXTS, limit=TEXTS, cursor=TEXTS, traceId=TEXTS, sort=TEXTS, filters=WRITTEN
)
FIGURE: Final = st.fixed_dictionaries(
    {"fn": st.sampled_from(["count", "sum", "p95", "count_unique", "max"]), "field": NAMED}
)
ASKED: Final = some(groupBy=NAMED, filters=st.lists(VALID, max_size=2))
ODD: Final = some(
    fn=TEXTS,
    field=TEXTS,
    filters=FILTERS,
    from_=ANYTHING,
    to=ANYTHING,
    hours=ANYTHING,
    limit=ANYTHING,
    intervalMinutes=ANYTHING,
)
COVERED: Final = some(filters=st.lists(VALID, max_size=2))
GROUPED: Final = some(groupBy=st.lists(NAMED, max_size=3), filters=st.lists(VALID, max_size=2))
SIDES: Final = st.just({"spike": SPIKE, "baseline": BASELINE})
COMPARED: Final = some(keys=st.lists(NAMED, max_size=3), filters=st.lists(VALID, max_size=2))
WINDOW: Final = some(from_=ANYTHING, to=ANYTHING)
ODD_SIDES: Final = some(
    spike=WINDOW, baseline=WINDOW, minSpikeCount=ANYTHING, limit=ANYTHING, keys=ANYTHING, filters=FILTERS
)
IDS: Final = st.just(f"{1:032x}") | st.just(f"{1:016x}") | TEXTS.filter(lambda text: text.strip("./") != "")


def joined(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(lambda each: {name: part[name] for part in each for name in part})


def path(pattern: str, *names: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*names).map(lambda each: pattern.format(*(quote(name, safe="") for name in each)))


def called(paths: st.SearchStrategy[str], query: st.SearchStrategy[dict[str, str]]) -> st.SearchStrategy[Call]:
    return st.tuples(paths, query, st.none()).map(Call._make)


def posted(path: str, body: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Call]:
    return body.map(lambda each: Call(path, {}, each))


def only(*names: str) -> st.SearchStrategy[dict[str, str]]:
    """Queries of these parameters, `from`, `to` and `hours`: others are refused before anything else is looked at."""
    return QUERY.map(lambda query: {name: query[name] for name in (*names, "from", "to", "hours") if name in query})


PAGE: Final = ("filters", "limit", "cursor")
CALLS: Final = {
    "lists": called(st.just("/spans"), QUERY) | called(st.just("/logs"), only(*PAGE, "traceId")),
    "tails": called(st.sampled_from(["/spans/live", "/logs/live"]), some(after=TEXTS, limit=TEXTS, filters=WRITTEN)),
    "keys": called(st.just("/attributes"), only()),
    "traces": called(path("/traces/{}/logs", IDS), only(*PAGE, "traceId")) | called(st.just("/traces"), only(*PAGE)),
    "one trace": called(path("/traces/{}/waterfall", IDS) | path("/traces/{}/spans/{}", IDS, IDS), st.just({})),
    "errors": called(st.just("/errors"), only(*PAGE, "sort"))
    | called(path("/errors/{}", IDS), only("filters"))
    | called(path("/errors/{}/occurrences", IDS), only(*PAGE)),
    "one error": called(path("/errors/{}/occurrences/{}", IDS, IDS), st.just({}) | some(logs=TEXTS)),
    "undeclared": called(st.sampled_from(["/attributes", "/errors", "/spans"]), st.dictionaries(TEXTS, TEXTS)),
    "aggregates": posted("/spans/aggregate", joined(FIGURE, ASKED)),
    "odd aggregates": posted("/spans/aggregate", joined(FIGURE, ASKED, ODD)),
    "figures": posted(
        "/spans/figures",
        joined(st.fixed_dictionaries({"figures": st.lists(joined(FIGURE, COVERED), min_size=1, max_size=3)}), GROUPED),
    ),
    "keys of logs": called(st.just("/logs/attributes"), only()),
    "values": called(
        st.sampled_from(["/attributes/values", "/logs/attributes/values"]),
        joined(st.fixed_dictionaries({"key": NAMED}), some(prefix=TEXTS, filters=WRITTEN)),
    ),
    "counts of logs": posted("/logs/aggregate", some(groupBy=NAMED, filters=st.lists(VALID, max_size=2))),
    "heatmaps": posted("/spans/heatmap", some(field=NAMED, filters=st.lists(VALID, max_size=2))),
    "service maps": called(st.just("/services/map"), only("filters")),
    "comparisons": posted("/spans/compare", joined(SIDES, COMPARED)),
    "odd comparisons": posted("/spans/compare", joined(SIDES, COMPARED, ODD_SIDES)),
}


async def sent(explore: Explore, call: Call) -> tuple[int, str]:
    """Status and text of the answer."""
    url = URL(f"{PATH}{call.path}", encoded=True).with_query(call.query)
    headers = {"Authorization": "Bearer mine"}
    answer: ClientResponse
    if call.body is None:
        answer = await explore.client.get(url, headers=headers)
    else:
        answer = await explore.client.post(url, headers=headers, json=call.body)
    async with answer:
        return answer.status, await answer.text()


async def stored(clickhouse: ClickHouse) -> list[tuple[object, ...]]:
    """What the tables hold, in short."""
    sql = " UNION ALL ".join(
        f"SELECT '{table}', count(), sum(cityHash64(*)) FROM {table}"
        for table in ("spans", "logs", "trace_index", "attribute_keys", "error_occurrences")
    )
    return sorted(await clickhouse.query(sql, {}, limits=QueryLimits()))


@pytest.fixture
async def before(loader: Loader, clickhouse: ClickHouse) -> list[tuple[object, ...]]:
    """Two projects, whose spans carry the same keys."""
    for project, value in ((7, "mine"), (OTHER_PROJECT, SECRET)):
        attributes = dict.fromkeys(HOSTILE, value)
        spans = (span(n, start=start, name=value, attributes=attributes) for n, start in ((1, RECENT), (2, BEFORE)))
        await loader.spans(*spans, project=project, resource={"service.name": value, **attributes})
        await loader.logs(record(trace=1, body=value, attributes=attributes), project=project)
    return await stored(clickhouse)


@ONE_ENGINE
@pytest.mark.sized
@settings(max_examples=scaled(4, 12), derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(calls=st.fixed_dictionaries(CALLS))
async def test_no_text_reaches_anything_of_another_project(
    calls: dict[str, Call], before: list[tuple[object, ...]], explore: Explore, clickhouse: ClickHouse
) -> None:
    for kind, call in calls.items():
        status, text = await sent(explore, call)
        assert status in (200, 400, 404), (kind, text)
        assert SECRET not in text, kind
    assert await stored(clickhouse) == before


async def test_hostile_values_are_found_as_what_they_are(loader: Loader, explore: Explore) -> None:
    await loader.spans(*(span(n, name=text, attributes={"v": text}) for n, text in enumerate(HOSTILE, 1)))
    of_all = await aggregated(explore, "count", groupBy="v", limit=100)
    assert counts(of_all) == dict.fromkeys(HOSTILE, 1)
    for at in range(0, len(HOSTILE), TOGETHER):
        part, key = HOSTILE[at : at + TOGETHER], ("v", "name")[at // TOGETHER % 2]
        filters: list[dict[str, Any]] = [{"key": key, "op": "in", "value": part}]
        assert await explore.names(filters=json.dumps(filters)) == sorted(part), (key, part)
        for op, holds in HOLDS.items():
            filters = [{"any": [{"key": key, "op": op, "value": text} for text in part]}]
            found = sorted(each for each in HOSTILE if any(holds(each, text) for text in part))
            assert await explore.names(filters=json.dumps(filters)) == found, (key, op, part)
        filters = [{"key": key, "op": op, "value": text} for text in part for op in ("neq", "not_contains")]
        without = sorted(each for each in HOSTILE if not any(text in each for text in part))
        assert await explore.names(filters=json.dumps(filters)) == without, (key, part)


async def test_hostile_keys_are_found_as_what_they_are(loader: Loader, explore: Explore) -> None:
    """Thirty spans carry all of them, each with its own text as its value."""
    attributes = {key: key for key in HOSTILE}
    await loader.spans(*(span(n, start=RECENT, attributes=attributes) for n in range(1, 31)))
    await loader.spans(*(span(n, start=BEFORE) for n in range(1, 301)))
    keys = {row["key"]: row for row in await explore.data("/attributes")}
    asked = {f"attr:{key}": key for key in HOSTILE}
    for n, (forced, key) in enumerate(asked.items()):
        listed = forced if key == "name" or key.startswith("attr:") else key
        assert keys[listed] == {"key": listed, "spans": 30, "numeric": False}
        if n % 2:  # the others are read by the comparisons below alone
            continue
        filters = [{"key": listed, "op": "eq", "value": key}]
        answer = await aggregated(explore, "count_unique", field=forced, groupBy=listed, filters=filters)
        assert answer["groups"] == [{"group": key, "value": 1, "count": 30}]
    for at in range(0, len(HOSTILE), 40):
        part = list(asked)[at : at + 40]
        found = await compared(explore, keys=part, limit=200)
        assert {(each["key"], each["value"]) for each in found["attributes"]} == {(key, asked[key]) for key in part}
        assert {(each["spikeCount"], each["lift"]) for each in found["attributes"]} == {(30, None)}
