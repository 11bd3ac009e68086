"""Stack traces are resolved with the maps of their project and release, whatever the database does."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from chassis.db.database import Database
from chassis.source_maps.resolver import LOOK_UP_S, REFRESH_S, RETRY_S, SourceMaps
from chassis.source_maps.store import source_maps
from tests.control.code.source_maps.uploaded import MAPS, MINIFIED, RELEASE, SHOWN, document, upload
from tests.control.conftest import Control

pytestmark = pytest.mark.usefixtures("read_here")


class Maps:
    """Maps over the database of the service, with a clock that stands; `registry` has the counts of failures."""

    def __init__(self, database: Database, **options: Any) -> None:
        self.seconds = 1_000.0
        self.registry = CollectorRegistry()
        self.maps = SourceMaps(database, self.registry, clock=lambda: self.seconds, **options)

    def failures(self) -> dict[str, float]:
        (metric,) = self.registry.collect()
        return {one.labels["reason"]: one.value for one in metric.samples if one.name.endswith("_total")}


@pytest.fixture
async def maps(control: Control) -> Maps:
    assert (await upload(control, document()))[0] == 201
    maps = Maps(control.checks.database)
    await maps.maps.refresh()
    return maps


async def test_frames_are_those_of_the_release(control: Control, maps: Maps) -> None:
    project = control.acme.project.id
    assert await maps.maps.resolve(project, RELEASE, MINIFIED) == SHOWN
    for release in ("web@1.4.1", ""):
        assert await maps.maps.resolve(project, release, MINIFIED) is None
    assert await maps.maps.resolve(project, RELEASE, MINIFIED.replace("a.js", "b.js")) is None
    assert await maps.maps.resolve(control.globex.project.id, RELEASE, MINIFIED) is None
    assert maps.failures() == {}


async def test_a_change_counts_after_the_next_refresh(control: Control, maps: Maps) -> None:
    project = control.acme.project.id
    assert await maps.maps.resolve(project, RELEASE, MINIFIED) == SHOWN
    assert (await upload(control, document("../src/new.ts")))[0] == 201
    assert await maps.maps.resolve(project, RELEASE, MINIFIED) == SHOWN
    await maps.maps.refresh()
    assert await maps.maps.resolve(project, RELEASE, MINIFIED) == SHOWN.replace("cart", "new")
    (listed,) = (await control.call("GET", MAPS))[1]["data"]
    assert (await control.call("DELETE", f"{MAPS}/{listed['id']}"))[0] == 204
    await maps.maps.refresh()
    assert await maps.maps.resolve(project, RELEASE, MINIFIED) is None
    assert (await control.call("DELETE", "/orgs/acme/projects/web"))[0] == 202
    await maps.maps.refresh()
    assert maps.maps.of_project(project, 0.0) is None


async def test_what_is_loaded_needs_no_database(control: Control, maps: Maps) -> None:
    """And the rest stays as it is, without asking the database for each frame."""
    project = control.acme.project.id
    assert (await upload(control, document(), url="/b.js"))[0] == 201
    await maps.maps.refresh()
    assert await maps.maps.resolve(project, RELEASE, MINIFIED) == SHOWN
    await control.checks.database.close()
    both = f"{MINIFIED}\n    at t (https://shop.example/b.js:1:21)\n    at t (https://shop.example/b.js:1:22)"
    expected = both.replace(MINIFIED, SHOWN)
    with capture_logs() as lines:
        assert await maps.maps.resolve(project, RELEASE, both) == expected
    event = "reading source maps from the relational database failed, stack traces are not resolved for 5 s"
    assert [(one["event"], one["project_id"]) for one in lines] == [(event, project)]
    assert maps.failures() == {"database": 2}
    await control.checks.database.start()
    assert await maps.maps.resolve(project, RELEASE, both) == expected
    assert maps.failures() == {"database": 4}, "it is not asked again at once"
    maps.seconds += RETRY_S
    resolved = await maps.maps.resolve(project, RELEASE, both)
    assert resolved == SHOWN + "\n    at addLine (src/cart.ts:11:1)" * 2


async def test_a_damaged_map_resolves_nothing(control: Control, maps: Maps) -> None:
    async with control.checks.database.write() as connection:
        await connection.execute(source_maps.update().values(content=b"no map"))
        (stored,) = (await connection.execute(sa.select(source_maps.c.id))).scalars()
    project = control.acme.project.id
    with capture_logs() as lines:
        for _ in range(2):
            assert await maps.maps.resolve(project, RELEASE, MINIFIED) is None
    (line,) = lines
    found = line["event"], line["source_map_id"], line["project_id"]
    assert found == ("source map is damaged; upload it again", stored, project)
    assert maps.failures() == {"damaged": 1}


async def test_maps_in_memory_are_bounded(control: Control) -> None:
    for name in "abc":
        assert (await upload(control, document(), url=f"/{name}.js"))[0] == 201
    maps = Maps(control.checks.database, max_bytes=1)
    await maps.maps.refresh()
    asked: list[str] = []
    read = maps.maps._read_content

    async def counted(source_map_id: str) -> bytes | None:
        asked.append(source_map_id)
        return await read(source_map_id)

    maps.maps._read_content = counted  # type: ignore[method-assign]
    trace = "\n".join(
        f"    at t (https://shop.example/{name}.js:1:{column})"
        for name, column in zip("aabbccaa", (21, 22, 21, 22, 21, 22, 23, 21), strict=True)
    )
    resolved = await maps.maps.resolve(control.acme.project.id, RELEASE, trace)
    assert resolved == "\n".join(["    at addLine (src/cart.ts:11:1)"] * 8)
    assert [asked.index(one) for one in asked] == [0, 1, 2, 0]


async def test_a_caller_reads_until_its_deadline(control: Control, maps: Maps) -> None:
    """What is in memory is resolved later, too: an error has one fingerprint however many there are."""
    project = maps.maps.of_project(control.acme.project.id, maps.seconds)
    assert project is not None
    assert await asyncio.to_thread(project.resolve, RELEASE, MINIFIED) == MINIFIED
    assert maps.failures() == {"timeout": 2}
    assert await maps.maps.resolve(control.acme.project.id, RELEASE, MINIFIED) == SHOWN
    assert await asyncio.to_thread(project.resolve, RELEASE, f"{MINIFIED}\n") == f"{SHOWN}\n"
    assert maps.failures() == {"timeout": 2}


async def test_a_caller_whose_time_is_over_holds_up_no_other(control: Control, maps: Maps) -> None:
    asked: list[int] = []
    read = maps.maps._read_index

    async def first_hangs(project_id: int) -> dict[tuple[str, str], str]:
        asked.append(project_id)
        if len(asked) == 1:
            await asyncio.Event().wait()
        return await read(project_id)

    maps.maps._read_index = first_hangs  # type: ignore[method-assign]
    project = maps.maps.of_project(control.acme.project.id, maps.seconds + 0.01)
    assert project is not None
    assert await asyncio.to_thread(project.resolve, RELEASE, MINIFIED.rpartition("\n")[0]) in MINIFIED
    assert maps.failures() == {"timeout": 1}
    assert await maps.maps.resolve(control.acme.project.id, RELEASE, MINIFIED) == SHOWN


async def test_a_database_that_hangs_is_left_alone_for_some_seconds(control: Control) -> None:
    assert (await upload(control, document()))[0] == 201
    maps = Maps(control.checks.database, timeout_s=0.01)
    await maps.maps.refresh()
    asked: list[int] = []

    async def hangs(project_id: int) -> dict[tuple[str, str], str]:
        asked.append(project_id)
        await asyncio.Event().wait()
        return {}

    maps.maps._read_index = hangs  # type: ignore[method-assign]
    for after, expected in ((0.0, 1), (0.0, 1), (RETRY_S, 2)):
        maps.seconds += after
        assert await maps.maps.resolve(control.acme.project.id, RELEASE, MINIFIED) is None
        assert len(asked) == expected


async def test_work_is_bounded_by_project(control: Control) -> None:
    """Frames in memory cost nothing, and other projects have their own allowance."""
    theirs = MAPS.replace("acme", "globex")
    assert (await upload(control, document()))[0] == 201
    assert (await upload(control, document(), control.globex.token.secret, theirs))[0] == 201
    maps = Maps(control.checks.database, burst_s=1.5 * LOOK_UP_S)
    await maps.maps.refresh()
    frames = [f"    at t (https://shop.example/a.js:1:{column})" for column in range(21, 25)]
    shown = "    at addLine (src/cart.ts:11:1)"
    for project_id in (control.acme.project.id, control.globex.project.id):
        for _ in range(2):
            resolved = await maps.maps.resolve(project_id, RELEASE, "\n".join(frames))
            assert resolved == "\n".join([shown] * 2 + frames[2:])
    assert maps.failures() == {"allowance": 8}
    maps.seconds += 1
    resolved = await maps.maps.resolve(control.acme.project.id, RELEASE, "\n".join(frames))
    assert resolved == "\n".join([shown] * 4)


async def test_the_revisions_are_refreshed_while_it_runs(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """What starts next knows the maps at once."""
    monkeypatch.setattr("chassis.runtime.periodic.FIRST_RUN_DELAY_S", 0.0)
    assert REFRESH_S <= 5
    monkeypatch.setattr("chassis.source_maps.resolver.REFRESH_S", 0.05)
    early, project = Maps(control.checks.database, timeout_s=30), control.acme.project.id
    running = early.maps.running()
    await anext(running)
    assert (await upload(control, document()))[0] == 201
    async with asyncio.timeout(10):
        while await early.maps.resolve(project, RELEASE, MINIFIED) is None:
            await asyncio.sleep(0.01)
    late = Maps(control.checks.database, timeout_s=30)
    starting = late.maps.running()
    await anext(starting)
    assert await late.maps.resolve(project, RELEASE, MINIFIED) == SHOWN
    for ending in (running, starting):
        assert [one async for one in ending] == []


async def test_it_starts_without_the_database(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it hangs or is away. What is not known yet is counted as a failure."""
    assert (await upload(control, document()))[0] == 201
    project = control.acme.project.id
    for hangs in (True, False):
        maps = Maps(control.checks.database, timeout_s=0.05)
        with monkeypatch.context() as patched:
            if hangs:
                patched.setattr(maps.maps, "refresh", asyncio.Event().wait)
            else:
                await control.checks.database.close()
            running = maps.maps.running()
            await anext(running)
        assert await maps.maps.resolve(project, RELEASE, MINIFIED) is None
        assert maps.failures() == {"database": 1}
        assert [one async for one in running] == []
        if not hangs:
            await control.checks.database.start()
        await maps.maps.refresh()
        assert maps.maps.of_project(project, 0.0) is not None
