"""What may be asked, on every route of the service's own document: bounds from both sides, and who may ask at all."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from query.live import MAX_POSITION
from query.request.filters import MAX_TEXT
from tests.query.conftest import NOW, ONE_ENGINE, PATH, SECOND, Answer, Explore, Loader, issues, record, span
from tests.query.test_query_parameters import VALUES, Asked, ask, operations

pytestmark = ONE_ENGINE

Refused = list[tuple[Any, str]]  # a value, and the code that is told of it, behind the place within the value
Values = dict[str, Any]
MINE: Final = {"Authorization": "Bearer mine"}
EXISTS: Final = {"key": "k", "op": "exists"}
EQUAL: Final = {"key": "k", "op": "eq", "value": "v"}
REGEX: Final = {"key": "name", "op": "regex", "value": "("}
LONG: Final = "k" * 257
COUNT: Final = {"fn": "count"}
SIDE: Final = {"from": "-10m", "to": "now"}
BEFORE: Final = {"from": "-1h", "to": "-10m"}
LENGTHS: Final[Refused] = [("", "length"), ("attr:", "length"), (LONG, "length")]

QUERY: Final[dict[str, Refused]] = {
    "hours": [("0", "too_small"), ("721", "too_large"), ("x", "type"), ("1.5", "type")],
    "from": [("", "format"), ("soon", "format"), ("now", "range"), ("now-43201m", "range")],
    "to": [("soon", "format"), ("1969-12-31T23:59:59Z", "format")],
    "limit": [("0", "too_small"), ("-1", "too_small"), ("5.0", "type"), ("", "type"), ("٣", "type")],
    "traceId": [("", "too_short"), ("x" * 65, "too_long")],
    "cursor": [("", "too_short"), ("A" * 500, "invalid"), ("A" * 501, "too_long")],
    "filters": [("k:v".ljust(MAX_TEXT + 1), "too_long"), ("k", "syntax"), ('[{"op": "exists"}]', "[0].key missing"),
                ("serviceName:>x", "[0].value type"), (json.dumps([REGEX]), "[0].value format")],
    "sort": [(text, "not_allowed") for text in ("", "size", "Duration", "-duration", "duration ", "\0", "x" * 5_000)],
    "key": [("", "length"), (LONG, "length")],
    "prefix": [("x" * 1_025, "too_long")],
    "after": [("x", "invalid"), ("A" * MAX_POSITION, "invalid"), ("A" * (MAX_POSITION + 1), "too_long")],
    "root": [("x", "format")],
    "logs": [("0", "too_small"), ("101", "too_large"), ("x", "type")],
    "kind": [("party", "not_allowed")],
    "environment": [("a\0", "format"), ("x" * 201, "too_long")],
    "service": [("a\0", "format"), ("x" * 201, "too_long")],
}  # fmt: skip
BODY: Final[dict[str, Refused]] = {
    "hours": [(0, "too_small"), (721, "too_large"), (1.5, "type")],
    "from": [("soon", "format"), ("now", "range"), ("now-721h", "range")],
    "to": [("soon", "format")],
    "limit": [(0, "too_small"), ("5", "type")],
    "field": [(5, "type"), *LENGTHS],
    "groupBy": LENGTHS,
    "filters": [([EXISTS] * 21, "too_many"), ([EXISTS | {"not": 1}], "[0].not unknown_field"),
                ([EXISTS | {"key": LONG}], "[0].key length"), ([EQUAL | {"value": None}], "[0].value missing"),
                ([EQUAL | {"value": "v" * 1025}], "[0].value too_long"), ([EQUAL | {"op": "gt"}], "[0].value type"),
                ([EQUAL | {"op": "like"}], "[0].op not_allowed"), ([REGEX | {"key": "k"}], "[0].value format")],
    "fn": [(None, "type"), ("median", "not_allowed")],
    "intervalMinutes": [(0, "too_small"), (43_201, "too_large")],
    "intervalSeconds": [(-1, "too_small"), (2_592_001, "too_large")],
    "figures": [([], "too_short"), ([COUNT] * 7, "too_long"), ([COUNT, {"fn": "p95"}], "[1].field missing"),
                ([{"fn": "median"}], "[0].fn not_allowed"), ([{"fn": "sum", "field": ""}], "[0].field length"),
                ([COUNT | {"extra": 1}], "[0].extra unknown_field"),
                ([COUNT | {"filters": [REGEX]}], "[0].filters[0].value format"),
                ([COUNT | {"filters": [EXISTS] * 21}], "[0].filters too_many")],
    "sort": [(1, "too_large"), (6, "too_large"), (-1, "too_small")],
    "columns": [(0, "too_small"), (121, "too_large"), ("x", "type")],
    "rowsPerOctave": [(0, "too_small"), (9, "too_large")],
    "keys": [(["k"] * 51, "too_long"), (["k", ""], "[1] length"), ([LONG], "[0] length"), (["attr:"], "[0] length"),
             ([1], "[0] type"), ("k", "type")],
    "minSpikeCount": [(0, "too_small"), (1_000_001, "too_large"), (1.5, "type")],
    "spike": [(None, "type"), ({"to": "now"}, ".from missing"), (SIDE | {"hours": 3}, ".hours unknown_field"),
              (SIDE | {"from": None}, ".from type"), (SIDE | {"from": "soon"}, ".from format"),
              (SIDE | {"to": "later"}, ".to format"), (SIDE | {"from": "now"}, ".from range"),
              ({"from": "now", "to": "-1h"}, ".from range"), (SIDE | {"from": "-721h"}, ".from range"),
              (SIDE | {"filters": [EXISTS] * 21}, ".filters too_many")],
    "baseline": [({"from": "-1h"}, ".to missing"), (BEFORE | {"to": "x"}, ".to format"), (SIDE, "equal"),
                 ({"from": "-2h", "to": "-3h"}, ".from range"), ({"from": "-800h", "to": "-10h"}, ".from range"),
                 ({"from": NOW - 600 * SECOND, "to": NOW}, "equal"), (SIDE | {"filters": []}, "equal"),
                 (BEFORE | {"filters": [REGEX]}, ".filters[0].value format")],
}  # fmt: skip
OF_ERRORS: Final[Refused] = [
    *(("type", "syntax"), ("http.route:/x", "[0].key not_allowed"), ("type:E attr:type:E", "[1].key not_allowed")),
    *(("time:>soon", "[0].value format"), (json.dumps([REGEX | {"key": "type"}]), "[0].value format")),
]
OTHERWISE: Final[dict[tuple[str, str], Refused]] = {
    ("/errors", "sort"): [("traces", "not_allowed"), ("", "not_allowed")],
    ("/spans/figures", "groupBy"): [("name", "type"), (["a", "b", "c", "d"], "too_long"), (["a", ""], "[1] length")],
    **{(path, "filters"): OF_ERRORS for path in ("/errors", "/errors/{}", "/errors/{}/occurrences")},
}
NEEDED: Final[dict[str, Values]] = {
    "/attributes/values": {"key": "k"},
    "/logs/attributes/values": {"key": "k"},
    "/spans/aggregate": COUNT,
    "/spans/figures": {"figures": [COUNT]},
    "/spans/compare": {"spike": SIDE, "baseline": BEFORE},
}


def needed(asked: Asked) -> Values:
    """What a request must say."""
    return NEEDED.get(asked.route, {})


def most(asked: Asked) -> int:
    """The largest `limit`."""
    return 100 if asked.route.endswith(("/values", "/aggregate", "/figures")) else 200


def cases(asked: Asked) -> Iterator[tuple[str, Any, str]]:
    """(name, value, what is told) of all that one value may not be: of a new one it has to stand in a table above."""
    table = BODY if asked.fields else QUERY
    for name in (*asked.declared, *asked.fields):
        for value, told in OTHERWISE.get((asked.route, name)) or table[name]:
            yield name, value, told
        if name == "limit":
            yield name, most(asked) + 1 if asked.fields else str(most(asked) + 1), "too_large"


async def given(explore: Explore, asked: Asked, values: Values) -> Answer:
    """What is answered to these values, in the query or in the body."""
    return await (ask(explore, asked, {}, values) if asked.fields else ask(explore, asked, values))


@pytest.fixture
async def stored(loader: Loader) -> Loader:
    """The trace of `VALUES`."""
    trace, number = (int(VALUES[name], 16) for name in ("traceId", "spanId"))
    await loader.spans(span(number, trace=trace))
    await loader.logs(record(trace=trace))
    return loader


@pytest.mark.usefixtures("stored")
async def test_what_is_beyond_a_bound_is_named(explore: Explore) -> None:
    for asked in await operations(explore):
        for name, value, told in cases(asked):
            where, _, code = told.rpartition(" ")
            answer = await given(explore, asked, needed(asked) | {name: value})
            place = f"{'body' if asked.fields else 'query'}.{name}{where}"
            assert issues(answer) == [(place, code)], (asked.route, name, value)
            assert answer.json["error"]["code"] == "bad_request"


LEAST: Final[Values] = {
    "hours": 1, "limit": 1, "intervalMinutes": 1, "intervalSeconds": 0, "sort": 0, "columns": 1, "rowsPerOctave": 1,
    "minSpikeCount": 1, "logs": 1, "filters": [], "keys": [],
}  # fmt: skip
GREATEST: Final[Values] = {
    "hours": 720, "intervalMinutes": 43_200, "intervalSeconds": 2_592_000, "columns": 120, "rowsPerOctave": 8,
    "minSpikeCount": 1_000_000, "logs": 100, "filters": [EQUAL | {"key": LONG[1:], "value": "v" * 1024}] * 20,
    "field": LONG[1:], "keys": ["é" * 256] * 50, "key": LONG[1:], "prefix": "x" * 1_024, "traceId": "x" * 64,
    "environment": "x" * 200, "service": "x" * 200, "baseline": {"from": "-730h", "to": "-10h"},
    "spike": {"from": "-720h", "to": "now", "filters": [EXISTS] * 20},
    "figures": [{"fn": "p99", "field": LONG[1:], "filters": [EXISTS] * 20}] * 6,
}  # fmt: skip


def at_bounds(asked: Asked) -> Iterator[Values]:
    """Values that are allowed, all at once; of a body those that say nothing, too."""
    of_figures = asked.route == "/spans/figures"
    greatest = GREATEST | {"limit": most(asked), "groupBy": ["a", "b", "a"] if of_figures else f"attr:{LONG[1:]}"}
    if of_figures:
        greatest["sort"] = 5
    for values in (LEAST, greatest):
        found = needed(asked) | {name: values[name] for name in (*asked.declared, *asked.fields) if name in values}
        if not asked.fields:
            filters = "type:E" if asked.route.startswith("/errors") else "k:v".ljust(MAX_TEXT)
            found |= {"filters": filters} if "filters" in found else {}
            found = {name: str(value) for name, value in found.items() if name != "sort"}
        yield found
    if asked.fields:
        yield dict.fromkeys(asked.fields) | needed(asked)


@pytest.mark.usefixtures("stored")
async def test_each_bound_belongs_to_what_is_allowed(explore: Explore) -> None:
    """And null in a body means what absence means."""
    for asked in await operations(explore):
        wanted = 503 if asked.route == "/changes" else 404 if asked.route.startswith("/errors/") else 200
        answers = [await given(explore, asked, values) for values in at_bounds(asked)]
        assert [each.status for each in answers] == [wanted] * len(answers), (asked.route, answers)
        if asked.fields:
            assert answers[-1].text == (await given(explore, asked, needed(asked))).text, asked.route


GREATER: Final = EQUAL | {"op": "gt"}
SEVERAL: Final[dict[str, tuple[Values, str]]] = {
    "/spans": ({"cursor": "x", "limit": "0", "filters": "durationMs:>long"},
               "cursor invalid, filters[0].value type, limit too_small"),
    "/attributes": ({"from": "x", "to": "y", "hours": "z"}, "from format, hours type, to format"),
    "/errors": ({"cursor": "x", "limit": "0", "filters": "a:b", "sort": "x", "hours": "0"},
                "cursor invalid, filters[0].key not_allowed, hours too_small, limit too_small, sort not_allowed"),
    "/services/map": ({"from": "x", "hours": "0", "filters": "durationMs:>long"},
                      "filters[0].value type, from format, hours too_small"),
    "/spans/aggregate": ({"fn": "p4", "from": "x", "to": "y", "limit": 0, "groupBy": "", "no": 1,
                          "filters": [{"key": "a"}]},
                         ("filters[0].op missing, fn not_allowed, from format, groupBy length, limit too_small, "
                          "no unknown_field, to format")),
    "/spans/figures": ({"figures": [{"fn": "avg"}, COUNT | {"filters": [GREATER]}], "filters": [GREATER],
                        "groupBy": [LONG], "from": "yesterday", "sort": 2},
                       ("figures[0].field missing, figures[1].filters[0].value type, filters[0].value type, "
                        "from format, groupBy[0] length, sort too_large")),
    "/spans/heatmap": ({"columns": "x", "field": "", "from": "x", "hours": 0, "filters": [GREATER], "limit": 1},
                       ("columns type, field length, filters[0].value type, from format, hours too_small, "
                        "limit unknown_field")),
    "/spans/compare": ({"spike": {"from": "never", "filters": [EQUAL | {"key": ""}]}, "keys": [""], "limit": 0,
                        "no": 1, "baseline": {"from": "-1h", "to": "-2h", "filters": [GREATER]}, "filters": [GREATER]},
                       ("baseline.filters[0].value type, baseline.from range, filters[0].value type, keys[0] length, "
                        "limit too_small, no unknown_field, spike.filters[0].key too_short, spike.from format, "
                        "spike.to missing")),
}  # fmt: skip


async def test_all_faults_are_named_at_once(explore: Explore) -> None:
    told = {}
    for asked in await operations(explore):
        if asked.route in SEVERAL:
            found = issues(await given(explore, asked, SEVERAL[asked.route][0]))
            told[asked.route] = ", ".join(sorted(f"{path.partition('.')[2]} {code}" for path, code in found))
    assert told == {route: wanted for route, (_, wanted) in SEVERAL.items()}


async def test_a_short_interval_fits_no_long_window(explore: Explore) -> None:
    for path, name, seconds in (
        *(("/spans/aggregate", "intervalMinutes", 60), ("/spans/figures", "intervalSeconds", 1)),
        ("/logs/aggregate", "intervalSeconds", 1),
    ):
        end = NOW // SECOND // seconds * seconds
        body = NEEDED.get(path, {}) | {name: 1, "from": end - 1501 * seconds, "to": end}
        assert issues(await explore.post(path, body)) == [(f"body.{name}", "too_small")], path
        assert (await explore.post(path, body | {"from": end - 1500 * seconds})).status == 200, path


async def test_bodies_that_are_none(explore: Explore) -> None:
    for asked in await operations(explore):
        if asked.fields:
            path = asked.path.removeprefix(PATH)
            for body in (b"", b"{", b'{"filters": [{"key": "\\ud800", "op": "exists"}]}', b"[]", b"null"):
                code = "type" if body in (b"[]", b"null") else "malformed"
                assert issues(await explore.post(path, body)) == [("body", code)], (path, body)
            assert (await explore.post(path, b" " * (256 * 2**10 + 1))).status == 413
            headers = MINE | {"Content-Type": "text/plain"}
            async with explore.client.post(asked.path, data=b"{}", headers=headers) as answer:
                assert answer.status == 415, path


async def test_a_parameter_counts_once(explore: Explore) -> None:
    for asked in await operations(explore):
        if asked.declared:
            twice = "&".join(f"{name}=1&{name}=2" for name in asked.declared)
            async with explore.client.get(f"{asked.path}?{twice}", headers=MINE) as answer:
                details = (await answer.json())["error"]["details"]
            repeated = {issue["path"] for issue in details if issue["code"] == "repeated"}
            assert repeated == {f"query.{name}" for name in asked.declared}, asked.route


FOREIGN: Final = "/orgs/evil/projects/shop/explore"
NOWHERE: Final = "/orgs/acme/projects/none/explore"
WHO: Final = (("nobody", PATH), ("mine", FOREIGN), ("foreign", PATH), ("mine", NOWHERE), ("blind", PATH))


async def test_every_route_is_guarded_before_it_looks_at_the_request(explore: Explore) -> None:
    for asked in await operations(explore):
        path, found = asked.path.removeprefix(PATH), []
        for token, base in WHO:
            wrong = {"limit": "0", "filters": "["}
            one = explore.post(path, b"{", token=token, base=base) if asked.fields else None
            found.append((await (one or explore.get(path, token=token, base=base, **wrong))).status)
        assert found == [401, 404, 404, 404, 403], asked.route
        async with explore.client.request("GET" if asked.fields else "POST", asked.path, headers=MINE) as answer:
            allowed = "POST" if asked.fields else "GET" if path.endswith("/live") else "GET, HEAD"
            assert (answer.status, answer.headers["Allow"]) == (405, allowed), asked.route


@pytest.mark.parametrize("name", ["traceId", "spanId", "fingerprint", "occurrenceId"])
async def test_names_in_a_path_have_at_most_64_characters(name: str, explore: Explore) -> None:
    """Shorter ones that are none are not found."""
    every = [asked for asked in await operations(explore) if VALUES[name] in asked.path.split("/")]
    assert every
    for asked in every:
        before, _, after = asked.path.removeprefix(PATH).partition(VALUES[name])
        for text in ("a" * 64, "%20" * 32, "%D9%A3" * 32, "x", "0" * len(VALUES[name])):
            answer = await explore.get(before + text + after)
            assert (answer.status, answer.json["error"]["message"]) == (404, "Not found."), (asked.route, text)
        assert issues(await explore.get(f"{before}{'a' * 65}{after}")) == [(f"path.{name}", "too_long")], asked.route
