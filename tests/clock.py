"""A command at another time of day: for tests that depend on the clock and do not know it.

python -m tests.clock 2026-12-31T23:59:50 python -m pytest tests/query

The time, in UTC, is that at which the command starts; it and its children go on from there. Only CLOCK_REALTIME is
another: with libfaketime 0.9.10 either sleeps fail (EINVAL) or waits with a timeout never end. The embedded engine does
not ask the C library and keeps the true time; `tests/faults` has clocks of its own.
"""

import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.preload import Layer


def main(arguments: list[str]) -> None:
    """Become the command."""
    wanted = datetime.fromisoformat(arguments[0]).replace(tzinfo=UTC)
    layer = Layer(Path(tempfile.mkdtemp(prefix="clock-")))
    layer.set_clock(round(wanted.timestamp()) * 10**9 - time.time_ns())
    os.execvpe(arguments[1], arguments[1:], {**os.environ, **layer.environment()})  # noqa: S606 (no shell is wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
