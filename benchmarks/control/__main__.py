"""Prints what the control service costs: `python -m benchmarks.control [OPTIONS] [NAME ...]`.

assertions  CPU of the verification of SAML responses
tokens      CPU of the check of a token that is known, without HTTP around it
reads       authenticated reads on SQLite, of one control process on one core
voters      60 people who approve at once, on SQLite and PostgreSQL: each request must have one transition
deliveries  a backlog, while one receiver takes connections and never answers
directory   a directory's first sync over SCIM, a full resync, and people who leave, on SQLite and PostgreSQL
directory-limits  the largest SCIM requests that are legal, and how long the event loop does nothing else
"""

import argparse
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from benchmarks.codec.__main__ import machine
from benchmarks.control import assertions, deliveries, directory, directory_limits, reads, tokens, voters
from tests.postgresql import VERSION as POSTGRESQL

MEASURES: Final[Mapping[str, Callable[[Path, argparse.Namespace], None]]] = {
    "assertions": assertions.measure,
    "tokens": tokens.measure,
    "reads": reads.measure,
    "voters": voters.measure,
    "deliveries": deliveries.measure,
    "directory": directory.measure,
    "directory-limits": directory_limits.measure,
}
_PACKAGES: Final = ("aiohttp", "uvloop", "SQLAlchemy", "aiosqlite", "psycopg", "lxml", "signxml")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.control", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[[], *MEASURES], default=[], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each row")
    parser.add_argument("--deliveries", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=50_000, help="of the directory")
    parser.add_argument("--groups", type=int, default=2_000, help="of the directory")
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both", help="of the directory")
    arguments = parser.parse_args()
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    print(f"{machine()}; {packages}; SQLite {sqlite3.sqlite_version}; PostgreSQL {POSTGRESQL}", flush=True)
    for name in arguments.names or MEASURES:
        with tempfile.TemporaryDirectory(prefix=f"sluice-{name}-") as directory:
            MEASURES[name](Path(directory), arguments)


if __name__ == "__main__":
    main()
