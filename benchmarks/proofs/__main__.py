"""Prints the machine and a table for each part."""

import argparse
import os
import tempfile
from importlib.metadata import version
from pathlib import Path

from benchmarks.codec.__main__ import machine
from benchmarks.control.directory import database
from benchmarks.proofs import hostile, lists, parts, serving

PARTS = ("parts", "bundles", "lists", "hostile")
_PACKAGES = ("aiohttp", "SQLAlchemy", "cryptography", "msgspec", "securesystemslib")


def main() -> None:
    """Measure proof bundles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="all by default")
    parser.add_argument("--count", type=int, default=10_000, help="bundles that are handed in")
    parser.add_argument("--stored", type=int, default=1_000_000, help="bundles that are listed")
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--together", action="store_true", help="all hostile bodies to one service")
    arguments = parser.parse_args()
    chosen = arguments.part or PARTS
    print(f"{machine()}; {', '.join(f'{name} {version(name)}' for name in _PACKAGES)}", flush=True)
    if "parts" in chosen:
        parts.measure()
    for name in ("sqlite", "postgresql"):
        for part in chosen:
            if part in ("bundles", "lists") and arguments.database in (name, "both"):
                _measure(part, name, arguments)
    if "hostile" in chosen:  # what it takes does not depend on the database
        print(f"\nhostile, sqlite ({_load()})", flush=True)
        with tempfile.TemporaryDirectory(prefix="sluice-proofs-") as directory:
            hostile.measure(Path(directory), together=arguments.together)


def _measure(part: str, name: str, arguments: argparse.Namespace) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-proofs-") as directory,
        database(name, Path(directory) / "database") as url,
    ):
        print(f"\n{part}, {name} ({_load()})", flush=True)
        if part == "bundles":
            serving.measure(Path(directory) / "control", url, arguments.count)
        else:
            lists.measure(Path(directory) / "control", url, arguments.stored)


def _load() -> str:
    return f"load {os.getloadavg()[0]:.0f}"


if __name__ == "__main__":
    main()
