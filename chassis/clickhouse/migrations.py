"""ClickHouse migrations: the numbered statements of `proto/storage/sql`, applied in order and recorded in
`sluice_schema`.

ClickHouse has no transactions for DDL, so each statement is repeatable (`IF NOT EXISTS`), and a migration is recorded
after its last statement. The next run completes an interrupted migration.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple, Protocol

import structlog

from chassis.clickhouse import ClickHouse, QueryLimits, StoreError, StoreUnavailable
from chassis.clickhouse.stored_time import StoredTimeFloor
from chassis.errors import StartupError

LAST_UNRELEASED: Final = 6  # the last version before the first release; earlier versions cannot be migrated
UPGRADE_HINT: Final = (
    f"This release can migrate only version {LAST_UNRELEASED} from builds before the first release. Start the last "
    "build before the first release (commit cb9c19bf) once with this database, then start this release."
)
_FILE: Final = re.compile(r"(\d{4})_\w+\.sql")
_COMMENT: Final = re.compile(r"--[^\n]*")
_RETENTION: Final = re.compile(r"\{retention:([^}]+)\}")
_TABLE: Final = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_COLUMN: Final = re.compile(r"^    (?!INDEX )(\w+) +[A-Z]", re.MULTILINE)
_SETTING: Final = re.compile(r"ALTER TABLE (\w+) MODIFY SETTING (\w+) = .*")
_ALTER: Final = re.compile(r"ALTER TABLE (\w+) ")
_LIMITS: Final = QueryLimits(max_seconds=30)
VERIFY_TIMEOUT_S: Final = 5.0  # of one verification, which all concurrent calls wait for
# About one bucket per key. Maps in new parts are not split, because splitting would slow the insert.
_MAP_BUCKET_SETTINGS: Final = (
    ", map_serialization_version = 'with_buckets', map_serialization_version_for_zero_level_parts = 'basic',"
    " map_buckets_strategy = 'linear', max_buckets_in_map = 32, map_buckets_min_avg_size = 4"
)

_CREATE_VERSION_TABLE: Final = """
CREATE TABLE IF NOT EXISTS sluice_schema
(version UInt32, name String, applied_at DateTime('UTC') DEFAULT now('UTC'))
ENGINE = MergeTree ORDER BY version
"""


log = structlog.get_logger(__name__)

Rows = list[tuple[object, ...]]


class ClickHouseSchemaError(StartupError):
    """The tables in ClickHouse do not match this release. The message is one sentence for an operator."""


class ClickHouseSchemaTooOld(ClickHouseSchemaError):
    """Migrations are missing."""


class ClickHouseSchemaTooNew(ClickHouseSchemaError):
    """A later release has migrated the tables."""


class ClickHouseSchemaMismatch(ClickHouseSchemaError):
    """Tables of the same version were created with other statements."""


class SchemaReader(Protocol):
    """The queries that the verification of the schema makes."""

    async def query(self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits) -> Rows: ...


class Migration(NamedTuple):
    """One numbered file: its statements, with placeholders."""

    version: int
    name: str
    statements: tuple[str, ...]


def migrations() -> list[Migration]:
    """The migrations of this release, ascending."""
    found = []
    for entry in files("proto.storage").joinpath("sql").iterdir():
        match = _FILE.fullmatch(entry.name)
        if match:
            found.append(Migration(int(match[1]), entry.name, _statements(entry.read_text("utf-8"))))
    return sorted(found)


def render(statement: str, *, embedded: bool, retention_days: int, bucketed: bool = True) -> str:
    """Fill in the placeholders `{fsync}`, `{bucketed}` and `{retention:EXPR}`."""
    ttl = rf"TTL \1 + INTERVAL {_ttl_days(retention_days)} DAY" if retention_days else ""
    # The embedded engine has no replica, so an acknowledged insert must be on disk.
    filled = _RETENTION.sub(ttl, statement).replace("{fsync}", "1" if embedded else "0")
    return filled.replace("{bucketed}", _MAP_BUCKET_SETTINGS if bucketed else "")


async def migrate(
    clickhouse: ClickHouse, *, retention_days: int, on_pending: Callable[[int], None] = lambda _count: None
) -> list[str]:
    """Migrate the tables to this release and to `retention_days` (0: keep for ever). Returns the names of the applied
    migrations. If there are pending migrations, `on_pending` is called with their number before the first is applied.

    Idempotent. Raises ClickHouseSchemaTooNew when a later release has migrated the tables.
    """
    await clickhouse.create_database()
    await clickhouse.command(_CREATE_VERSION_TABLE)
    known = migrations()
    current = await _version(_UnverifiedReader(clickhouse), known)
    if current == LAST_UNRELEASED:
        await _require_columns(_UnverifiedReader(clickhouse), known[0])
        current = known[0].version
        await _record(clickhouse, known[0])
    settings = await _supported_settings(_UnverifiedReader(clickhouse))
    bucketed = "map_buckets_strategy" in settings  # older engines cannot split Maps by key
    pending = [migration for migration in known if migration.version > current]
    if pending:
        on_pending(len(pending))
    for migration in pending:
        for statement in migration.statements:
            if _SETTING.fullmatch(statement):
                continue  # applied below, together with settings that an older engine did not know
            altered = _ALTER.match(statement)
            if altered and not await _stores_rows(clickhouse, altered[1], statement):
                continue
            sql = render(statement, embedded=clickhouse.embedded, retention_days=retention_days, bucketed=bucketed)
            await clickhouse.command(sql)
        await _apply_settings(clickhouse, migration, settings, resumed=True)
        await _record(clickhouse, migration)
    for migration in known:
        await _apply_settings(clickhouse, migration, settings)
    await _apply_retention(clickhouse, known, retention_days)
    return [migration.name for migration in pending]


async def _record(clickhouse: ClickHouse, migration: Migration) -> None:
    """Record the migration as applied. The statement contains only values from files of this package."""
    await clickhouse.command(
        f"INSERT INTO sluice_schema (version, name) VALUES ({migration.version}, '{migration.name}')"
    )


async def _require_columns(clickhouse: SchemaReader, baseline: Migration) -> None:
    """Raises ClickHouseSchemaMismatch unless the tables have the columns that `baseline` gives them."""
    sql = "SELECT table, name FROM system.columns WHERE database = currentDatabase()"
    found = {(str(table), str(name)) for table, name in await clickhouse.query(sql, {}, limits=_LIMITS)}
    created = [(match[1], statement) for statement in baseline.statements if (match := _TABLE.search(statement))]
    missing = sorted({(table, column) for table, text in created for column in _COLUMN.findall(text)} - found)
    if missing:
        raise ClickHouseSchemaMismatch(
            f"The ClickHouse table {missing[0][0]} lacks the column {missing[0][1]}. {UPGRADE_HINT}"
        )


class VerifiedClickHouse(ClickHouse):
    """ClickHouse whose tables are verified before their first use: at the start, or as soon as ClickHouse is available.

    While the tables do not match this release, reads and inserts raise StoreUnavailable. So a service that waits for
    `sluice migrate` continues without a restart.
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, stored_time_floor=StoredTimeFloor(), **options)
        self._verification: asyncio.Task[None] | None = None
        self._is_verified = False
        self._last_logged = ""

    async def verify_schema(self) -> None:
        """Verify the tables, unless an earlier verification succeeded. Raises a StoreError or a ClickHouseSchemaError.

        Concurrent callers share one verification and its error, because there may be many callers, and a server may
        hang.
        """
        if self._is_verified:
            return
        if self._verification is None:
            self._verification = asyncio.create_task(self._run_verification())
            self._verification.add_done_callback(self._on_verified)
        verification = self._verification
        await asyncio.wait((verification,))  # continues for the others when this caller is cancelled
        if verification.cancelled():
            raise StoreUnavailable("The ClickHouse client is closing.")
        verification.result()

    async def close(self) -> None:
        """Cancel a running verification, then close the base class."""
        if self._verification is not None:
            self._verification.cancel()
            await asyncio.wait((self._verification,))
        await super().close()

    async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
        """As in the base class, after the verification."""
        await self._ensure_verified()
        await super().insert(table, columns, pieces, token=token)

    async def query(self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits) -> Rows:
        """As in the base class, after the verification."""
        await self._ensure_verified()
        return await super().query(sql, parameters, limits=limits)

    async def _run_verification(self) -> None:
        try:
            async with asyncio.timeout(VERIFY_TIMEOUT_S):
                await check(_UnverifiedReader(self))
        except TimeoutError as error:
            raise StoreUnavailable(f"ClickHouse did not respond within {VERIFY_TIMEOUT_S:g} s") from error

    def _on_verified(self, verification: asyncio.Task[None]) -> None:
        self._verification = None  # after a failure the next call verifies again
        self._is_verified = not verification.cancelled() and verification.exception() is None

    async def _ensure_verified(self) -> None:
        if self._is_verified:
            return
        try:
            await self.verify_schema()
        except ClickHouseSchemaError as error:
            if self._last_logged != str(error):  # once, not for every request
                self._last_logged = str(error)
                log.warning("clickhouse schema check failed", detail=self._last_logged)
            raise StoreUnavailable(str(error)) from error


class _UnverifiedReader(NamedTuple):
    """Reads without verification, for the verification itself and for migrations."""

    store: ClickHouse

    async def query(self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits) -> Rows:
        return await ClickHouse.query(self.store, sql, parameters, limits=limits)


async def check(clickhouse: SchemaReader) -> None:
    """Raises ClickHouseSchemaTooOld, ClickHouseSchemaTooNew or ClickHouseSchemaMismatch unless the tables match this
    release.
    """
    exists = await clickhouse.query(
        "SELECT 1 FROM system.tables WHERE database = currentDatabase() AND name = 'sluice_schema'", {}, limits=_LIMITS
    )
    known = migrations()
    current = await _version(clickhouse, known) if exists else 0
    if current < known[-1].version:
        raise ClickHouseSchemaTooOld(
            f"The ClickHouse schema has version {current}, but this release requires {known[-1].version}."
            " Run `sluice migrate`."
        )


async def _version(clickhouse: SchemaReader, known: list[Migration]) -> int:
    """The version of the tables. Raises ClickHouseSchemaTooNew or ClickHouseSchemaMismatch when this release cannot
    migrate them.
    """
    rows = await clickhouse.query("SELECT toInt64(version), name FROM sluice_schema", {}, limits=_LIMITS)
    current = max((int(str(version)) for version, _ in rows), default=0)
    if current > known[-1].version:
        raise ClickHouseSchemaTooNew(
            f"The ClickHouse schema has version {current}, but this release supports at most {known[-1].version}."
            " Upgrade Sluice."
        )
    names = {migration.version: migration.name for migration in known}
    if 0 < current < LAST_UNRELEASED:
        raise ClickHouseSchemaMismatch(f"The ClickHouse schema has version {current}. {UPGRADE_HINT}")
    if any(names.get(int(str(version)), name) != name for version, name in rows):
        raise ClickHouseSchemaMismatch(
            "The ClickHouse tables have the incompatible schema of a build before the first release."
            " Use an empty database or data directory."
        )
    return current


async def _supported_settings(clickhouse: SchemaReader) -> frozenset[str]:
    """The MergeTree settings that the engine knows. The engine rejects unknown settings."""
    rows = await clickhouse.query("SELECT name FROM system.merge_tree_settings", {}, limits=_LIMITS)
    return frozenset(str(name) for (name,) in rows)


async def _apply_settings(
    clickhouse: ClickHouse, migration: Migration, known: frozenset[str], *, resumed: bool = False
) -> None:
    """Apply the settings of a migration that the engine knows and the tables lack. `resumed`: an earlier run may have
    been interrupted while it had stopped the merges of a table. Such merges would stay stopped until the server's next
    restart.
    """
    wanted = [matched for statement in migration.statements if (matched := _SETTING.fullmatch(statement))]
    if not wanted:
        return
    sql = "SELECT name, engine, engine_full FROM system.tables WHERE database = currentDatabase()"
    rows = await _UnverifiedReader(clickhouse).query(sql, {}, limits=_LIMITS)
    tables = {str(name): (str(engine), str(text)) for name, engine, text in rows}
    for matched in wanted:
        table, setting = matched[1], matched[2]
        engine, text = tables[table]
        if setting not in known:
            continue
        if f"{setting} = " in text:
            if resumed and engine.endswith("MergeTree"):
                await _start_merges(clickhouse, table)
        elif engine.endswith("MergeTree"):
            await _alter_with_merges_stopped(clickhouse, table, matched[0])
        else:  # a Distributed table or a view: other tables store and merge the rows
            hint = f"run `{matched[0]}` on the underlying tables, on every server"
            log.warning(
                "setting not applied: the table engine stores no data itself", table=table, engine=engine, hint=hint
            )


async def _stores_rows(clickhouse: ClickHouse, table: str, statement: str) -> bool:
    """Whether a table stores rows itself. If not (a Distributed table or a view), log the statement that the operator
    must run instead.
    """
    sql = "SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = {table:String}"
    rows = await _UnverifiedReader(clickhouse).query(sql, {"table": table}, limits=_LIMITS)
    engine = str(rows[0][0]) if rows else ""
    if not rows or engine.endswith("MergeTree"):
        return True
    hint = (
        f"run `{' '.join(statement.split())}` on the underlying tables, on every server, and add the same columns to "
        "this table"
    )
    log.warning("table not altered: its engine stores no data itself", table=table, engine=engine, hint=hint)
    return False


async def _alter_with_merges_stopped(clickhouse: ClickHouse, table: str, statement: str) -> None:
    """Run a statement while no merge of the table runs. A running merge keeps the settings that it started with, and
    may be the merge that the statement has to prevent.
    """
    try:
        await clickhouse.command(f"SYSTEM STOP MERGES {table}")
    except StoreError as error:  # the user lacks the privilege: the setting applies from the next merge on
        log.warning(
            "merges not stopped, so the setting applies from the next merge on; grant SYSTEM MERGES to this user",
            table=table,
            detail=error.message,
        )
        await clickhouse.command(statement)
        return
    try:
        await clickhouse.command(statement)
    finally:
        await _start_merges(clickhouse, table)


async def _start_merges(clickhouse: ClickHouse, table: str) -> None:
    try:
        await clickhouse.command(f"SYSTEM START MERGES {table}")
    except StoreError as error:  # if the user lacks the privilege, merges were not stopped either
        log.warning("SYSTEM START MERGES failed; run it if merges are stopped", table=table, detail=error.message)


async def _apply_retention(clickhouse: ClickHouse, known: list[Migration], retention_days: int) -> None:
    """Change the TTL of tables that were created with another retention."""
    rows = await _UnverifiedReader(clickhouse).query(
        "SELECT name, extract(create_table_query, 'TTL .* toIntervalDay\\\\((\\\\d+)\\\\)') FROM system.tables"
        " WHERE database = currentDatabase()",
        {},
        limits=_LIMITS,
    )
    current = {str(name): int(str(days) or 0) for name, days in rows}
    wanted = _ttl_days(retention_days)
    for table, expression in _tables_with_ttl(known):
        if current.get(table) == wanted:
            continue
        if wanted:
            await clickhouse.command(f"ALTER TABLE {table} MODIFY TTL {expression} + INTERVAL {wanted} DAY")
        else:
            await clickhouse.command(f"ALTER TABLE {table} REMOVE TTL")


def _ttl_days(retention_days: int) -> int:
    """The days from the midnight at which a row's day begins to the row's expiry. 0 for never.

    One day more than the retention, because otherwise a row that is just young enough to be accepted would expire
    immediately.
    """
    return retention_days + 1 if retention_days else 0


def _tables_with_ttl(known: list[Migration]) -> list[tuple[str, str]]:
    found = []
    for migration in known:
        for statement in migration.statements:
            table, expression = _TABLE.search(statement), _RETENTION.search(statement)
            if table and expression:
                found.append((table[1], expression[1]))
    return found


def _statements(text: str) -> tuple[str, ...]:
    # Comments are removed first: they may contain semicolons.
    return tuple(part.strip() for part in _COMMENT.sub("", text).split(";") if part.strip())
