"""What an erasure needs of the journals' files: how far back their segments reach, and the removal of quarantined
requests and damaged bytes.

Works on files, whichever process has them open: nothing changes a quarantined request or a copy of damaged bytes after
it is written, and segments are only looked at.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from gateway.journal.storage import corruption_store, quarantine
from gateway.journal.storage.directory_lock import list_journals
from gateway.journal.storage.files import Files, RealFiles
from gateway.journal.storage.page_reader import load_file_header
from gateway.journal.storage.quarantine import NOTE_SUFFIX, QuarantineNote
from gateway.journal.storage.segments import SEGMENT_SUFFIX, parse_segment_name

_FILES: Final = RealFiles()

Covers = Callable[[QuarantineNote], bool]


def oldest_segments(root: Path, files: Files = _FILES) -> dict[str, int | None]:
    """For each journal of a directory, by name, when its oldest segment was created: nanoseconds since 1970, None
    without segments, 0 if a header cannot be read. No request in a segment is older than that by more than the time a
    request waits for its sync. Raises OSError.
    """
    found: dict[str, int | None] = {}
    for directory in list_journals(files, root):
        times = [_created_ns(files, directory / name) for name in _names(files, directory) if parse_segment_name(name)]
        found[directory.name] = min((time for time in times if time is not None), default=None)
    return found


def remove_quarantined(root: Path, covers: Covers, files: Files = _FILES) -> int:
    """Remove the quarantined requests whose note `covers` accepts; returns their number. Raises OSError."""
    directory, removed = root / quarantine.QUARANTINE_DIRECTORY, 0
    for name in _names(files, directory):
        if name.endswith(f"{SEGMENT_SUFFIX}{NOTE_SUFFIX}") and _is_covered(directory / name, covers):
            _unlink(files, directory / name.removesuffix(NOTE_SUFFIX))  # the note last: it says whose request it was
            _unlink(files, directory / name)
            removed += 1
    if removed:
        files.sync_directory(directory)
    return removed


def remove_damaged(root: Path, before_ns: int, files: Files = _FILES) -> int:
    """Remove damaged bytes that were found before a time: nobody can tell whose they are. Returns the number of files.
    Raises OSError.
    """
    directory, removed = root / corruption_store.DAMAGED_DIRECTORY, 0
    for name in _names(files, directory):
        found_ms, _, _ = name.partition("-")
        if found_ms.isdigit() and int(found_ms) * 10**6 < before_ns:
            _unlink(files, directory / name)
            removed += 1
    if removed:
        files.sync_directory(directory)
    return removed


def _is_covered(note: Path, covers: Covers) -> bool:
    try:
        return covers(msgspec.json.decode(note.read_bytes(), type=QuarantineNote))
    except FileNotFoundError:
        return False  # requeued, or removed by another process
    except msgspec.MsgspecError:
        return True  # nobody can tell whose request it is


def _created_ns(files: Files, segment: Path) -> int | None:
    """None for a segment that is removed at this moment."""
    try:
        fd = files.open(segment)
    except FileNotFoundError:
        return None
    try:
        header = load_file_header(files, fd)
    finally:
        files.close(fd)
    return 0 if header is None else header.created_ns


def _names(files: Files, directory: Path) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError):
        yield from files.list_directory(directory)


def _unlink(files: Files, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # another process was faster
        files.unlink(path)
