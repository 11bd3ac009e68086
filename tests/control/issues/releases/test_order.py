"""Which of two releases is the later one, and what telemetry makes known of releases."""

import itertools
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from control.issues.releases import store
from control.issues.releases.order import ReleaseOrder, latest_of, load_order
from control.issues.releases.store import note_seen, settle_next_release
from control.issues.releases.tables import release_projects, releases
from tests.control.conftest import Control
from tests.control.issues.releases.stored import NOW, issue, new_issue, new_project, report
from tests.control.issues.releases.test_cost import counted

# In ascending order: the example of Semantic Versioning 2.0.0, 11.4, and more.
ASCENDING = [
    "0.9.9",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "v1.0.0",
    "1.0.1",
    "1.2.0",
    "v1.10.0",
    "10.0.0",
    "2026.11.23",
]
VERSIONS = st.one_of(
    st.sampled_from(ASCENDING),
    st.builds(
        "{}{}.{}.{}{}".format,
        *[st.sampled_from(["", "v", "a@", "b@"])] + [st.integers(0, 3)] * 3,
        st.sampled_from(["", "-1", "-a", "+b"]),
    ),
    st.text(max_size=8),
)
TIMES = st.dictionaries(VERSIONS, st.integers(0, 3).map(lambda hours: NOW + timedelta(hours=hours)), max_size=6)


def test_semantic_versions_are_ordered_by_precedence() -> None:
    """Whatever their times say."""
    order = ReleaseOrder({version: NOW - timedelta(days=n) for n, version in enumerate(ASCENDING)})
    for (n, a), (m, b) in itertools.product(enumerate(ASCENDING), repeat=2):
        assert order.is_later(a, b) is (n > m), (a, b)
        assert order.is_later(f"shop@{a}", f"shop@{b}") is (n > m)
        assert order.is_later(f"@x/shop@{a}", f"@x/shop@{b}") is (n > m)


def test_other_releases_are_ordered_by_time() -> None:
    order = ReleaseOrder({"abc": NOW, "def": NOW + timedelta(seconds=1), "shop@1.0.0": NOW + timedelta(hours=1)})
    assert order.is_later("def", "abc") is True
    assert order.is_later("abc", "def") is False
    assert order.is_later("web@2.0.0", "shop@1.0.0") is None, "the time of one is not known"
    assert order.is_later("shop@1.0.0", "abc") is True
    assert order.is_later("abc", "abc") is False
    built = ReleaseOrder({"1.0.0+a": NOW, "1.0.0+b": NOW + timedelta(seconds=1)})
    assert built.is_later("1.0.0+b", "1.0.0+a") is True, "builds have no precedence"
    assert ReleaseOrder({}).is_later("1.0.0+b", "1.0.0+a") is None


@given(times=TIMES, a=VERSIONS, b=VERSIONS)
def test_no_release_is_later_than_one_that_is_later(times: dict[str, datetime], a: str, b: str) -> None:
    order = ReleaseOrder(times)
    one, other = order.is_later(a, b), order.is_later(b, a)
    assert (one is None) is (other is None)
    assert not (one and other)
    assert order.latest([]) is None
    assert {order.latest([a, b]), order.earliest([a, b])} <= {a, b}
    if one:
        assert (order.latest([b, a]), order.earliest([a, b])) == (a, b)


@given(times=TIMES, data=st.data())
def test_the_latest_and_the_earliest_do_not_depend_on_the_order_of_a_list(
    times: dict[str, datetime], data: st.DataObject
) -> None:
    """Releases of two schemes may be in a circle."""
    versions = data.draw(st.permutations(sorted(times)))
    for of in (ReleaseOrder(times), ReleaseOrder({})):
        expected = of.latest(sorted(times)), of.earliest(sorted(times))
        assert (of.latest(versions), of.earliest(versions)) == expected
        assert latest_of(ReleaseOrder({one: times[one] for one in versions}), frozenset()) == latest_of(
            ReleaseOrder(times), frozenset()
        )


def test_of_releases_of_two_schemes_in_a_circle_one_is_the_latest() -> None:
    """By version 2.0.0 is later than 1.9.0; by time 1.9.0 than abc1234, and that than 2.0.0."""
    circle = ["2.0.0", "abc1234", "1.9.0"]
    times = {version: NOW + timedelta(hours=n) for n, version in enumerate(circle)}
    found = {
        (ReleaseOrder(times).latest(versions), ReleaseOrder(times).earliest(versions))
        for versions in itertools.permutations(circle)
    }
    assert found == {("2.0.0", "1.9.0")}


async def seen(control: Control, found: dict[str, datetime], project: int | None = None) -> list[str]:
    acme = control.acme
    async with control.checks.database.write() as connection:
        return await note_seen(connection, acme.organization.id, project or acme.project.id, found, NOW)


async def known(control: Control) -> dict[str, tuple[datetime, datetime | None]]:
    """By version: the time that orders it and that of its first error, in the project `web`."""
    joined = sa.select(releases.c.version, release_projects).join_from(
        release_projects, releases, releases.c.id == release_projects.c.release_id
    )
    of_web = joined.where(release_projects.c.project_id == control.acme.project.id)
    async with control.checks.database.read() as connection:
        return {row.version: (row.ordered_at, row.first_seen) for row in await connection.execute(of_web)}


@pytest.mark.both_stores
async def test_releases_of_telemetry_become_known_with_their_earliest_time(control: Control) -> None:
    hour = timedelta(hours=1)
    assert await seen(control, {"b": NOW, "a": NOW + hour}) == ["b", "a"]
    assert await seen(control, {"a": NOW - hour, "b": NOW + hour, "c": NOW}) == ["c"]
    assert await known(control) == {"a": (NOW - hour, NOW - hour), "b": (NOW, NOW), "c": (NOW, NOW)}
    async with control.checks.database.read() as connection:
        order = await load_order(connection, control.acme.project.id, ["a", "b", "none"])
    assert [order.is_later(*pair) for pair in (("b", "a"), ("a", "b"), ("a", "none"))] == [True, False, None]
    other = await new_project(control, "api")
    assert await seen(control, {"a": NOW}, other) == ["a"]
    _, page, _ = await control.call("GET", "/orgs/acme/releases", params={"query": "a"})
    ((release,)) = page["data"]
    assert (release["reportedAt"], [one["slug"] for one in release["projects"]]) == (None, ["api", "web"])


@pytest.mark.both_stores
async def test_a_reported_time_of_release_orders_it_for_good(control: Control) -> None:
    hour = timedelta(hours=1)
    await report(control, "dated", releasedAt="2026-11-20T15:00:00Z")
    await report(control, "undated")
    assert await seen(control, {"dated": NOW - hour, "undated": NOW - hour}) == []
    assert await known(control) == {"dated": (NOW, NOW - hour), "undated": (NOW - hour, NOW - hour)}
    await report(control, "undated", releasedAt="2026-11-20T13:00:00Z")
    assert (await known(control))["undated"] == (NOW - 2 * hour, NOW - hour)


@pytest.mark.both_stores
async def test_only_so_many_releases_of_telemetry_are_kept(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service may name another one in each span. Those that are reported are always kept."""
    monkeypatch.setattr(store, "MAX_SEEN_RELEASES", 3)
    times = {f"r{n}": NOW + timedelta(minutes=n) for n in range(5)}
    assert await seen(control, times) == ["r2", "r3", "r4"]
    assert await seen(control, times) == [], "the earlier ones have no room"
    await report(control, "r3")
    assert await seen(control, {"r1": times["r1"]}) == ["r1"]
    assert set(await known(control)) == {"r1", "r2", "r3", "r4"}
    assert await seen(control, {"r5": NOW + timedelta(minutes=5)}) == ["r5"]
    assert set(await known(control)) == {"r2", "r3", "r4", "r5"}, "the earliest makes room"
    odd = ["", " x", "a\x00b", "x" * 201, "a\nb"]
    assert await seen(control, dict.fromkeys(odd, NOW)) == []


async def test_a_batch_takes_few_statements(control: Control) -> None:
    """However many releases it names: it runs every second."""
    await seen(control, {f"r{n}": NOW for n in range(20)})
    later = {f"r{n}": NOW - timedelta(hours=1) for n in range(20)} | {f"s{n}": NOW for n in range(20)}
    org_id, project_id = control.acme.organization.id, control.acme.project.id
    async with control.checks.database.write() as connection:
        with counted(control) as statements:
            assert len(await note_seen(connection, org_id, project_id, later, NOW)) == 20
    assert len(statements) == 5, statements


@pytest.mark.both_stores
async def test_issues_are_settled_in_the_earliest_later_release(control: Control) -> None:
    waits: dict[str, Any] = {"status": "resolved", "resolved_at": NOW}
    first = await new_issue(control, 1, resolved_after_release="1.0.0", **waits)
    second = await new_issue(control, 2, resolved_after_release="1.1.0", **waits)
    third = await new_issue(control, 3, resolved_after_release="nightly", **waits)
    await seen(control, dict.fromkeys(["1.0.0", "1.1.0", "1.2.0", "1.1.5"], NOW))
    async with control.checks.database.write() as connection:
        project_id = control.acme.project.id
        assert await settle_next_release(connection, project_id, ["1.2.0", "1.1.0", "1.1.5"], NOW) == 2
        assert await settle_next_release(connection, project_id, [], NOW) == 0
    rows = [await issue(control, one) for one in (first, second, third)]
    assert [row.resolved_in_release for row in rows] == ["1.1.0", "1.1.5", None]
    assert rows[2].resolved_after_release == "nightly"


# Releases in the order in which they were seen, and the latest of them.
OUTLIERS: list[tuple[list[str], str | None]] = [
    (["1.4.0", "1.5.0", "999.9.9"], "1.5.0"),
    (["999.9.9", "1.4.0", "1.5.0"], "1.5.0"),
    (["1.4.0", "999.9.9"], "1.4.0"),
    (["1.4.0", "1.5.0", "1.99.0"], "1.5.0"),
    (["1.4.0", "2026.11.1", "2026.11.2"], "2026.11.2"),
    (["0.1.0", "0.2.0", "0.3.0", "99.0.0", "999.9.9"], "0.3.0"),
    (["shop@1.4.0", "shop@1.5.0", "shop@999.9.9"], "shop@1.5.0"),
    (["a1b2c3d", "1.4.0", "1.5.0", "999.9.9"], "1.5.0"),
    (["1.4.0", "1.5.0", "2.0.0"], "2.0.0"),
    (["1.4.0", "1.5.0", "1.9.0"], "1.9.0"),
    (["2.0.0", "1.9.7", "1.9.8"], "2.0.0"),
    (["24.4.0", "24.10.0", "26.4.0"], "26.4.0"),
    (["1.2.5", "1.2.6", "1.2.900"], "1.2.900"),
    (["0.0.0", "2026.11.1"], "2026.11.1"),
    (["0.0.0", "2026.11.1", "2026.11.2"], "2026.11.2"),
    (["1.4.0", "1.5.0", "999.9.9 reported"], "999.9.9"),
    (["1", "2", "3"], "3"),
    ([], None),
]


def test_an_outlier_is_not_the_latest_release() -> None:
    for versions, expected in OUTLIERS:
        names = [version.partition(" ")[0] for version in versions]
        order = ReleaseOrder({name: NOW + timedelta(hours=n) for n, name in enumerate(names)})
        reported = frozenset(name for name, version in zip(names, versions, strict=True) if " reported" in version)
        assert latest_of(order, reported).version == expected, versions


@given(times=TIMES, reported=st.frozensets(VERSIONS))
def test_the_latest_release_is_one_and_no_outlier(times: dict[str, datetime], reported: frozenset[str]) -> None:
    found = latest_of(ReleaseOrder(times), reported)
    assert (found.version is None) is (not times)
    assert found.version not in found.outliers
    assert reported.isdisjoint(found.outliers)
    assert len(found.outliers) * 2 <= len(times)


@pytest.mark.both_stores
async def test_what_waits_after_an_outlier_is_settled_in_the_next_release(control: Control) -> None:
    """And nothing else: not after a major release while an older one is maintained, and not what was resolved later."""
    hour = timedelta(hours=1)
    waits: dict[str, Any] = {"status": "resolved", "resolved_at": NOW + hour}
    outlier = await new_issue(control, 1, resolved_after_release="999.9.9", **waits)
    since = await new_issue(control, 2, status="resolved", resolved_after_release="999.9.9", resolved_at=NOW + 2 * hour)
    await seen(control, dict.fromkeys(["1.4.0", "1.5.0", "999.9.9"], NOW))
    project_id = control.acme.project.id

    async def settle(version: str, at: datetime) -> int:
        await seen(control, {version: at})
        async with control.checks.database.write() as connection:
            return await settle_next_release(connection, project_id, [version], NOW)

    assert await settle("1.4.9", NOW + 2 * hour) == 0, "it is no later than 1.5.0"
    assert await settle("1.5.0", NOW + 2 * hour) == 0, "it was there before"
    assert await settle("1.6.0", NOW + 2 * hour) == 1
    rows = [await issue(control, one) for one in (outlier, since)]
    assert [(row.resolved_in_release, row.resolved_after_release) for row in rows] == [
        ("1.6.0", None),
        (None, "999.9.9"),
    ]
    assert await settle("1.7.0", NOW + 3 * hour) == 1
    other = await new_issue(control, 3, resolved_after_release="2.0.0", **waits)
    await seen(control, {"2.0.0": NOW})
    assert await settle("1.8.0", NOW + 2 * hour) == 0
    assert (await issue(control, other)).resolved_after_release == "2.0.0"
