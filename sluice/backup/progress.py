"""Progress of a copy, on a terminal only: a line that is written over."""

import sys
import time
from typing import Final

INTERVAL_S: Final = 0.5


class Progress:
    """Called with the number of files that are done, and of all."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._is_shown = sys.stderr.isatty()
        self._shown_at = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._is_shown and (done == total or now - self._shown_at >= INTERVAL_S):
            self._shown_at = now
            end = "\n" if done == total else ""
            print(f"\r{self._verb} {done:,} of {total:,} files", end=end, file=sys.stderr, flush=True)
