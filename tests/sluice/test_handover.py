"""Who has the path at which listening sockets are handed on, whatever becomes of those who had it."""

import asyncio
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chassis.errors import StartupError
from chassis.http.serve import bind
from sluice import handover

from .conftest import DEADLINE_S


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with bind("127.0.0.1", 0, reuse_port=True) as bound:
        bound.listen()
        yield bound


def path_of(directory: Path, listener: socket.socket) -> Path:
    return directory / f"listeners-{listener.getsockname()[1]}"


def inode(listener: socket.socket) -> int:
    return os.fstat(listener.fileno()).st_ino


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def gets(directory: Path, listener: socket.socket) -> list[int]:
    """The sockets, by inode, that one gets who begins now."""
    with bind(*listener.getsockname(), reuse_port=True) as bound:
        found = handover.take_over_sockets(directory, bound, "control")
    numbers = [inode(each) for each in found]
    for each in found:
        each.close()
    return numbers


def vanishes(path: Path) -> None:
    path.unlink()


def dies(path: Path) -> None:
    """As one that took the path and was killed: its socket is there and nobody behind it."""
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()


def becomes_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.parametrize("lost", [vanishes, dies, becomes_a_link])
def test_sockets_are_offered_again_when_the_path_is_lost(
    lost: Callable[[Path], None], listener: socket.socket, tmp_path: Path
) -> None:
    path = path_of(tmp_path, listener)
    (tmp_path / f"{path.name}.new").touch()  # of one that was killed

    async def run() -> None:
        with handover.offer_sockets(tmp_path, [listener], "control"):
            assert stat.filemode(path.lstat().st_mode) == "srw-------"
            opened = descriptors()
            for _ in range(2):
                lost(path)
                assert await asyncio.to_thread(gets, tmp_path, listener) == [inode(listener)]
            assert descriptors() == opened

    before = os.umask(0)
    try:
        asyncio.run(run())
    finally:
        os.umask(before)
    assert list(tmp_path.glob("listeners-*")) == []


def test_a_running_supervisor_keeps_the_path_until_it_exits(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(tmp_path, listener)
    looks: list[bool] = []
    lives = handover._is_served

    def looked(path: Path) -> bool:
        looks.append(lives(path))
        return looks[-1]

    monkeypatch.setattr(handover, "_is_served", looked)
    monkeypatch.setattr(handover, "CHECK_INTERVAL_S", 0.01)

    async def run() -> None:
        with (
            bind(*listener.getsockname(), reuse_port=True) as another,
            handover.offer_sockets(tmp_path, [listener], "control"),
        ):
            before = path.lstat().st_ino
            with handover.offer_sockets(tmp_path, [listener, another], "control"):
                number = path.lstat().st_ino
                assert number != before
                async with asyncio.timeout(DEADLINE_S):
                    while len(looks) < 5:
                        await asyncio.sleep(0.01)
                assert set(looks) == {True}
                assert path.lstat().st_ino == number
                both = [inode(listener), inode(another)]
                assert await asyncio.to_thread(gets, tmp_path, listener) == both
            assert await asyncio.to_thread(gets, tmp_path, listener) == [inode(listener)]

    asyncio.run(run())


def test_a_supervisor_without_the_path_continues_and_binds_it_later(listener: socket.socket, tmp_path: Path) -> None:
    path = path_of(tmp_path, listener)
    path.mkdir()

    async def run() -> None:
        with handover.offer_sockets(tmp_path, [listener], "control"):
            path.rmdir()
            assert await asyncio.to_thread(gets, tmp_path, listener) == [inode(listener)]

    asyncio.run(run())


def test_takeover_does_not_wait_on_an_unused_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "TAKEOVER_WAIT_S", float("inf"))
    with bind("127.0.0.1", 0, reuse_port=True) as bound:
        assert handover.take_over_sockets(tmp_path, bound, "control") == []


def test_sockets_of_another_command_are_not_taken_over(listener: socket.socket, tmp_path: Path) -> None:
    """Its clients would get the answers of a service that they do not mean: an exporter drops what is answered 404."""

    async def run() -> None:
        with (
            handover.offer_sockets(tmp_path, [listener], "gateway"),
            bind(*listener.getsockname(), reuse_port=True) as bound,
            pytest.raises(StartupError, match=r"`sluice gateway`.*choose another port"),
        ):
            await asyncio.to_thread(handover.take_over_sockets, tmp_path, bound, "query")

    asyncio.run(run())
