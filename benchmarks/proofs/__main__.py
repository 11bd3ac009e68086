"""Prints a table for each part of the cost of proof bundles.

parts    verify, parse and check in this process, beside json and securesystemslib
bundles  handed in to `sluice control`, beside an authenticated read
lists    pages of a project with many bundles, beside one with a few
hostile  eight bodies of up to 4 MiB at once, of as many organizations: memory, CPU, how long another request waits
"""

import os
import tempfile
from argparse import Namespace
from pathlib import Path

from benchmarks.command import command
from benchmarks.proofs import hostile, lists, parts, serving
from benchmarks.report import print_machine
from benchmarks.stores import database, wanted_databases

_PACKAGES = ("aiohttp", "SQLAlchemy", "cryptography", "msgspec", "securesystemslib")


def main() -> None:
    """Measure proof bundles."""
    parser = command(__package__, __doc__, parts=("parts", "bundles", "lists", "hostile"), databases=True)
    parser.add_argument("--count", type=int, default=10_000, help="bundles that are handed in")
    parser.add_argument("--stored", type=int, default=1_000_000, help="bundles that are listed")
    parser.add_argument("--together", action="store_true", help="all hostile bodies to one service")
    arguments = parser.parse_args()
    print_machine(*_PACKAGES, about=f"load {os.getloadavg()[0]:.0f}")
    if "parts" in arguments.parts:
        parts.measure()
    for name in wanted_databases(arguments.database):
        for part in arguments.parts:
            if part in ("bundles", "lists"):
                _measure(part, name, arguments)
    if "hostile" in arguments.parts:  # what it takes does not depend on the database
        with tempfile.TemporaryDirectory(prefix="sluice-proofs-") as directory:
            hostile.measure(Path(directory), together=arguments.together)


def _measure(part: str, name: str, arguments: Namespace) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-proofs-") as directory,
        database(name, Path(directory) / "database") as url,
    ):
        if part == "bundles":
            serving.measure(Path(directory) / "control", url, arguments.count)
        else:
            lists.measure(Path(directory) / "control", url, arguments.stored)


if __name__ == "__main__":
    main()
