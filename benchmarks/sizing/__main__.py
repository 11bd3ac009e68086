"""Prints what a load needs.

--markdown prints the tables of docs/scaling.md; --measure fills the tables of the product with a million spans, and
prints what they take on disk and of CPU.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.command import command
from benchmarks.explore.data import fill_days
from benchmarks.explore.layouts import create_tables, laid
from benchmarks.report import Table
from benchmarks.sizing import figures
from benchmarks.sizing.plan import DAY_S, Load, Plan, engine_us, item_us, plan
from benchmarks.storage.engine import Engine

RATES: Final = (100, 1_000, 10_000, 50_000)
MILLION: Final = 1_000_000
_FEW: Final = 16  # spans in a request of an SDK that sends often
_TABLES: Final = ("spans", "trace_index", "attribute_keys", "error_occurrences")
_HELP: Final = {
    "spans_s": "spans a second, averaged over a day",
    "logs_s": "log records a second, likewise",
    "peak": "how many times that the busiest minutes are",
    "request_spans": "items in a request: 512 of a Collector, fewer of an SDK",
    "wire_bytes": "bytes of an item as it is sent",
    "retention_days": "SLUICE_RETENTION_DAYS",
    "outage_h": "hours without ClickHouse that the journal is to survive, at the peak rate",
    "aggregates_s": "aggregates of explore a second",
    "window_h": "hours of the window of each",
    "copies": "replicas of ClickHouse",
}


def main() -> None:
    """Reads the command line, prints."""
    parser = command(__package__, __doc__)
    parser.add_argument("--markdown", action="store_true", help="the tables of docs/scaling.md")
    parser.add_argument("--measure", action="store_true", help="measure what spans take on disk (two minutes)")
    for field in fields(Load):
        option = f"--{field.name.removesuffix('_s').replace('_', '-')}"
        kind = int if field.type is int else float
        parser.add_argument(
            option, dest=field.name, type=kind, default=field.default, help=f"{_HELP[field.name]}; default: %(default)g"
        )
    arguments = parser.parse_args()
    if arguments.measure:
        measure(MILLION)
    elif arguments.markdown:
        print("\n".join(markdown()))
    else:
        load = Load(**{field.name: getattr(arguments, field.name) for field in fields(Load)})
        table = Table({"part": "", "needs": ""})
        for row in _rows(plan(load)):
            table.row(*row)


def measure(spans: int) -> None:
    """Print what spans take of the product's tables: disk by table, CPU of inserts and merges, in blocks of 50 000."""
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


def markdown() -> Iterator[str]:
    """The tables of docs/scaling.md."""
    yield from _figures()
    yield ""
    yield from _million()
    yield ""
    yield from _rates()


def _figures() -> Iterator[str]:
    yield "| Measured | Value | Where |"
    yield "| --- | --- | --- |"
    for figure in figures.ALL:
        link = f"[Benchmarks](benchmarks.md#{figure.section})"
        yield f"| {figure.what} | {figure.value:g} {figure.unit} | {link} |"


def _million() -> Iterator[str]:
    load = Load(spans_s=MILLION / DAY_S, peak=1, aggregates_s=0)
    made = plan(load)
    yield "| A million spans need | |"
    yield "| --- | --- |"
    large, small = item_us(load.request_spans), item_us(_FEW)
    yield f"| gateway CPU time | {large:.1f} s in requests of 512 spans, {small:.0f} s in requests of {_FEW} |"
    yield f"| ClickHouse CPU time for inserts and merges | {engine_us():.1f} s |"
    yield f"| ClickHouse disk, merged | {made.disk_bytes_day / 1e6:.0f} MB |"
    gzip, plain = figures.WIRE_GZIP_BYTES.value, figures.WIRE_PLAIN_BYTES.value
    yield f"| bytes on the wire and in the journal | {gzip:.0f} MB with gzip, {plain:.0f} MB without |"


def _rates() -> Iterator[str]:
    loads = [replace(Load(), spans_s=rate) for rate in RATES]
    table = [_rows(plan(load)) for load in loads]
    yield f"| Spans a second, averaged over a day | {' | '.join(map(_count, RATES))} |"
    yield f"| --- |{' --- |' * len(RATES)}"
    yield f"| millions of spans a day | {' | '.join(_count(rate * DAY_S / MILLION) for rate in RATES)} |"
    for number, (name, _) in enumerate(table[0]):
        yield f"| {name} | {' | '.join(rows[number][1] for rows in table)} |"


def _rows(made: Plan) -> Sequence[tuple[str, str]]:
    return (
        ("gateway cores", _cores(made.gateway_cores)),
        ("ClickHouse cores for inserts and merges", _cores(made.write_cores)),
        ("ClickHouse cores for reads", _cores(made.read_cores)),
        ("bytes a day on the wire", _bytes(made.wire_bytes_day)),
        ("bytes a day on ClickHouse's disk", _bytes(made.disk_bytes_day)),
        ("ClickHouse disk for the retention", _bytes(made.disk_bytes)),
        ("journal disk for the outage", _bytes(made.journal_bytes)),
    )


def _count(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")


def _cores(cores: float) -> str:
    return "below 0.1" if cores < 0.05 else f"{cores:.1f}"


def _bytes(value: float) -> str:
    for unit in ("MB", "GB"):
        value /= 1e6 if unit == "MB" else 1e3
        if value < 1_000:
            return f"{value:.3g} {unit}"
    return f"{value / 1e3:.3g} TB"


if __name__ == "__main__":
    main()
