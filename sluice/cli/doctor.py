"""`sluice doctor`: what is reachable, which schemas, which decoder, which versions, whether settings fit. Changes
nothing.
"""

import argparse
import importlib
import importlib.metadata
import os
import platform
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from chassis.clickhouse import QueryLimits
from chassis.clickhouse import migrations as schema
from chassis.db import migrations
from chassis.db.database import redacted_url
from chassis.errors import StartupError
from chassis.redis import open_redis
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.settings_loader import SettingsError
from sluice import __version__, data_dir, process
from sluice.app_builder import open_clickhouse
from sluice.cli.config import settings_classes
from sluice.settings_sources import SettingsSources

_PACKAGES: Final = (
    *("aiohttp", "uvloop", "msgspec", "SQLAlchemy", "psycopg", "redis"),
    *("clickhouse-connect", "chdb", "isal", "backports.zstd"),
)
_LIMITS: Final = QueryLimits(max_seconds=10)
_ANSWER_TIMEOUT_S: Final = 5.0


class CheckResult(msgspec.Struct, frozen=True):
    """One line: what was looked at, whether it is as it should be, what was seen."""

    name: str
    ok: bool
    detail: str


def run(arguments: argparse.Namespace) -> int:
    """Look, report; 1 when something is not as it should be."""
    findings = list(run_checks(SettingsSources.from_arguments(arguments)))
    if arguments.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode() + "\n")
    else:
        for finding in findings:
            print(f"{'ok ' if finding.ok else 'BAD'}  {finding.name:<12} {finding.detail}")
    return 0 if all(finding.ok for finding in findings) else 1


def run_checks(options: SettingsSources) -> Iterator[CheckResult]:
    """Everything worth knowing, the installation first."""
    settings = options.chassis_settings()
    yield CheckResult("sluice", True, f"{__version__} on Python {platform.python_version()}, {platform.platform()}")
    yield CheckResult("packages", True, ", ".join(f"{name} {_version(name)}" for name in _PACKAGES))
    yield _decoder()
    yield _run_check("settings", lambda: _settings(options))
    running = _in_use(settings)
    state = "in use by a running sluice" if running else "there" if settings.data_dir.is_dir() else "not made yet"
    yield CheckResult("data", settings.data_dir.is_dir(), f"{settings.data_dir}: {state}")
    yield _run_check("database", lambda: _database(settings))
    yield _run_check("clickhouse", lambda: _clickhouse(settings, running=running))
    yield _run_check("redis", lambda: _redis(settings))
    yield _run_check("journal", lambda: _journal(options, settings))
    if running:
        yield _run_check("server", lambda: _server(settings))


def _run_check(name: str, look: Callable[[], str]) -> CheckResult:
    try:
        return CheckResult(name, True, look())
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
            f"reference, in Python and slow; the kernel is not built ({error}): "
            "install a C++ compiler and the headers of this Python, then install sluice again",
        )
    return CheckResult("decoder", True, "kernel")


def _settings(options: SettingsSources) -> str:
    """Whether every service could start with them, and not only what the rest of this looks at."""
    wrong = []
    for cls in settings_classes():
        try:
            options.load(cls)
        except SettingsError as error:
            wrong.append(str(error))
    if wrong:
        raise StartupError(" ".join(wrong))
    return "all valid"


def _in_use(settings: ChassisSettings) -> bool:
    """Whether somebody holds the data directory for himself."""
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


def _clickhouse(settings: ChassisSettings, *, running: bool) -> str:
    if settings.uses_embedded_clickhouse and running:
        return "embedded, open in the running sluice; see its server line"
    if (
        settings.uses_embedded_clickhouse
        and not (settings.data_dir / "clickhouse").is_dir()
        and not settings.clickhouse_url
    ):
        raise StartupError("the embedded store does not exist yet; `sluice up` or `sluice migrate` makes it.")
    return process.run(_ask_clickhouse(settings))


async def _ask_clickhouse(settings: ChassisSettings) -> str:
    clickhouse = open_clickhouse(settings)
    await clickhouse.start()
    try:
        ((version,),) = await clickhouse.query("SELECT version()", {}, limits=_LIMITS)
        await schema.check(clickhouse)
        return f"{clickhouse.address}: version {version}, schema {schema.migrations()[-1].version}"
    finally:
        await clickhouse.close()


def _redis(settings: ChassisSettings) -> str:
    if not settings.redis_url:
        return "none: each process counts rates for itself"
    return process.run(_ask_redis(settings))


async def _ask_redis(settings: ChassisSettings) -> str:
    redis = open_redis(settings.redis_url, settings.redis_timeout_s)
    try:
        version = await redis.inspect()
        return f"{redis.address}: version {version or 'unknown'}, answers within {settings.redis_timeout_s:g} s"
    finally:
        await redis.close()


def _journal(options: SettingsSources, settings: ChassisSettings) -> str:
    """Where a gateway keeps what it acknowledged, and whether it can."""
    if settings.durability != "journal":
        return f"none: the durability is {settings.durability}"
    from gateway.settings import GatewaySettings

    gateway = options.load(GatewaySettings)
    directory = gateway.journal_directory(settings.data_dir)
    journals = sorted(directory.glob("[0-9]*"))
    place = next(place for place in (directory, *directory.parents) if place.exists())
    for needed in (place, *journals):
        if not needed.is_dir() or not os.access(needed, os.R_OK | os.W_OK | os.X_OK):
            raise StartupError(f"{directory}: {needed} is no directory that can be written.")
    disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    if free < gateway.journal_min_free_bytes:
        least = _mib(gateway.journal_min_free_bytes)
        raise StartupError(f"{directory}: {_mib(free)} are free on its disk; with less than {least} exports get 503.")
    taken = sum(map(_allocated, directory.glob("[0-9]*/*")))
    aside = sum(1 for _ in directory.glob("quarantine/*.json"))
    state = (
        f"journals: {len(journals)} ({_mib(taken)}), requests in quarantine: {aside}" if journals else "not made yet"
    )
    return f"{directory}: can be written, {state}, free: {_mib(free)}"


def _allocated(file: Path) -> int:
    """Bytes that it takes on disk; a running gateway may remove it at any moment."""
    try:
        return file.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _server(settings: ChassisSettings) -> str:
    """What the running process says of itself."""
    address = f"{data_dir.running_url(settings.data_dir) or settings.base_url}/readyz"
    try:
        request = urllib.request.Request(address)  # noqa: S310 - an http(s) URL of our own settings
        with urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT_S) as answer:  # noqa: S310
            return f"{address} answers {answer.status}: ready"
    except urllib.error.HTTPError as error:
        raise StartupError(f"{address} answers {error.code}: {error.read(500).decode('utf-8', 'replace')}") from error
    except OSError as error:
        raise StartupError(f"{address} does not answer: {getattr(error, 'reason', error)}") from error
