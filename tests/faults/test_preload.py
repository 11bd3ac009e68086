"""The layer itself: it sees what Python and the event loop do, and a power cut takes what was not synced."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.faults.preload import Layer, Rule

OPENED = "import os; f = os.open(PATH, os.O_RDWR | os.O_CREAT, 0o600); d = os.open(FOLDER, os.O_RDONLY); "
MADE = OPENED + "os.write(f, b'old' * 4000); os.fsync(f); os.fsync(d); "


class Machine:
    """A directory, and programs that run in it under the layer."""

    def __init__(self, directory: Path) -> None:
        self.folder = directory / "files"
        self.folder.mkdir()
        self.file = self.folder / "file"
        self.layer = Layer(directory / "layer")

    def run(self, code: str, rules: Iterable[Rule] = ()) -> subprocess.CompletedProcess[str]:
        """A program to whom PATH and FOLDER are given; however it ends."""
        environment = self.layer.environment(rules, shadow=f"{self.folder}*")
        return subprocess.run(
            [sys.executable, "-c", f"PATH, FOLDER = {str(self.file)!r}, {str(self.folder)!r}\n{code}"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def contents(self, names: Iterable[str]) -> dict[str, bytes]:
        return {name: (self.folder / name).read_bytes() for name in names}

    def cut(self, chance: random.Random | None = None) -> None:
        self.layer.power_cut(chance)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


WRITES = {
    "write": "os.write(f, b'new')",
    "writev": "os.writev(f, [b'n', b'ew'])",
    "pwrite": "os.pwrite(f, b'new', 5)",
    "pwritev": "os.pwritev(f, [b'n', b'ew'], 5)",
    "appended": "g = os.open(PATH, os.O_WRONLY | os.O_APPEND); os.write(g, b'new')",
    "truncated": "os.ftruncate(f, 3)",
    "opened-empty": "os.open(PATH, os.O_RDWR | os.O_TRUNC)",
    "allocated": "os.posix_fallocate(f, 0, 100_000)",
    "buffered": "g = open(PATH, 'r+b'); g.write(b'new'); g.flush()",
    "copied": "import shutil; open(PATH + '2', 'wb').write(b'x' * 9000); shutil.copyfile(PATH + '2', PATH)",
}


def written(sync: str = "pass") -> str:
    """A program that writes a file in each of these ways."""
    each = (f"PATH = FOLDER + '/{how}'; {MADE}{code}; {sync}" for how, code in WRITES.items())
    return "\n".join(each)


def test_what_is_written_and_not_synced_is_lost(machine: Machine) -> None:
    done = machine.run(f"{written()}\nos.kill(os.getpid(), 9)")
    assert done.returncode == -signal.SIGKILL, done.stderr
    machine.cut()
    assert machine.contents(WRITES) == dict.fromkeys(WRITES, b"old" * 4000)


@pytest.mark.parametrize("sync", ["fsync", "fdatasync"])
def test_what_is_synced_is_kept(machine: Machine, sync: str) -> None:
    done = machine.run(written(f"os.{sync}(f)"))
    assert done.returncode == 0, done.stderr
    wanted = machine.contents(WRITES)
    machine.cut()
    assert machine.contents(WRITES) == wanted
    assert b"old" * 4000 not in wanted.values()


NAMES = {
    "created": ("open(PATH + '2', 'w').close()", ["file"], ["file", "file2"]),
    "renamed": ("os.rename(PATH, PATH + '2')", ["file"], ["file2"]),
    "replaced": (
        "g = open(PATH + '2', 'w'); g.write('2'); g.flush(); os.fsync(g); os.rename(PATH + '2', PATH)",
        ["file"],
        ["file"],
    ),
    "removed": ("os.unlink(PATH)", ["file"], []),
    "directory": ("os.mkdir(FOLDER + '/folder')", ["file"], ["file", "folder"]),
}


def renamed(sync: str = "pass") -> str:
    """A program that does each of these in a folder of its own."""
    each = (f"FOLDER = ROOT + '/{how}'; PATH = FOLDER + '/file'; {MADE}{NAMES[how][0]}; {sync}" for how in NAMES)
    return "\n".join(["ROOT = FOLDER", *each])


def test_a_name_is_kept_once_its_directory_is_synced(machine: Machine) -> None:
    folders = [machine.folder / how for how in NAMES]
    for folder in folders:
        folder.mkdir()
    for sync, which in (("pass", 1), ("os.fsync(d)", 2)):
        done = machine.run(renamed(sync))
        assert done.returncode == 0, done.stderr
        machine.cut()
        found = {folder.name: sorted(path.name for path in folder.iterdir()) for folder in folders}
        assert found == {how: names[which] for how, names in NAMES.items()}
        if which == 1:
            assert {(folder / "file").read_bytes() for folder in folders} == {b"old" * 4000}


def test_pages_are_kept_by_chance_and_the_same_ones_by_the_same_seed(machine: Machine) -> None:
    contents = []
    for seed in (1, 1, 2):
        machine.run(MADE + "os.pwrite(f, b'new' * 20_000, 0)")
        machine.cut(random.Random(seed))
        contents.append(machine.file.read_bytes())
    assert contents[0] == contents[1] != contents[2]
    for content in contents:
        assert b"new" in content
        assert b"old" in content


def test_what_a_failed_sync_was_about_is_lost_though_the_next_one_succeeds(machine: Machine) -> None:
    code = """
os.pwrite(f, b"lost", 0)
try:
    os.fdatasync(f)
except OSError as error:
    print(error.errno)
os.pwrite(f, b"kept", 8192)
os.fdatasync(f)"""
    done = machine.run(MADE + code, [Rule("EIO", "sync", "*/file", 2)])
    assert done.stdout == "5\n"
    machine.cut()
    content = machine.file.read_bytes()
    assert (content[:3], content[8192:8196]) == (b"old", b"kept")


def test_a_full_disk_writes_short_once_and_then_fails_until_there_is_space(machine: Machine) -> None:
    full = machine.folder / "full"
    code = f"""
print(os.write(f, b"x" * 100))
open({str(full)!r}, "w").close()
print(os.write(f, b"x" * 100))
for _ in range(2):
    try:
        os.write(f, b"x")
    except OSError as error:
        print(error.errno)
os.unlink({str(full)!r})
print(os.write(f, b"x" * 100))"""
    done = machine.run(OPENED + code, [Rule("full", "write", "*/file", onwards=True, only_while=full)])
    assert done.stdout.split() == ["100", "50", "28", "28", "100"]


KILLS = {
    "before-a-write": (Rule("die", "write", "*/file", 2), b"1"),
    "after-a-write": (Rule("die-after", "write", "*/file", 2), b"122"),
    "in-a-write": (Rule("tear", "write", "*/file", 2), b"12"),
    "before-a-sync": (Rule("die", "sync", "*/file"), b"122"),
    "after-a-rename": (Rule("die-after", "rename", "*/other"), b"122"),
    "before-an-unlink": (Rule("die", "unlink", "*/other"), b"122"),
}


@pytest.mark.parametrize("when", KILLS)
def test_a_process_dies_where_it_is_told_to(machine: Machine, when: str) -> None:
    rule, left = KILLS[when]
    code = "os.write(f, b'1'); os.write(f, b'22'); os.fdatasync(f); os.rename(PATH, FOLDER + '/other')"
    done = machine.run(f"{OPENED}{code}; os.unlink(FOLDER + '/other')", [rule])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert next(machine.folder.iterdir()).read_bytes() == left


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(("call", "sent"), [("send", b""), ("recv", b"ping")])
async def test_a_process_dies_at_its_connection(machine: Machine, loop: str, call: str, sent: bytes) -> None:
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.read(100))
        writer.write(b"pong")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    code = f"""
import asyncio, uvloop
async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", {port})
    writer.write(b"ping")
    print(await reader.read(100), flush=True)
with asyncio.Runner(loop_factory=uvloop.new_event_loop if {loop == "uvloop"} else None) as runner:
    runner.run(main())"""
    rule = Rule("die", "send" if call == "send" else "recv", f"tcp:*>{port}")
    done = await asyncio.to_thread(machine.run, code, [rule])
    server.close()
    await server.wait_closed()
    assert (done.returncode, done.stdout, bytes(received)) == (-signal.SIGKILL, "", sent)


def test_the_clock_can_be_wrong(machine: Machine) -> None:
    machine.layer.set_clock(-(10**18))
    code = "import time, datetime as d; print(time.time_ns() < 10**18, d.datetime.now().year < 2000)"
    assert machine.run(code).stdout == "True True\n"
    machine.layer.set_clock(0)
    assert machine.run(code).stdout == "False False\n"


def test_a_rule_that_cannot_be_read_ends_the_process(machine: Machine) -> None:
    done = machine.run("open(PATH, 'w')", [Rule("die", "nothing", "*")])  # type: ignore[arg-type]
    assert (done.returncode, "cannot read the rule" in done.stderr) == (99, True)


def test_a_fork_has_rules_and_a_clock_of_its_own(machine: Machine, tmp_path: Path) -> None:
    """As those of the zygote have, which are told what to be once they are made."""
    other = Layer(tmp_path / "other")
    other.set_clock(-(10**18))
    told = other.environment([Rule("die", "write", "*/file")])
    code = f"""
import os, time
if not os.fork():
    os.environ.update({told!r})
    assert time.time_ns() < 10**18
    os.write(os.open(PATH, os.O_WRONLY | os.O_CREAT), b"x")
print(os.wait()[1], time.time_ns() < 10**18)"""
    done = machine.run(code)
    assert done.stdout == "9 False\n", done.stderr
