"""Deletes old files of `quarantine/` and `damaged/`.

The age of a file depends on the wall clock, which may be wrong: one start in the year 2100 must not delete everything.
So a file is deleted only if it is old at two consecutive checks, an hour apart by the monotonic clock; and a file that
is dated before 2020 is kept.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gateway.journal.storage import corruption_store, quarantine
from gateway.journal.storage.files import Files
from gateway.journal.storage.page_reader import load_file_header
from gateway.journal.storage.quarantine import NOTE_SUFFIX

CHECK_INTERVAL_S: Final = 3600.0
_MS_PER_DAY: Final = 86_400_000
_EARLIEST_MS: Final = 1_577_836_800_000  # 2020


class Expiry:
    """Expires files in the directories that the journals in `root` share. `days` 0: no file expires."""

    def __init__(
        self, files: Files, root: Path, days: int, clock: Callable[[], int], monotonic: Callable[[], float]
    ) -> None:
        self._files = files
        self._directories = [root / quarantine.QUARANTINE_DIRECTORY, root / corruption_store.DAMAGED_DIRECTORY]
        self._days = days
        self._clock = clock
        self._monotonic = monotonic
        self._last_check = monotonic()
        self._old_at_last_check: frozenset[Path] = frozenset()  # at least an hour ago

    def tick(self) -> None:
        """Called about once a second; checks once an hour. Raises OSError; the next attempt is an hour later."""
        now = self._monotonic()
        if not self._days or now - self._last_check < CHECK_INTERVAL_S:
            return
        self._last_check = now
        old = frozenset(path for directory in self._directories for path in self._list_old(directory))
        due, self._old_at_last_check = sorted(old & self._old_at_last_check), old
        for path in due:
            self._files.unlink(path)

    def _list_old(self, directory: Path) -> Sequence[Path]:
        cutoff_ms = self._clock() // 10**6 - self._days * _MS_PER_DAY
        paths = [
            directory / name
            for name in self._list_directory(directory)
            if _name_timestamp_ms(name, cutoff_ms) < cutoff_ms
        ]
        return [path for path in paths if _EARLIEST_MS <= self._stored_at_ms(path) < cutoff_ms]

    def _list_directory(self, directory: Path) -> Sequence[str]:
        try:
            return self._files.list_directory(directory)
        except FileNotFoundError:
            return ()

    def _stored_at_ms(self, path: Path) -> int:
        """When a file was stored. The name of a file in quarantine has the time of its batch, which may have been begun
        long before, or quarantined and requeued; so the header of its segment counts. Raises OSError.
        """
        name_ms = _name_timestamp_ms(path.name, 0)
        if path.parent.name != quarantine.QUARANTINE_DIRECTORY:
            return name_ms
        try:
            fd = self._files.open(path.with_name(path.name.removesuffix(NOTE_SUFFIX)))
        except FileNotFoundError:
            return name_ms
        try:
            header = load_file_header(self._files, fd)
        finally:
            self._files.close(fd)
        return name_ms if header is None else header.created_ns // 10**6


def _name_timestamp_ms(name: str, unknown: int) -> int:
    digits = name.partition("-")[0]
    return int(digits) if digits.isdigit() else unknown
