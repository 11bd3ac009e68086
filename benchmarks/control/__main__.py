"""Prints what the control service costs.

assertions  CPU of the verification of SAML responses
tokens      CPU of the check of a token that is known, without HTTP around it
reads       authenticated reads on SQLite, of one control process on one core
voters      60 people who approve at once: each request must have one transition
deliveries  a backlog, while one receiver takes connections and never answers
directory   a directory's first sync over SCIM, a full resync, and people who leave
directory-limits  the largest SCIM requests that are legal, and how long the event loop does nothing else
"""

import sqlite3
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from benchmarks.command import command
from benchmarks.control import assertions, deliveries, directory, directory_limits, reads, tokens, voters
from benchmarks.report import print_machine
from tests.postgresql import VERSION as POSTGRESQL

MEASURES: Final[Mapping[str, Callable[[Path, Namespace], None]]] = {
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
    parser = command(__package__, __doc__, parts=tuple(MEASURES), seconds=5.0, databases=True)
    parser.add_argument("--deliveries", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=50_000, help="of the directory")
    parser.add_argument("--groups", type=int, default=2_000, help="of the directory")
    arguments = parser.parse_args()
    print_machine(*_PACKAGES, about=f"SQLite {sqlite3.sqlite_version}; PostgreSQL {POSTGRESQL}")
    for part in arguments.parts:
        with tempfile.TemporaryDirectory(prefix=f"sluice-{part}-") as place:
            MEASURES[part](Path(place), arguments)


if __name__ == "__main__":
    main()
