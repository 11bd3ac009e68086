"""What spans take of the product's tables: disk by table, CPU of inserts and merges, in blocks of 50 000."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.explore.data import fill_days
from benchmarks.explore.layouts import create_tables, laid
from benchmarks.report import Table
from benchmarks.storage.engine import Engine

_TABLES: Final = ("spans", "trace_index", "attribute_keys", "error_occurrences")


def measure(spans: int) -> None:
    """Fill, merge, print."""
    with TemporaryDirectory(prefix="sluice-sizing-") as parent:
        directory = Path(parent)
        engine = Engine(directory / "chdb")
        create_tables(engine, directory / "chdb")
        (cost,) = fill_days(engine, laid()[:1], directory, spans)
        table = Table({"spans of the product": "", "for each": ".1f"})
        table.row("insert, us of CPU", cost.insert_us)
        table.row("merge, us of CPU", cost.merge_us)
        for name in _TABLES:
            table.row(f"{name}, bytes on disk", engine.disk_bytes(name) / spans)
