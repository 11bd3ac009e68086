"""`sluice doctor`: checks connections, schemas, decoder, versions and settings. Changes nothing."""

import argparse
import importlib
import importlib.metadata
import os
import platform
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from chassis.clickhouse import QueryLimits
from chassis.clickhouse import migrations as schema
from chassis.db import migrations
from chassis.db.database import format_time, redacted_url
from chassis.erasures import repository
from chassis.errors import StartupError
from chassis.redis import open_redis
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.settings_loader import SettingsError
from sluice import __version__, data_dir, process
from sluice.app_builder import open_clickhouse
from sluice.backup.manifest import read_record
from sluice.cli.config import settings_classes
from sluice.cli.database import open_database
from sluice.settings_sources import SettingsSources

_PACKAGES: Final = (
    *("aiohttp", "uvloop", "msgspec", "SQLAlchemy", "psycopg", "redis"),
    *("clickhouse-connect", "chdb", "isal", "backports.zstd"),
)
_LIMITS: Final = QueryLimits(max_seconds=10)
_RESPONSE_TIMEOUT_S: Final = 5.0


class CheckResult(msgspec.Struct, frozen=True):
    """One check: its name, whether it passed, and the finding."""

    name: str
    ok: bool
    detail: str


def run(arguments: argparse.Namespace) -> int:
    """Run the checks and print the results; 1 if a check failed."""
    process.quiet_libraries()
    results = list(run_checks(SettingsSources.from_arguments(arguments)))
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(results), indent=2).decode())
    else:
        for result in results:
            print(f"{'ok ' if result.ok else 'BAD'}  {result.name:<12} {result.detail}")
    return 0 if all(result.ok for result in results) else 1


def run_checks(sources: SettingsSources) -> Iterator[CheckResult]:
    """Run all checks in order, the installation first."""
    settings = sources.chassis_settings()
    yield CheckResult("sluice", True, f"{__version__} on Python {platform.python_version()}, {platform.platform()}")
    yield CheckResult("packages", True, ", ".join(f"{name} {_version(name)}" for name in _PACKAGES))
    yield _decoder()
    yield _run_check("settings", lambda: _settings(sources))
    running = _in_use(settings)
    state = "in use" if running else "exists" if settings.data_dir.is_dir() else "missing; `sluice up` creates it"
    yield CheckResult("data", settings.data_dir.is_dir(), f"{settings.data_dir}: {state}")
    database = _run_check("database", lambda: _database(settings))
    yield database
    if database.ok:
        yield _run_check("erasures", lambda: process.run(_erasures(settings)))
    yield _run_check("clickhouse", lambda: _clickhouse(settings, running=running))
    yield _run_check("redis", lambda: _redis(settings))
    yield _run_check("journal", lambda: _journal(sources, settings))
    if settings.uses_embedded_clickhouse:
        yield CheckResult("backup", True, _backup(settings))
    if running:
        yield _run_check("server", lambda: _server(settings))


def _run_check(name: str, check: Callable[[], str]) -> CheckResult:
    try:
        return CheckResult(name, True, check())
    except StartupError as error:
        return CheckResult(name, False, str(error))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _decoder() -> CheckResult:
    try:
        importlib.import_module("proto.otlp.kernel")
    except ImportError as error:
        return CheckResult(
            "decoder",
            False,
            f"reference (Python, slow): the compiled decoder is not built ({error}); install a C++ compiler and the "
            "headers of this Python, then reinstall sluice",
        )
    return CheckResult("decoder", True, "kernel")


def _settings(sources: SettingsSources) -> str:
    """Validate the settings of every service, not only those that the other checks use."""
    errors = []
    for cls in settings_classes():
        try:
            sources.load(cls)
        except SettingsError as error:
            errors.append(str(error))
    if errors:
        raise StartupError(" ".join(errors))
    return "all valid"


def _in_use(settings: ChassisSettings) -> bool:
    """Whether a process holds the data directory exclusively."""
    if not (settings.data_dir / data_dir.LOCK).exists():
        return False
    try:
        with data_dir.locked(settings.data_dir, exclusive=False):
            return False
    except StartupError:
        return True


def _database(settings: ChassisSettings) -> str:
    url = settings.effective_database_url
    schema_version = migrations.check(url)
    return f"{redacted_url(url)}: {migrations.describe_server(url)}, schema {schema_version}"


async def _erasures(settings: ChassisSettings) -> str:
    """The state of erasures. Raises StartupError if an erasure has failed, or is not completed in time."""
    async with open_database(settings) as database, database.read() as connection:
        unfinished = await repository.count_unfinished(connection)
    found = f"open: {unfinished.open}, failed: {unfinished.failed}"
    if unfinished.oldest is None:
        return found
    is_late = datetime.now(UTC) - unfinished.oldest > repository.DEADLINE
    found = f"{found}, the oldest since {format_time(unfinished.oldest)}"
    if unfinished.failed or is_late:
        what = "An erasure has failed" if unfinished.failed else "An erasure is not complete after 24 hours"
        raise StartupError(f"{what} ({found}); `sluice erasures list --open` and `sluice erasures show ID` show why.")
    return found


def _clickhouse(settings: ChassisSettings, *, running: bool) -> str:
    if settings.uses_embedded_clickhouse and running:
        return "embedded, and in use by the running sluice, so not checked here; see the line `server`"
    if (
        settings.uses_embedded_clickhouse
        and not (settings.data_dir / "clickhouse").is_dir()
        and not settings.clickhouse_url
    ):
        raise StartupError("the embedded store does not exist yet; `sluice up` or `sluice migrate` creates it.")
    return process.run(_inspect_clickhouse(settings))


async def _inspect_clickhouse(settings: ChassisSettings) -> str:
    async with process.started(open_clickhouse(settings)) as clickhouse:
        ((version,),) = await clickhouse.query("SELECT version()", {}, limits=_LIMITS)
        await schema.check(clickhouse)
        return f"{clickhouse.address}: version {version}, schema {schema.migrations()[-1].version}"


def _redis(settings: ChassisSettings) -> str:
    if not settings.redis_url:
        return "not configured: each process enforces rate limits separately"
    return process.run(_inspect_redis(settings))


async def _inspect_redis(settings: ChassisSettings) -> str:
    redis = open_redis(settings.redis_url, settings.redis_timeout_s)
    try:
        version = await redis.inspect()
        return f"{redis.address}: version {version or 'unknown'}, responded within {settings.redis_timeout_s:g} s"
    finally:
        await redis.close()


def _journal(sources: SettingsSources, settings: ChassisSettings) -> str:
    """Where a gateway stores acknowledged requests; raises StartupError if it is not writable or the disk is full."""
    if settings.durability != "journal":
        return f"not used: the durability is {settings.durability}"
    from gateway.settings import GatewaySettings

    gateway = sources.load(GatewaySettings)
    directory = gateway.journal_directory(settings.data_dir)
    journals = sorted(directory.glob("[0-9]*"))
    existing = next(existing for existing in (directory, *directory.parents) if existing.exists())
    for path in (existing, *journals):
        if not path.is_dir() or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise StartupError(f"{directory}: {path} is not a writable directory.")
    disk = os.statvfs(existing)
    free = disk.f_bavail * disk.f_frsize
    if free < gateway.journal_min_free_bytes:
        least = _mib(gateway.journal_min_free_bytes)
        raise StartupError(f"{directory}: its disk has {_mib(free)} free; below {least}, exports get 503.")
    if directory.exists() and (lost := _lost_requests(directory)):  # reading a journal needs the gateway's packages
        raise StartupError(f"{directory}: {lost}; docs/operations.md (SluiceJournalDamaged) describes what to do.")
    used = sum(map(_allocated, directory.glob("[0-9]*/*")))
    waiting = sum(1 for _ in directory.glob("quarantine/*.json"))
    state = (
        f"journals: {len(journals)} ({_mib(used)}), requests in quarantine: {waiting}"
        if journals
        else "not created yet"
    )
    return f"{directory}: writable, {state}, free: {_mib(free)}"


def _lost_requests(directory: Path) -> str:
    """Requests that are damaged or missing, until their notes in `damaged/` expire or are deleted; empty if there are
    none. Raises StartupError if a file cannot be read.
    """
    from gateway.journal import inspection

    try:
        notes = inspection.list_damaged(directory)
        missing = [part for facts in inspection.inspect(directory) for part in facts.missing]
    except OSError as error:
        raise StartupError(f"{directory}: the journal cannot be read: {error}.") from error
    lost = _count([part for note in notes if not note.uncertain for part in note.sequences] + missing)
    unknown = _count([part for note in notes if note.uncertain for part in note.sequences])
    parts = [f"lost requests: {lost}"] if lost else []
    parts += [f"possibly lost requests: {unknown}"] if unknown else []
    text = ", ".join(parts)
    return f"{text} (`sluice journal inspect`)" if text else ""


def _count(parts: Iterable[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in parts)


def _backup(settings: ChassisSettings) -> str:
    last = read_record(settings.data_dir)
    if last is None:
        return "there is no backup of this data directory (`sluice backup` makes one)"
    return f"last one: {last.moment}, {last.bytes:,} bytes in {last.directory}"


def _allocated(file: Path) -> int:
    """Bytes that the file occupies on disk; 0 if a running gateway has removed it."""
    try:
        return file.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _server(settings: ChassisSettings) -> str:
    """The readiness that the running process reports. Raises StartupError if it is not ready or does not respond."""
    address = f"{data_dir.running_url(settings.data_dir) or settings.base_url}/readyz"
    try:
        request = urllib.request.Request(address)  # noqa: S310 - an http(s) URL of our own settings
        with urllib.request.urlopen(request, timeout=_RESPONSE_TIMEOUT_S) as response:  # noqa: S310
            return f"{address} returned {response.status}: ready"
    except urllib.error.HTTPError as error:
        raise StartupError(f"{address} returned {error.code}: {error.read(500).decode('utf-8', 'replace')}") from error
    except OSError as error:
        raise StartupError(f"{address} does not respond: {getattr(error, 'reason', error)}") from error
