"""Attributes are looked for where the roll-up knows them; what it does not know is found all the same."""

import itertools

import pytest

from chassis.clickhouse import ClickHouse
from chassis.http.validation import Issues
from chassis.limits.fairness import Requester
from query.metrics import QueryMetrics
from query.read_store import ReadStore, ReadStores
from query.request.filters import conditions, parse_filters
from query.rows import SPANS
from query.settings import QuerySettings
from query.sql import attribute_names, emit
from query.statements import Attribute, Condition, Exists, Listing, Window
from query.values import HOUR, SECOND
from tests.query.conftest import NOW, PROJECT, Explore, Loader, span

WINDOW = Window(NOW - HOUR, NOW)
NAMES = ("host", "resource.host", "resource.resource.host", "scope.name", "resource.scope.name")
FILTERS = ("host:a", "-host:a", "has:host", "!has:host", "resource.host:a", "scope.name:a -host:*b*", "host:<2")


async def load(loader: Loader) -> None:
    """Each combination of places that may have the key."""
    for number, (own, spelled, given) in enumerate(itertools.product(("", "a", "b"), ("", "a", "1"), ("", "a", "b"))):
        attributes = {"host": own, "resource.host": spelled, "scope.name": spelled}
        await loader.spans(
            span(
                number + 1,
                name=f"{own}-{spelled}-{given}",
                attributes={key: each for key, each in attributes.items() if each},
            ),
            resource={"host": given} if given else None,
        )


def listing(text: str, known: frozenset[str] | None) -> Listing:
    tests = conditions(parse_filters(text, "f", Issues()), SPANS, NOW, "f", Issues())
    return Listing(
        project_id=PROJECT, signal=SPANS, window=WINDOW, conditions=tests, limit=100, existing_attributes=known
    )


@pytest.fixture
def store(clickhouse: ClickHouse) -> ReadStore:
    return ReadStores(clickhouse, QuerySettings(), QueryMetrics()).for_requester(Requester("o1", "mine"))


async def test_what_is_known_never_changes_an_answer(loader: Loader, store: ReadStore) -> None:
    await load(loader)
    for text in FILTERS:
        everything = await store.rows(listing(text, None))
        for known in (frozenset(), frozenset(NAMES[:1]), frozenset(NAMES[1:2]), frozenset(NAMES)):
            assert await store.rows(listing(text, known)) == everything, (text, known)


async def test_the_roll_up_tells_what_is_worth_looking_for(loader: Loader, store: ReadStore) -> None:
    await loader.spans(span(1, attributes={"host": "a"}), resource={"zone": "b"})
    asked = [Attribute(key) for key in ("host", "zone", "nowhere")]
    assert await store.find_existing_attributes(PROJECT, WINDOW, asked) == {"host", "resource.zone"}
    assert await store.find_existing_attributes(PROJECT, Window(NOW - 3 * HOUR, NOW - 2 * HOUR), asked) == frozenset()
    assert await store.find_existing_attributes(PROJECT, WINDOW, [SPANS.fields["name"]]) == frozenset()


def test_only_what_is_known_is_read() -> None:
    condition = Condition(Attribute("host"), Exists())
    whole = Listing(project_id=PROJECT, signal=SPANS, window=WINDOW, conditions=(condition,), limit=1)
    assert not emit(whole).needs_recheck
    assert {"host", "resource.host"} == set(attribute_names("host"))
    rare = emit(listing("host:a", frozenset(attribute_names("host"))))
    assert rare.needs_recheck
    assert rare.sql.count("attributes[") == 1
    assert rare.sql.count("extract(resource") == 1
    assert emit(listing("host:a", frozenset({"host"}))).sql.count("extract(resource") == 0
    assert emit(listing("host:a", frozenset({"resource.host"}))).sql.count("attributes[") == 0


@pytest.mark.parametrize("own", ["host", "resource.host"])
async def test_a_list_of_long_ago_finds_it_wherever_it_is(loader: Loader, explore: Explore, own: str) -> None:
    await loader.spans(span(1, name="old", start=NOW - 20 * HOUR, attributes={own: "a"}))
    await loader.spans(span(2, name="older", start=NOW - 21 * HOUR), resource={"host": "a"})
    await loader.spans(span(3, name="other", start=NOW - 60 * SECOND), resource={"host": "b"})
    assert await explore.names(filters="host:a") == ["old", "older"]
    assert await explore.names(filters="-host:a") == ["other"]
