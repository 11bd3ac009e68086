"""Lists: filters, orders, pages."""

from typing import Any

import pytest

from tests.control.identity.scim.conftest import ENTERPRISE, USER, Directory


@pytest.fixture
async def people(directory: Directory) -> dict[str, dict[str, Any]]:
    ada = await directory.user(
        "Ada@example.com",
        externalId="E1",
        displayName="Ada Lovelace",
        name={"givenName": "Ada", "familyName": "Lovelace"},
        emails=[
            {"value": "ada@example.com", "type": "work", "primary": True},
            {"value": "ada@home.example.com", "type": "home"},
        ],
    )
    bob = await directory.user("bob@example.com", externalId="e1", active=False, displayName="100% _Bob_")
    eve = await directory.user("ève@example.com", emails=[], name={"familyName": "Ærø"})
    return {"ada": ada, "bob": bob, "eve": eve}


async def names(directory: Directory, filter_: str, path: str = "/Users") -> set[str]:
    status, page, _ = await directory.call("GET", path, params={"filter": filter_})
    assert status == 200, page
    assert page["totalResults"] == len(page["Resources"])
    return {each["userName"].split("@")[0].lower() for each in page["Resources"]}


FILTERS = (
    ('userName eq "ada@EXAMPLE.com"', "ada"),
    ('USERNAME Eq "ada@example.com"', "ada"),
    (f'{USER}:userName eq "ada@example.com"', "ada"),
    ('userName ne "ada@example.com"', "bob ève"),
    ('userName sw "B"', "bob"),
    ('userName ew "EXAMPLE.COM"', "ada bob ève"),
    ('userName co "OB@"', "bob"),
    ('userName co ""', "ada bob ève"),
    ('userName sw ""', "ada bob ève"),
    ('userName eq "E\u0300VE@example.com"', "ève"),
    ('userName gt "b"', "bob ève"),
    ('userName ge "bob@example.com" and userName lt "c"', "bob"),
    ("userName pr", "ada bob ève"),
    ('externalId eq "E1"', "ada"),
    ('externalId eq "e1"', "bob"),
    ('externalId sw "E"', "ada"),
    ("externalId pr", "ada bob"),
    ("not (externalId pr)", "ève"),
    ("externalId eq null", "ève"),
    ("externalId ne null", "ada bob"),
    ('not (externalId eq "E1")', "bob ève"),
    ('displayName co "% _"', "bob"),
    ('displayName co "0_"', ""),
    ('displayName sw "100%"', "bob"),
    ('name.familyName eq "ærø"', "ève"),
    ('name.givenName eq "ada" or active eq false', "ada bob"),
    ("active eq true", "ada ève"),
    ("active ne true", "bob"),
    ('emails eq "ADA@home.example.com"', "ada"),
    ('emails.value eq "ada@home.example.com"', "ada"),
    ('emails[type eq "work" and value eq "ada@home.example.com"]', ""),
    ('emails[type eq "home" and value sw "ada"]', "ada"),
    ("emails[primary eq true]", "ada bob"),
    ("emails[not (primary eq true)]", "ada"),
    ('emails.type eq "work"', "ada"),
    ('not (emails.type eq "work")', "bob ève"),
    ("emails pr", "ada bob"),
    ("emails[type pr]", "ada"),
    ('meta.created gt "2020-01-01T00:00:00Z"', "ada bob ève"),
    ('meta.lastModified lt "2020-01-01T00:00:00+02:00"', ""),
    ('groups eq "scg_00000000000000000000000000"', ""),
    ("groups pr", ""),
    ("not (not (not (active eq true)))", "bob"),
    ("(" * 20 + "active eq true" + ")" * 20, "ada ève"),
)


@pytest.mark.both_stores
async def test_filters_of_users(directory: Directory, people: dict[str, dict[str, Any]]) -> None:
    for filter_, found in FILTERS:
        assert await names(directory, filter_) == set(found.split()), filter_


@pytest.mark.both_stores
async def test_filters_by_group(directory: Directory, people: dict[str, dict[str, Any]]) -> None:
    group = await directory.group("Team", people["ada"], people["eve"], externalId="G")
    assert await names(directory, f'groups eq "{group["id"]}"') == {"ada", "ève"}
    assert await names(directory, f'groups[value eq "{group["id"]}"] and active eq true') == {"ada", "ève"}
    for filter_, found in (
        (f'members eq "{people["ada"]["id"]}"', 1),
        (f'id eq "{group["id"]}" and members[value eq "{people["bob"]["id"]}"]', 0),
        ('displayName eq "TEAM"', 1),
        ('externalId eq "g"', 0),
        ("members pr", 1),
    ):
        status, page, _ = await directory.call("GET", "/Groups", params={"filter": filter_})
        assert (status, page["totalResults"]) == (200, found), filter_


REFUSED_FILTERS = (
    "userName",
    'userName eq "x',
    "userName eq",
    'colour eq "x"',
    'title eq "x"',
    f'{ENTERPRISE}:department eq "x"',
    "name pr",
    'name.formatted eq "x"',
    "userName gt 4",
    "active gt true",
    'active eq "perhaps"',
    'meta.created gt "yesterday"',
    'meta.created gt "9999-12-31T23:59:59-14:00"',
    'meta.created gt "0001-01-01T00:00:00+14:00"',
    "userName gt null",
    'userName eq "a\\u0000b"',
    'userName eq "\\ud800"',
    'emails[colour eq "x"]',
    'emails[display eq "x"]',
    'phoneNumbers[value eq "x"]',
    "(" * 3_000 + "active eq true" + ")" * 3_000,
    "not (" * 40 + "active eq true" + ")" * 40,
    " or ".join(["active eq true"] * 60),
    'userName eq "' + "x" * 5_000 + '"',
)


async def test_filters_that_are_refused(directory: Directory) -> None:
    for filter_ in REFUSED_FILTERS:
        status, body, _ = await directory.call("GET", "/Users", params={"filter": filter_})
        assert (status, body["scimType"]) == (400, "invalidFilter"), body
        status, body, _ = await directory.call("POST", "/Users/.search", {"filter": filter_})
        assert (status, body["scimType"]) == (400, "invalidFilter"), body


async def ordered(directory: Directory, **query: str) -> list[str]:
    status, page, _ = await directory.call("GET", "/Users", params=query)
    assert status == 200, page
    return [each["userName"].split("@")[0].lower() for each in page["Resources"]]


ORDERS = (
    ("userName", ["ada", "bob", "ève"]),
    ("externalId", ["ada", "bob", "ève"]),
    ("displayName", ["bob", "ada", "ève"]),
    ("name.familyName", ["ada", "ève", "bob"]),
    ("emails", ["ada", "bob", "ève"]),
    ("emails.value", ["ada", "bob", "ève"]),
    ("meta.created", ["ada", "bob", "ève"]),
    ("id", ["ada", "bob", "ève"]),
)


@pytest.mark.both_stores
async def test_lists_are_in_the_order_asked_for_on_every_page(
    directory: Directory, people: dict[str, dict[str, Any]]
) -> None:
    for sort_by, ascending in ORDERS:
        await check_order(directory, sort_by, ascending)


async def check_order(directory: Directory, sort_by: str, ascending: list[str]) -> None:
    assert await ordered(directory, sortBy=sort_by) == ascending
    descending = ascending[::-1]
    assert await ordered(directory, sortBy=sort_by, sortOrder="descending") == descending
    for order, expected in (("ascending", ascending), ("descending", descending)):
        found: list[str] = []
        cursor: str | None = ""
        for _ in expected:
            query = {"sortBy": sort_by, "sortOrder": order, "count": "1", "cursor": cursor or ""}
            _, page, _ = await directory.call("GET", "/Users", params=query)
            found.append(page["Resources"][0]["userName"].split("@")[0].lower())
            cursor = page.get("nextCursor")
        assert (found, cursor) == (expected, None)


async def test_orders_that_are_refused(directory: Directory) -> None:
    for sort_by in ("colour", "title", "name", "password", 'emails[type eq "work"]', "x" * 300):
        status, body, _ = await directory.call("GET", "/Users", params={"sortBy": sort_by})
        assert (status, body["scimType"]) == (400, "invalidPath"), sort_by


@pytest.mark.both_stores
async def test_pages_by_index(directory: Directory, people: dict[str, dict[str, Any]]) -> None:
    _, page, _ = await directory.call("GET", "/Users?startIndex=2&count=1")
    assert [each["id"] for each in page.pop("Resources")] == [people["bob"]["id"]]
    assert page == {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": 3,
        "startIndex": 2,
        "itemsPerPage": 1,
    }
    for query, items in (("startIndex=-5&count=2", 2), ("count=-1", 0), ("count=0", 0), ("startIndex=99", 0)):
        status, page, _ = await directory.call("GET", f"/Users?{query}")
        assert (status, page["totalResults"], page["itemsPerPage"], len(page["Resources"])) == (200, 3, items, items)
    for query in ("startIndex=x", "count=x", "count=1.5", "sortOrder=up"):
        status, body, _ = await directory.call("GET", f"/Users?{query}")
        assert (status, body["scimType"]) == (400, "invalidValue"), query
    status, page, _ = await directory.call("GET", "/Users?startIndex=99999999999999999999&count=99999999999999999999")
    assert (status, page["itemsPerPage"]) == (200, 0)


@pytest.mark.both_stores
async def test_pages_by_cursor(directory: Directory, people: dict[str, dict[str, Any]]) -> None:
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        _, page, _ = await directory.call("GET", "/Users", params={"cursor": cursor, "count": "2"})
        assert page["totalResults"] == 3
        assert "startIndex" not in page
        found += [each["id"] for each in page["Resources"]]
        cursor = page.get("nextCursor")
    assert found == [each["id"] for each in people.values()]


async def test_cursors_that_are_refused(directory: Directory, people: dict[str, dict[str, Any]]) -> None:
    query = {"cursor": "", "count": "1", "sortBy": "userName"}
    cursor = (await directory.call("GET", "/Users", params=query))[1]["nextCursor"]
    for changed in ({"sortBy": "displayName"}, {"filter": "active eq true"}, {"cursor": cursor[:-1]}, {"cursor": "é"}):
        status, body, _ = await directory.call("GET", "/Users", params=query | {"cursor": cursor} | changed)
        assert (status, body["scimType"]) == (400, "invalidCursor"), changed
    assert (await directory.call("GET", "/Groups", params={"cursor": cursor}))[0] == 400
    await directory.call("DELETE", f"/Users/{people['ada']['id']}")
    status, body, _ = await directory.call("GET", "/Users", params=query | {"cursor": cursor})
    assert (status, body["scimType"]) == (400, "expiredCursor")


async def test_a_search_is_a_list(directory: Directory, people: dict[str, dict[str, Any]]) -> None:
    body = {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"],
        "filter": "active eq true",
        "sortBy": "userName",
        "sortOrder": "descending",
        "startIndex": 1,
        "count": 1,
        "attributes": ["userName"],
    }
    status, page, _ = await directory.call("POST", "/Users/.search", body)
    assert (status, page["totalResults"]) == (200, 2)
    assert page["Resources"] == [{"schemas": [USER], "id": people["eve"]["id"], "userName": "ève@example.com"}]
    invalid: list[dict[str, object]] = [
        {"filter": 4},
        {"count": []},
        {"attributes": {"x": 1}},
        {"attributes": [1]},
        {"attributes": 1},
        {"excludedAttributes": True},
        {"sortBy": []},
    ]
    for broken in invalid:
        assert (await directory.call("POST", "/Users/.search", broken))[0] == 400, broken
    status, page, _ = await directory.call("POST", "/Groups/.search", {"excludedAttributes": "members"})
    assert (status, page["totalResults"]) == (200, 0)
