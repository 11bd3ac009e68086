"""The output of benchmarks: the machine that they run on, tables in Markdown, and figures of many times."""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Final

MIB: Final = 2**20
_PACKAGES: Final = ("protobuf", "opentelemetry-proto", "msgspec")
_BROKEN: Final = {0: "connection broken", -1: "not sent for want of a connection"}


def print_machine(*packages: str, about: str = "") -> None:
    """A line with processor, system, versions of Python and packages, and what the run is about."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    versions = ", ".join(f"{name} {version(name)}" for name in dict.fromkeys((*_PACKAGES, *packages)))
    cores = f"{os.cpu_count()} x {next(models, platform.machine())}"
    python = f"Python {platform.python_version()}"
    print("; ".join(filter(None, (cores, platform.platform(), python, versions, about))), flush=True)


class Void(Exception):
    """What was measured cannot be compared: something was refused, lost or doubled, or did not arrive."""


class Table:
    """A table that is printed row by row. `columns`: their names, and the formats of the numbers in them. `compared`: a
    column whose ratio to the first row is added at the end of each row.
    """

    def __init__(self, columns: Mapping[str, str], *, compared: str = "") -> None:
        self._formats = [*columns.values()]
        self._compared = [*columns].index(compared) if compared else None
        self._first: float | None = None
        names = [*columns, f"{compared}, to the first"] if compared else [*columns]
        print(f"\n{_line(names)}\n{_line(['---'] * len(names))}", flush=True)

    def row(self, *cells: object) -> None:
        """A text is printed as it is, None not at all, numbers of a tuple one after the other."""
        written = [_cell(cell, form) for cell, form in zip(cells, self._formats, strict=True)]
        if self._compared is not None:
            value = cells[self._compared]
            if isinstance(value, (int, float)):
                self._first = self._first or value
                written.append(f"{value / self._first:.2f}")
            else:
                written.append("")
        print(_line(written), flush=True)


def spread(figures: Sequence[float]) -> str:
    """The median, the least and the most."""
    return f"**{median(figures):.2f}** ({min(figures):.2f} to {max(figures):.2f})"


def quantile(times: Iterable[float], q: float) -> float:
    """The q-th of the times; infinite without any."""
    ordered = sorted(times) or [float("inf")]
    return ordered[min(len(ordered) - 1, int(len(ordered) * q))]


def quantiles_ms(seconds: Sequence[float], *qs: float) -> tuple[float, ...]:
    """Some quantiles, in milliseconds."""
    return tuple(quantile(seconds, q) * 1e3 for q in qs)


def by_status(counts: Mapping[int, int]) -> str:
    """How many requests ended how; 0 and -1 are no answers."""
    return ", ".join(f"{_BROKEN.get(status, status)}: {count}" for status, count in sorted(counts.items()))


def _cell(cell: object, form: str) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, tuple):
        return ", ".join(_cell(each, form) for each in cell)
    return format(cell, form).replace(",", " ")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
