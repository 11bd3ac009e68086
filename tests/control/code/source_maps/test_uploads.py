"""Source maps are uploaded once per release and path, make room for newer ones, and end with their project."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from chassis.auth.tables import projects
from chassis.http.body import read_body
from chassis.source_maps.store import source_maps
from control.code.source_maps import parser_process, store
from tests.control.code.source_maps.uploaded import MAPS, RELEASE, digest_of, document, upload
from tests.control.conftest import Control
from tests.control.governance.erasures.conftest import purge

MAX_BYTES = 300  # room for some of the tests' maps
DEBUG_ID = "85314830-023f-4cf1-a267-535f4e37bb17"

pytestmark = pytest.mark.control_settings(source_map_max_bytes=MAX_BYTES)
here = pytest.mark.usefixtures("read_here")


async def listed(control: Control, **query: str) -> Any:
    status, page, _ = await control.call("GET", MAPS, params=query)
    assert (status, page["nextCursor"], page["hasMore"]) == (200, None, False)
    return page["data"]


async def audit(control: Control) -> list[tuple[str, str, Any]]:
    _, page, _ = await control.call("GET", "/orgs/acme/audit", params={"action": "source_map.", "limit": "100"})
    return [(one["action"], one["objectId"], one["data"]) for one in reversed(page["data"])]


async def stored(control: Control) -> list[tuple[str, bytes]]:
    async with control.checks.database.read() as connection:
        rows = await connection.execute(sa.select(source_maps.c.path, source_maps.c.content).order_by(source_maps.c.id))
        return [(row.path, row.content) for row in rows]


async def revision(control: Control) -> int:
    async with control.checks.database.read() as connection:
        found = sa.select(projects.c.source_maps_revision).where(projects.c.id == control.acme.project.id)
        return int(await connection.scalar(found) or 0)


@here
@pytest.mark.both_stores
async def test_a_map_is_stored_once_and_replaced(control: Control) -> None:
    sent = document(debugId=DEBUG_ID.upper())
    status, first = await upload(control, sent, url="~/assets/a.js?v=1")
    assert (status, first) == (
        201,
        {
            "id": first["id"],
            "release": RELEASE,
            "path": "/assets/a.js",
            "debugId": DEBUG_ID,
            "digest": digest_of(sent),
            "bytes": first["bytes"],
            "createdBy": control.acme.owner_id,
            "createdAt": first["createdAt"],
            "removedReleases": [],
        },
    )
    assert await upload(control, sent, url="/assets/a.js") == (200, first)
    assert await revision(control) == 1
    status, second = await upload(control, document("../src/other.ts"), url="/assets/a.js")
    assert (status, second["debugId"], second["id"] > first["id"]) == (201, None, True)
    assert await revision(control) == 2
    del second["removedReleases"]
    assert await listed(control) == await listed(control, release=RELEASE) == [second]
    assert await listed(control, release="web@1.4.1") == []
    about = {"projectSlug": "web", "release": RELEASE, "path": "/assets/a.js"}
    assert await audit(control) == [
        ("source_map.upload", one["id"], about | {"digest": one["digest"]}) for one in (first, second)
    ]
    assert (await control.call("DELETE", f"{MAPS}/{second['id']}"))[0] == 204
    assert (await control.call("DELETE", f"{MAPS}/{second['id']}"))[0] == 404
    assert (await listed(control), await revision(control)) == ([], 3)
    assert (await audit(control))[-1] == ("source_map.delete", second["id"], about | {"digest": second["digest"]})


async def test_the_text_of_the_sources_is_not_stored(
    control: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And files of the working directory are not run."""
    (tmp_path / "resource.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert (await upload(control, document()))[0] == 201
    ((path, content),) = await stored(control)
    raw = zlib.decompress(content)
    assert (path, b"4711" in raw, b"cart.ts" in raw) == ("/a.js", False, True)


async def test_what_a_map_is_of_is_checked(control: Control) -> None:
    for query, path, message in (
        ({"release": ""}, "query.release", "Must have at least 1 character."),
        ({"release": "x" * 201}, "query.release", "Must have at most 200 characters."),
        ({"release": "a\nb"}, "query.release", "Must consist of printable characters."),
        ({"url": ""}, "query.url", "Must have at least 1 character."),
        ({"url": "https://shop.example"}, "query.url", "Must be the URL or the path of a file, in visible ASCII."),
        ({"url": "/é.js"}, "query.url", "Must be the URL or the path of a file, in visible ASCII."),
        ({"url": "/a/../a.js"}, "query.url", "Must not have segments `.` or `..`."),
        ({"url": "/" + "x" * 1_024}, "query.url", "Must have at most 1024 characters."),
    ):
        status, body = await upload(control, document(), **query)
        assert (status, [(one["path"], one["message"]) for one in body["error"]["details"]]) == (400, [(path, message)])
    status, body, _ = await control.call("POST", MAPS, document())
    found = [(one["path"], one["code"]) for one in body["error"]["details"]]
    assert (status, found) == (400, [("query.release", "missing"), ("query.url", "missing")])
    status, body, _ = await control.call("POST", MAPS, document(), headers={"Content-Type": "text/plain"})
    assert status == 415, "which comes before the parameters"


@here
async def test_a_map_that_is_none_is_refused_with_its_fault(control: Control) -> None:
    status, body = await upload(control, document(mappings="CAAA,DAAA"))
    assert (status, body["error"]["message"], body["error"]["details"]) == (
        400,
        "The source map is not valid.",
        [
            {
                "path": "body",
                "message": "The segments of the source map are not in the order of their columns.",
                "code": "invalid",
            }
        ],
    )
    sent = msgspec.json.encode(document(names=[f"{number:x}" for number in range(1_000_001)]))
    headers = {"Authorization": f"Bearer {control.acme.token.secret}", "Content-Type": "application/json"}
    query = {"release": RELEASE, "url": "/a.js"}
    async with control.client.post(MAPS, data=BytesIO(sent), headers=headers, params=query) as answer:
        details = (await answer.json())["error"]["details"]
        assert (answer.status, details[0]["message"]) == (
            400,
            "The source map has more than 100000 sources or 1000000 names.",
        )


async def test_a_limit_that_ends_the_process_refuses_the_map(
    control: Control, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    message = (
        f"Reading the source map takes more than {parser_process.MAX_PROCESS_BYTES // 2**20} MiB or "
        f"{parser_process.MAX_CPU_S} s."
    )
    for ending in ("kill -XCPU $$", f"exit {parser_process.OUT_OF_MEMORY}"):
        monkeypatch.setattr("control.code.source_maps.parser_process.sys.executable", script(tmp_path, ending))
        status, body = await upload(control, document())
        assert (status, body["error"]["details"][0]["message"]) == (400, message)


async def test_a_process_that_fails_by_itself_is_no_fault_of_the_map(
    control: Control, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        for executable in (script(tmp_path, "echo no module >&2; exit 1"), "/no/such/program"):
            patched.setattr("control.code.source_maps.parser_process.sys.executable", executable)
            with capture_logs() as lines:
                status, body = await upload(control, document())
            assert (status, body["error"]["message"]) == (503, "The source map cannot be read now. Retry later.")
            failures = [(one["returncode"], one["stderr"]) for one in lines if "reads source maps" in one["event"]]
            assert failures == ([] if executable.startswith("/no") else [(1, "no module\n")])
    assert (await upload(control, document()))[0] == 201


def script(folder: Path, line: str) -> str:
    file = folder / "python"
    file.write_text(f"#!/bin/sh\n{line}\n")
    file.chmod(0o755)
    return str(file)


@here
async def test_the_oldest_releases_make_room(control: Control) -> None:
    sent = {version: document(f"../src/{version}.ts") for version in ("1", "2", "3", "4", "5", "6")}
    removed: list[str] = []
    for version, one in sent.items():
        status, body = await upload(control, one, release=version)
        assert status == 201
        removed += body["removedReleases"]
    left = await listed(control)
    assert removed
    assert removed + [one["release"] for one in reversed(left)] == list(sent)
    assert sum(one["bytes"] for one in left) <= MAX_BYTES
    assert [data.get("removedReleases", []) for _, _, data in await audit(control)].count([removed[0]]) == 1
    async with control.checks.database.read() as connection:
        size = await connection.scalar(sa.select(sa.func.sum(source_maps.c.size)))
        length = await connection.scalar(sa.select(sa.func.sum(sa.func.length(source_maps.c.content))))
    assert size == length


@here
async def test_a_release_that_is_too_large_alone_is_refused(control: Control) -> None:
    answers = [await upload(control, document(), url=f"/{name}.js") for name in "abcdef"]
    status, body = answers[-1]
    message = "The compressed source maps of the release would be larger than 300 bytes. Delete source maps of this "
    message += "release, or ask the operator to raise the limit."
    assert (answers[0][0], status, body["error"]["message"]) == (201, 409, message)


@here
async def test_a_release_that_alone_has_too_many_is_refused(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_MAPS", 2)
    for name in ("a", "b"):
        assert (await upload(control, document(), url=f"/{name}.js"))[0] == 201
    before = await listed(control)
    status, body = await upload(control, document(), url="/c.js")
    message = "The release would have more than 2 source maps. Delete source maps of this release."
    assert (status, body["error"]["code"], body["error"]["message"]) == (409, "conflict", message)
    assert await listed(control) == before
    status, body = await upload(control, document("../src/b.ts"), url="/b.js")
    assert (status, body["removedReleases"]) == (201, []), "it replaces one"
    status, body = await upload(control, document(), release="2.0.0")
    assert (status, body["removedReleases"]) == (201, [RELEASE])


@here
@pytest.mark.both_stores
async def test_maps_go_with_their_project_and_their_organization(control: Control) -> None:
    assert (await upload(control, document()))[0] == 201
    theirs, owner = MAPS.replace("acme", "globex"), control.globex.token.secret
    assert (await upload(control, document(), owner, theirs))[0] == 201
    assert (await control.call("DELETE", "/orgs/acme/projects/web"))[0] == 202
    assert (await control.call("GET", MAPS))[0] == 404
    await purge(control.checks.database)
    assert len(await stored(control)) == 1
    assert (await control.call("DELETE", "/orgs/globex?confirm=globex", token=owner))[0] == 202
    await purge(control.checks.database)
    assert await stored(control) == []


def test_the_process_answers_with_the_fault_or_the_map() -> None:
    """What `python -m control.code.source_maps.parser_process` writes."""
    fault = msgspec.msgpack.decode(parser_process.read_upload(b"{}"))
    assert fault == [b"", None, "`version` is missing."]
    content, debug_id, said = msgspec.msgpack.decode(parser_process.read_upload(msgspec.json.encode(document())))
    assert (len(content) > 50, debug_id, said) == (True, None, "")


@here
async def test_an_upload_waits_and_takes_a_bounded_time(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.code.source_maps.api.MAX_WAIT_S", 0.05)
    monkeypatch.setattr("control.code.source_maps.api.MAX_BODY_S", 0.5)
    began = asyncio.Event()

    async def unfinished() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async def read(*arguments: Any, **options: Any) -> bytes:
        began.set()  # it has its place
        return await read_body(*arguments, **options)

    monkeypatch.setattr("control.code.source_maps.api.read_body", read)
    headers = {"Authorization": f"Bearer {control.acme.token.secret}", "Content-Type": "application/json"}
    query = {"release": RELEASE, "url": "/a.js"}
    first = asyncio.ensure_future(control.client.post(MAPS, data=unfinished(), headers=headers, params=query))
    await began.wait()
    status, body, answered = await control.call("POST", MAPS, document(), params=query)
    message = "Other source maps are being uploaded. Retry later."
    assert (status, body["error"]["message"], answered["Retry-After"]) == (503, message, "10")
    theirs = MAPS.replace("acme", "globex")
    assert (await upload(control, document(), control.globex.token.secret, theirs))[0] == 201
    async with await first as answer:
        assert (answer.status, (await answer.json())["error"]["message"]) == (503, "The body was not received in time.")
    assert (await upload(control, document()))[0] == 201


@pytest.fixture
def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """One upload at a time, of all organizations."""
    monkeypatch.setattr("control.code.source_maps.api.MAX_RECEIVING", 1)


async def test_a_slow_client_loses_its_place_to_one_that_waits(
    one_place: None, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.code.source_maps.api.MAX_WAIT_S", 5.0)  # less than a stalled body may take
    monkeypatch.setattr("control.code.source_maps.api.MAX_PAUSE_S", 0.05)
    began, slow_path = asyncio.Event(), MAPS.replace("acme", "globex")

    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async def read(*arguments: Any, **options: Any) -> bytes:
        began.set()  # it has its place
        return await read_body(*arguments, **options)

    monkeypatch.setattr("control.code.source_maps.api.read_body", read)
    headers = {"Authorization": f"Bearer {control.globex.token.secret}", "Content-Type": "application/json"}
    query = {"release": RELEASE, "url": "/a.js"}
    slow = asyncio.ensure_future(control.client.post(slow_path, data=stalled(), headers=headers, params=query))
    await began.wait()
    assert (await upload(control, document()))[0] == 201
    async with await slow as answer:
        assert (answer.status, (await answer.json())["error"]["message"]) == (503, "The body was not received in time.")


async def test_files_of_the_working_directory_are_not_run(
    control: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resource.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert (await upload(control, document()))[0] == 201
