"""The socket over which a serving process gives snapshots, with snapshots that cost nothing."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from sluice.backup import client
from sluice.backup.client import Alive, Begin, Done, Failed, Held, Taken, connected
from sluice.backup.manifest import BackupFailed, Record, Snapshot, Tree
from sluice.backup.server import BUSY, BackupServer, SnapshotTaker
from tests.gateway.conftest import eventually

RECORD = Record(
    directory="/backups/x",
    moment="2026-11-23T04:01:02.123456Z",
    completed="2026-11-23T04:01:05Z",
    completed_s=1_795_406_465.0,
    files=3,
    linked_files=1,
    bytes=30,
    copied_bytes=20,
    held_s=0.002,
    seconds=3.0,
)


class Taker(SnapshotTaker):
    """Takes snapshots of nothing."""

    def __init__(self) -> None:
        self.there = 0
        self.removed = 0
        self.error: Exception | None = None
        self.low = False

    @property
    def is_disk_low(self) -> bool:
        return self.low

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[Snapshot]:
        if self.error is not None:
            raise self.error
        self.there += 1
        try:
            yield Snapshot(
                moment_ns=1,
                held_s=0.002,
                durability="journal",
                release="0",
                engine="0",
                clickhouse_schema=1,
                database_revision="1",
                trees=[Tree("", "/nowhere")],
                lengths={},
            )
        finally:
            self.there -= 1

    async def remove(self) -> None:
        self.removed += 1


class Rig:
    """A server, and connections to it."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.taker, self.registry = directory, Taker(), CollectorRegistry()
        self.server = BackupServer(directory, self.taker, self.registry)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(str(self.directory / client.SOCKET))

    def metric(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"sluice_backup_{name}")


async def ask(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: client.Request) -> client.Reply:
    reader, writer = connection
    writer.write(client.encode(request))
    async with asyncio.timeout(20):
        return client.decode_reply(await reader.readline())


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path)
    async with asynccontextmanager(rig.server.running)():
        yield rig
    assert not (tmp_path / client.SOCKET).exists()


async def test_a_snapshot_is_there_until_the_command_is_done(rig: Rig) -> None:
    assert rig.taker.removed == 1  # of a process that was killed
    connection = await rig.connect()
    assert isinstance(await ask(connection, Begin("x")), Taken)
    assert isinstance(await ask(connection, Alive()), Held)
    assert rig.taker.there == 1
    assert isinstance(await ask(connection, Done(RECORD)), Held)
    await eventually(lambda: rig.taker.there == 0)
    connection[1].close()
    assert rig.metric("last_success_timestamp_seconds") == RECORD.completed_s
    assert rig.metric("insert_hold_seconds") == 0.002
    assert rig.metric("failures_total") == 0


async def test_it_is_removed_when_the_command_ends_or_says_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = await rig.connect()
    await ask(connection, Begin("x"))
    connection[1].close()
    await eventually(lambda: rig.taker.there == 0)
    monkeypatch.setattr(client, "SILENCE_S", 0.05)
    silent = await rig.connect()
    await ask(silent, Begin("x"))
    await eventually(lambda: rig.taker.there == 0)
    assert await silent[0].read() == b""
    silent[1].close()
    assert rig.metric("failures_total") == 2
    assert rig.metric("last_success_timestamp_seconds") == 0


async def test_a_nearly_full_disk_ends_it(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ALIVE_S", 0.01)

    def copy() -> None:
        with connected(rig.directory) as connection:
            connection.begin(Path("x"))
            rig.taker.low = True
            begun.set()
            lost.wait(20)
            with pytest.raises(BackupFailed, match="is nearly full"):
                connection.confirm()

    begun, lost = threading.Event(), threading.Event()
    copying = asyncio.create_task(asyncio.to_thread(copy))
    assert await asyncio.to_thread(begun.wait, 20)
    await eventually(lambda: rig.taker.there == 0)
    lost.set()
    await copying


async def test_one_at_a_time_and_a_failure_is_told(rig: Rig) -> None:
    first, second = await rig.connect(), await rig.connect()
    await ask(first, Begin("x"))
    assert await ask(second, Begin("x")) == Failed(BUSY)
    first[1].close()
    await eventually(lambda: rig.taker.there == 0)
    rig.taker.error = BackupFailed("No backup was made: no.")
    third = await rig.connect()
    assert await ask(third, Begin("x")) == Failed("No backup was made: no.")
    rig.taker.error = None
    fourth = await rig.connect()
    assert isinstance(await ask(fourth, Begin("x")), Taken)
    for _, writer in (second, third, fourth):
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"\n", b"nonsense\n", client.encode(Alive()), b"x" * (2**24 + 100)])
async def test_what_is_no_request_ends_the_connection_alone(rig: Rig, sent: bytes) -> None:
    reader, writer = await rig.connect()
    try:
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(20):
            assert await reader.read() == b""
    except ConnectionError:
        pass  # it has not read all of it
    writer.close()
    connection = await rig.connect()
    assert isinstance(await ask(connection, Begin("x")), Taken)
    connection[1].close()


async def test_where_there_can_be_no_socket_the_service_runs_without(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    (tmp_path / client.SOCKET).mkdir()
    async with asynccontextmanager(rig.server.running)():
        with pytest.raises(BackupFailed, match="takes no backups"), connected(tmp_path):
            pytest.fail("connected to nobody")


async def test_another_user_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.backup.server.ROOT", -1)
    monkeypatch.setattr(os, "geteuid", lambda: 4_294)
    reader, writer = await rig.connect()
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()
    assert rig.taker.there == 0


async def test_the_command_keeps_it_alive_and_notices_when_it_is_lost(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ALIVE_S", 0.01)
    monkeypatch.setattr(client, "SILENCE_S", 2.0)

    go_on = threading.Event()

    def copy() -> None:
        with connected(rig.directory) as connection:
            assert connection.begin(Path("x")).moment_ns == 1
            connection.confirm()
            go_on.wait()
            with pytest.raises(BackupFailed, match="was lost"):
                connection.confirm()

    copying = asyncio.create_task(asyncio.to_thread(copy))
    await eventually(lambda: rig.taker.there == 1)
    for task in list(rig.server._connections):
        task.cancel()
    await eventually(lambda: rig.taker.there == 0)
    go_on.set()
    await copying


def test_without_a_server_it_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BackupFailed, match="takes no backups"), connected(tmp_path):
        pytest.fail("connected to nobody")
