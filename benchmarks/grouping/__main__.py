"""The CPU time of the fingerprint of an exception.

Three kinds of exceptions for each runtime. Identical: the same text arrives again. Again: the same error, with another
message and other addresses. Different: no line was ever seen. Beside each, its ratio to fingerprint version 1, which
run in turns.
"""

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from benchmarks.command import command
from benchmarks.grouping.traces import RUNTIMES, Runtime, write
from benchmarks.report import Table, print_machine
from proto.grouping.fingerprint import fingerprint, forget
from proto.grouping.version_1 import fingerprint_version_1

EXCEPTIONS: Final = 200  # of a round
ERRORS: Final = 20  # among them, each as often

Fingerprint = Callable[[str, str, str], bytes]
WriteTraces = Callable[[], list[str]]


def main() -> None:
    """Prints a table."""
    arguments = command(__package__, __doc__, rounds=5).parse_args()
    print_machine()
    title = f"us of CPU, the best of {arguments.rounds} rounds of {EXCEPTIONS}, and to version 1"
    table = Table({title: "", "characters": "", "identical": "", "again": "", "different": ""})
    for runtime in RUNTIMES:
        figures = (_measure(write_traces, arguments.rounds) for write_traces in _kinds(runtime))
        cells = (f"{now:.1f}, {now / before:.2f}" for now, before in figures)
        table.row(runtime.name, len(write(runtime, 0, 0)), *cells)


def _kinds(runtime: Runtime) -> Iterator[WriteTraces]:
    """Each writes the traces of a round."""
    numbers = count()
    yield lambda: [write(runtime, number % ERRORS, 0) for number in range(EXCEPTIONS)]
    yield lambda: [write(runtime, number % ERRORS, next(numbers)) for number in range(EXCEPTIONS)]
    yield lambda: [write(runtime, ERRORS + next(numbers), 0) for _ in range(EXCEPTIONS)]


def _measure(write_traces: WriteTraces, rounds: int) -> tuple[float, float]:
    """Microseconds in the current fingerprint version and in version 1. Each round has texts of its own."""
    forget()
    best = [float("inf")] * 2
    for _ in range(rounds):
        traces = write_traces()
        for number, rules in enumerate((fingerprint, fingerprint_version_1)):
            best[number] = min(best[number], _time(rules, [f"{trace} "[:-1] for trace in traces]))
    return best[0], best[1]


def _time(rules: Fingerprint, traces: list[str]) -> float:
    start = time.process_time()
    for trace in traces:
        rules("java.lang.IllegalStateException", "no price", trace)
    return (time.process_time() - start) / len(traces) * 1e6


if __name__ == "__main__":
    main()
