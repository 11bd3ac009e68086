"""`sluice` as often as tests start it, without its second of imports: each is a fork of one process that has imported
what it needs. Importing our own modules does nothing else (tests/test_house.py). Not as in a start of its own: the seed
of hashes, what PYTHON... variables say, and `sys.path` are those of the process that forks.

    python -m tests.forks FD

is that process; it takes orders from the socket FD: JSON with the arguments, the environment and the directory, and
three descriptors to have for input, output and errors. It answers {"pid": ...}, and {"ended": pid, "code": ...} later.
"""

import asyncio
import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final, NoReturn

from argon2 import PasswordHasher

from tests.imports import find_docstrings_by_name

ROOT: Final = Path(__file__).parents[1]
# Not chDB: its engine has threads as soon as it is loaded.
IMPORTED: Final = (
    *("aiohttp.web", "aiosqlite", "alembic.command", "argon2", "clickhouse_connect", "cryptography.fernet"),
    *("isal.isal_zlib", "joserfc.jwt", "msgspec", "prometheus_client", "psycopg", "redis.asyncio", "structlog"),
    *("opentelemetry.exporter.otlp.proto.http._log_exporter", "opentelemetry.exporter.otlp.proto.http.trace_exporter"),
    *("opentelemetry.sdk._logs.export", "sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.ext.asyncio"),
    *("sqlalchemy.dialects.sqlite.aiosqlite", "uvloop"),
)
OURS: Final = ("proto", "chassis", "gateway", "query", "control", "sluice")
# In the environment of a command: `--workers` are forks of their supervisor instead of processes that import anew.
FORKED_WORKERS: Final = {"TEST_FORKED_WORKERS": "1"}
# Of commands that are forks: 64 MiB and a quarter of a second each are for real passwords.
CHEAP_HASHER: Final = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
_MESSAGE_BYTES: Final = 2**16
_DEADLINE_S: Final = 60.0


class Forks:
    """The process that forks, as seen from the tests."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ended: dict[int, int] = {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        optimized = ["-O"] * sys.flags.optimize
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *optimized, "-m", "tests.forks", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait(_DEADLINE_S)

    def begin(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        files: Sequence[int],
        directory: Path,
        program: str,
    ) -> int:
        """Run the program with these; its process id."""
        order = {
            "program": program,
            "arguments": [*arguments],
            "environment": dict(environment),
            "directory": str(directory),
        }
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(order).encode()], [*files])
            message: dict[str, int] | None = {}
            while message is not None and "pid" not in message:
                message = self._next(_DEADLINE_S)
            if message is None:
                raise AssertionError("the process that forks `sluice` does not answer")
            self._ended.pop(message["pid"], None)  # of an earlier one, which had the same number
            return message["pid"]

    def code(self, pid: int, timeout_s: float) -> int | None:
        """How it ended, as `subprocess` has it; None while it has not."""
        deadline = time.monotonic() + timeout_s
        while True:
            with self._lock:
                while pid not in self._ended and self._next(0.0) is not None:
                    pass
                if pid in self._ended:
                    return self._ended[pid]
            if time.monotonic() >= deadline:
                return None
            select.select([self._socket], [], [], min(0.05, max(0.0, deadline - time.monotonic())))

    def _next(self, timeout_s: float) -> dict[str, int] | None:
        """The next message, if there is one by then."""
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return None
        raw = self._socket.recv(_MESSAGE_BYTES)
        if not raw:
            raise AssertionError("the process that forks `sluice` has ended")
        message: dict[str, int] = json.loads(raw)
        if "ended" in message:
            self._ended[message["ended"]] = message["code"]
        return message


_ONE_AT_A_TIME: Final = Lock()


@cache
def _made() -> Forks:
    return Forks()


def forks() -> Forks:
    """One for all tests of this process, whichever of their threads asks first. It ends with it."""
    with _ONE_AT_A_TIME:
        return _made()


class Command:
    """A running program: as much of `subprocess.Popen` as tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        stderr: IO[Any],
        stdout: IO[Any] | None = None,
        stdin: IO[Any] | None = None,
        directory: Path = ROOT,
        program: str = "sluice",
    ) -> None:
        """Without `stdout` what it says there can be read; without `stdin` it is told nothing. `program`: another one,
        which is run as `python -m` runs it.
        """
        self.args = [program, *arguments]
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        with Path(os.devnull).open("rb") as nothing:
            files = [(stdin or nothing).fileno(), -1, stderr.fileno()]
            if stdout is not None:
                files[1] = stdout.fileno()
                self.pid = forks().begin(arguments, environment, files, directory, program)
                return
            reading, files[1] = os.pipe()
            self.stdout = os.fdopen(reading, encoding="utf-8")
            try:
                self.pid = forks().begin(arguments, environment, files, directory, program)
            finally:
                os.close(files[1])

    def poll(self) -> int | None:
        """How it ended, if it has."""
        if self.returncode is None:
            self.returncode = forks().code(self.pid, 0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended."""
        limit = _DEADLINE_S if timeout is None else timeout
        if self.returncode is None:
            self.returncode = forks().code(self.pid, limit)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, limit)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """The rest of what it said, once it has ended."""
        if self.stdout is None or self.stdout.closed:
            self.wait(timeout)
            return "", None
        with self.stdout, ThreadPoolExecutor(1) as pool:  # or a full pipe would hold up what is waited for
            rest = pool.submit(self.stdout.read)
            self.wait(timeout)
            return rest.result(timeout), None

    def send_signal(self, number: int) -> None:
        """Unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def serve(orders: socket.socket) -> list[str] | None:
    """Fork until the tests have ended. In a fork: the program to run, and what it is to be called with."""
    gc.disable()  # nothing of what is imported is garbage
    find_docstrings_by_name()
    for name in (*IMPORTED, *_our_modules()):
        with suppress(ImportError):
            importlib.import_module(name)
    vars(sys.modules["control.identity.users.passwords"])["HASHER"] = CHEAP_HASHER
    if len([*Path("/proc/self/task").iterdir()]) > 1:
        raise AssertionError("a module has started a thread, which no fork would have")
    gc.collect()
    gc.freeze()  # or a collection in a fork would copy every page
    gc.enable()
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watched: list[Any] = [orders, woken]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, _MESSAGE_BYTES)
            _tell_who_ended(orders)
        if orders in ready:
            raw, files, _, _ = socket.recv_fds(orders, _MESSAGE_BYTES, 3)
            if not raw:
                return None
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (woken, wakes, orders.detach()):
                    os.close(each)
                return _become(json.loads(raw), files)
            for each in files:
                os.close(each)
            orders.send(json.dumps({"pid": pid}).encode())


def _our_modules() -> Iterator[str]:
    """All that `sluice` may import: but migrations, which Alembic loads itself, and what runs as a program."""
    for package in OURS:
        for module in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if not module.name.endswith(("__main__", ".migrations.env")) and ".versions." not in module.name:
                yield module.name


def _tell_who_ended(orders: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        orders.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def _become(order: dict[str, Any], files: Sequence[int]) -> list[str]:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    os.chdir(order["directory"])
    if FORKED_WORKERS.keys() & order["environment"].keys():
        vars(asyncio)["create_subprocess_exec"] = _fork_worker
    return [order["program"], *order["arguments"]]


class _Worker:
    """A forked worker of `sluice --workers`: as much of `asyncio.subprocess.Process` as its supervisor uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        self._watched = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._watched, self._reap)

    async def wait(self) -> int | None:
        """How it ended."""
        await self._ended.wait()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Unless it has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._watched)
        os.close(self._watched)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._ended.set()


async def _fork_worker(*command: str, start_new_session: bool, pass_fds: Sequence[int]) -> _Worker:
    """What stands in for `asyncio.create_subprocess_exec` in a supervisor."""
    pid = os.fork()
    if pid:
        return _Worker(pid)
    code = 1
    try:
        if start_new_session:
            os.setsid()
        asyncio._set_running_loop(None)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
        _close_all_but(pass_fds)
        code = _code_of([*command[command.index("-m") + 1 :]])
    finally:
        _end(code)


def _close_all_but(kept: Sequence[int]) -> None:
    for file in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        if file > 2 and file not in kept:
            with suppress(OSError):  # the one that listed them
                os.close(file)


def _code_of(called: list[str]) -> int:
    """How the program ends, as the interpreter would have it."""
    sys.argv = called
    try:
        runpy.run_module(called[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)  # noqa: T201 (as the interpreter does)
        return 1
    except BaseException:  # noqa: BLE001 (whatever it is)
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """End as the interpreter does, but for taking apart every module: in a fork each of their pages would be copied."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    called = serve(socket.socket(fileno=int(sys.argv[1])))
    if called is not None:
        _end(_code_of(called))
