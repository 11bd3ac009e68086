"""The schema of the database: `migrate` applies it, `check` compares it with this release. Both block.

The versions are Alembic versions in the installed package. There is no alembic.ini. One run is one transaction: a
failed migration leaves the schema unchanged, and when two processes migrate at the same time, the second process waits
and finds nothing to do.

There is no downgrade: a release refuses the schema of a newer release, and no downgrade could restore data that a
migration dropped. To return to an older release, restore the backup made before the upgrade.
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import exc

from chassis.db.database import (
    MAX_WAIT_S,
    MIGRATION_WAIT_S,
    DatabaseUnusable,
    migration_engine,
    one_line,
    redacted_url,
    server_version,
    sqlite_file,
)
from chassis.db.migrations.baseline import statements
from chassis.errors import StartupError

BASELINE: Final = "0023"
LAST_UNRELEASED: Final = "0022"  # the last schema before the first release; its databases are stamped as BASELINE
UPGRADE_HINT: Final = (
    f"This release can migrate only the schema {LAST_UNRELEASED} from builds before the first release. Start the last "
    "build before the first release (commit cb9c19bf) once with this database, then start this release."
)
_SCRIPTS: Final = Path(__file__).parent


# Texts of FATAL errors from which a server recovers: it will accept connections later.
_TRANSIENT_ERRORS: Final = (
    "starting up",
    "shutting down",
    "recovery",
    "not yet accepting",
    "too many",
    "connection slots",
)


class DatabaseUnreachable(DatabaseUnusable):
    """The server does not respond, or does not accept connections at the moment."""


class DatabaseSchemaTooOld(StartupError):
    """Migrations are missing. `sluice migrate` applies them."""


class DatabaseSchemaTooNew(StartupError):
    """A newer release has migrated this database."""


def migrate(url: str, on_pending: Callable[[int], None] = lambda _count: None) -> list[str]:
    """Migrate the schema to this release. Returns the applied revisions in order (an empty list when none was pending).
    If there are pending revisions, `on_pending` is called with their number before the first is applied.

    Raises DatabaseSchemaTooNew, and DatabaseUnusable when the database cannot be opened or written.
    """
    file = sqlite_file(url)
    if file is not None:
        _create_private(file)
    with _connect(url, MIGRATION_WAIT_S) as connection:
        scripts, config = _scripts(), _config()
        config.attributes["connection"] = connection
        before = _current_revision(connection)
        _reject_unknown(scripts, before, url)
        if before == LAST_UNRELEASED:
            _require_tables_of_baseline(connection, url)
            command.stamp(config, before := BASELINE, purge=True)
        pending = [script.revision for script in scripts.iterate_revisions("head", before or "base")][::-1]
        if pending:
            on_pending(len(pending))
        command.upgrade(config, "head")
        return pending


def check(url: str) -> str:
    """The revision of the database, if it is the revision of this release. Raises DatabaseSchemaTooOld,
    DatabaseSchemaTooNew, DatabaseUnreachable, DatabaseUnusable.
    """
    file = sqlite_file(url)
    if file is not None and not file.exists():
        if not file.absolute().parent.is_dir():
            raise DatabaseSchemaTooOld(
                f"The database {redacted_url(url)} and its directory do not exist. If the directory is not the data "
                "directory, create it. Then run `sluice migrate`."
            )
        raise DatabaseSchemaTooOld(
            f"The database {redacted_url(url)} does not exist yet. Run `sluice migrate` to create it."
        )
    with _connect(url) as connection:
        current = _current_revision(connection)
    scripts = _scripts()
    _reject_unknown(scripts, current, url)
    head = scripts.get_current_head()
    if current is None or current != head:
        state = "has no schema yet" if current is None else f"has the older schema {current}"
        raise DatabaseSchemaTooOld(
            f"The database {redacted_url(url)} {state}, but this release requires {head}. Run `sluice migrate`."
        )
    return current


def is_known(revision: str) -> bool:
    """Whether this release can use or migrate a schema of this revision."""
    return revision == LAST_UNRELEASED or revision in {script.revision for script in _scripts().walk_revisions()}


def describe_server(url: str) -> str:
    """Name and version of the database, `PostgreSQL 18.4`. Raises DatabaseUnusable."""
    with _connect(url) as connection:
        return server_version(connection)


@contextmanager
def _connect(url: str, max_wait_s: float = MAX_WAIT_S) -> Iterator[sa.Connection]:
    """Begin a write transaction, so that a database that cannot be written is detected here."""
    logging.getLogger("alembic").setLevel(logging.WARNING)  # at INFO it logs its set-up for every context
    engine = migration_engine(url, max_wait_s)
    try:
        with engine.begin() as connection:
            _reject_unsupported(connection, url)
            yield connection
    except exc.DBAPIError as error:
        reason = one_line(str(error.orig))
        end = "" if reason.endswith((".", "?")) else "."
        failure = DatabaseUnreachable if _is_unreachable(url, error, reason) else DatabaseUnusable
        raise failure(f"The database {redacted_url(url)} cannot be used: {reason}{end}") from error
    finally:
        engine.dispose()


def _is_unreachable(url: str, error: exc.DBAPIError, reason: str) -> bool:
    """Whether the server may accept connections later. A server that rejects connections permanently says FATAL, in any
    language. The FATAL errors that are transient are listed.
    """
    if sqlite_file(url) is not None or not isinstance(error, exc.OperationalError):
        return False
    return "FATAL" not in reason or any(text in reason for text in _TRANSIENT_ERRORS)


def _reject_unsupported(connection: sa.Connection, url: str) -> None:
    """Raises DatabaseUnusable for a PostgreSQL database without UTF8, or one that is read-only."""
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.scalar(sa.text("SHOW server_encoding"))
    if encoding != "UTF8":
        raise DatabaseUnusable(f"The database {redacted_url(url)} has the encoding {encoding}. It must be UTF8.")
    if connection.scalar(sa.text("SHOW transaction_read_only")) == "on":
        raise DatabaseUnusable(
            f"The database {redacted_url(url)} is read-only: it is a standby, or configured as read-only."
        )


def _create_private(file: Path) -> None:
    """Create the file with mode 0600, because SQLite would make it readable for all users. The log files of SQLite
    inherit the mode.
    """
    try:
        with closing(os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))):
            pass
    except OSError as error:
        raise DatabaseUnusable(f"The database file {file} cannot be opened for writing: {error.strerror}.") from error


def _reject_unknown(scripts: ScriptDirectory, current: str | None, url: str) -> None:
    """Raises DatabaseSchemaTooNew, and DatabaseUnusable for the schema of a build before the first release."""
    known = {script.revision for script in scripts.walk_revisions()}
    if current is None or current == LAST_UNRELEASED or current in known:
        return
    if current < BASELINE:
        raise DatabaseUnusable(f"The database {redacted_url(url)} has the schema {current}. {UPGRADE_HINT}")
    raise DatabaseSchemaTooNew(
        f"The database {redacted_url(url)} has the schema {current} of a newer release. "
        "Run that release or a later one."
    )


def _require_tables_of_baseline(connection: sa.Connection, url: str) -> None:
    """Raises DatabaseUnusable unless the database has the tables of the baseline with exactly their columns. Tables of
    other programs in the same database do not matter.
    """
    engine = sa.create_engine("sqlite://")
    with engine.connect() as scratch:
        for statement in statements("sqlite"):
            scratch.exec_driver_sql(statement)
        expected = _columns(scratch)
    engine.dispose()
    ours = {table for table, _ in expected}
    found = {(table, column) for table, column in _columns(connection) if table in ours}
    if found != expected:
        table, column = min(found ^ expected)
        state = "lacks the" if (table, column) in expected else "has a"
        raise DatabaseUnusable(
            f"The database {redacted_url(url)} has the schema {LAST_UNRELEASED}, but its table {table} {state} column "
            f"{column}. {UPGRADE_HINT}"
        )


def _columns(connection: sa.Connection) -> set[tuple[str, str]]:
    inspector = sa.inspect(connection)
    return {
        (table, column["name"]) for (_, table), columns in inspector.get_multi_columns().items() for column in columns
    }


def _current_revision(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
