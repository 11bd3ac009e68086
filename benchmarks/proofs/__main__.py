"""Prints the machine and a table for each part."""

import argparse
import tempfile
from importlib.metadata import version
from pathlib import Path

from benchmarks.codec.__main__ import machine
from benchmarks.control.directory import database
from benchmarks.proofs import lists, parts, serving

PARTS = ("parts", "bundles", "lists", "hostile")
_PACKAGES = ("aiohttp", "SQLAlchemy", "cryptography", "msgspec", "securesystemslib")


def main() -> None:
    """Measure proof bundles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="all by default")
    parser.add_argument("--count", type=int, default=10_000, help="bundles that are handed in")
    parser.add_argument("--stored", type=int, default=1_000_000, help="bundles that are listed")
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    arguments = parser.parse_args()
    chosen = arguments.part or PARTS
    print(f"{machine()}; {', '.join(f'{name} {version(name)}' for name in _PACKAGES)}", flush=True)
    if "parts" in chosen:
        parts.measure()
    for name in ("sqlite", "postgresql"):
        if arguments.database not in (name, "both"):
            continue
        for part in chosen:
            with tempfile.TemporaryDirectory(prefix="sluice-proofs-") as directory:
                _measure(part, name, Path(directory), arguments)


def _measure(part: str, name: str, directory: Path, arguments: argparse.Namespace) -> None:
    """A part that needs a database. What hostile bodies take does not depend on it: one is enough."""
    if part == "parts" or (part == "hostile" and name != "sqlite"):
        return
    with database(name, directory / "database") as url:
        print(f"\n{part}, {name}", flush=True)
        if part == "bundles":
            serving.measure(directory / "control", url, arguments.count)
        elif part == "lists":
            lists.measure(directory / "control", url, arguments.stored)
        else:
            serving.measure_hostile(directory / "control", url)


if __name__ == "__main__":
    main()
