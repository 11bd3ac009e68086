"""Erasures in the journals of one directory, which all workers of a machine share.

Requests that are stored leave the journal with their segments, when their hold period is over. So an erasure does not
change segments: it is acknowledged for a journal when all segments of the journal are younger than the erasure.
Quarantined requests of the erasure's project and older damaged bytes are removed.
"""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from chassis.db.database import Database
from chassis.erasures import repository
from chassis.erasures.tables import ErasureKind
from gateway.journal.storage import quarantine
from gateway.journal.storage.directories import ID_FILE, list_journals
from gateway.journal.storage.files import Files, write_atomic
from gateway.journal.storage.scanning import read_header
from gateway.journal.storage.segments import SEGMENT_SUFFIX, parse_segment_name

_FILES: Final = Files()

Covers = Callable[[quarantine.QuarantineNote], bool]


def oldest_segments(root: Path, files: Files = _FILES) -> dict[str, int | None]:
    """For each journal of a directory, by name, the time when its oldest segment was created: nanoseconds since 1970,
    None without segments, 0 if a header cannot be read. A request in a segment can be older than the segment only by
    the time that it waited for its sync. Raises OSError.
    """
    found: dict[str, int | None] = {}
    for directory in list_journals(files, root):
        times = [
            _created_ns(files, directory / name) for name in files.list_existing(directory) if parse_segment_name(name)
        ]
        found[directory.name] = min((time for time in times if time is not None), default=None)
    return found


def remove_quarantined(root: Path, covers: Covers, files: Files = _FILES) -> int:
    """Remove the quarantined requests whose note `covers` accepts; returns their number. Raises OSError."""
    directory, removed = root / quarantine.QUARANTINE_DIRECTORY, 0
    for name in files.list_existing(directory):
        if name.endswith(f"{SEGMENT_SUFFIX}{quarantine.NOTE_SUFFIX}") and _is_covered(directory / name, covers):
            files.unlink(
                directory / name.removesuffix(quarantine.NOTE_SUFFIX)
            )  # the note last: it has the project of the request
            files.unlink(directory / name)
            removed += 1
    if removed:
        files.sync_directory(directory)
    return removed


def remove_damaged(root: Path, before_ns: int, files: Files = _FILES) -> int:
    """Remove damaged bytes that were found before a time: their project is unknown. Returns the number of files. Raises
    OSError.
    """
    directory, removed = root / quarantine.DAMAGED_DIRECTORY, 0
    for name in files.list_existing(directory):
        found_ms, _, _ = name.partition("-")
        if found_ms.isdigit() and int(found_ms) * 10**6 < before_ns:
            files.unlink(directory / name)
            removed += 1
    if removed:
        files.sync_directory(directory)
    return removed


def _is_covered(note: Path, covers: Covers) -> bool:
    try:
        return covers(msgspec.json.decode(note.read_bytes(), type=quarantine.QuarantineNote))
    except FileNotFoundError:
        return False  # requeued, or removed by another process
    except msgspec.MsgspecError:
        return True  # the project of the request is unknown


def _created_ns(files: Files, segment: Path) -> int | None:
    """When a segment was created; None if it has just been removed."""
    try:
        header = read_header(files, segment)
    except FileNotFoundError:
        return None
    return 0 if header is None else header.created_ns


REGISTER_INTERVAL_S: Final = 60.0
# A segment must be younger than the request for an erasure by this time: other processes learn of the erasure some
# seconds later, and the clocks of this machine and of the control service differ.
MARGIN_NS: Final = 60 * 10**9


class JournalErasure:
    """Acknowledges erasures for the journals in `directory`. `clock` gives nanoseconds since 1970."""

    def __init__(
        self,
        directory: Path,
        database: Database,
        clock: Callable[[], int],
        monotonic: Callable[[], float],
        files: Files | None = None,
    ) -> None:
        self._directory = directory
        self._database = database
        self._clock = clock
        self._monotonic = monotonic
        self._files = files or Files()
        self._id = ""
        self._registered: frozenset[str] = frozenset()
        self._registered_at = 0.0

    async def register(self) -> None:
        """Register the journals that exist: erasures wait for their acknowledgements from now on. Erasures no longer
        wait for journals whose files were removed. Raises the errors of the database, and OSError.
        """
        names = frozenset(self._name(journal) for journal in await asyncio.to_thread(self._oldest_segments))
        now = self._monotonic()
        if names == self._registered and now - self._registered_at < REGISTER_INTERVAL_S:
            return
        async with self._database.write() as connection:
            known = {name for name in await repository.list_journals(connection) if name.startswith(f"{self._id}/")}
            for name in sorted(names):
                await repository.register_journal(connection, name, self._now())
            for name in sorted(known - names):
                await repository.remove_journal(connection, name)
        self._registered, self._registered_at = names, now

    async def acknowledge(self) -> None:
        """Remove erased data outside of segments, and acknowledge the erasures that are older than all segments."""
        oldest = await asyncio.to_thread(self._oldest_segments)
        waiting: dict[str, Sequence[str]] = {}
        erasures: dict[str, repository.StoredErasure] = {}
        async with self._database.read() as connection:
            for journal in oldest:
                waiting[journal] = await repository.list_unacknowledged(connection, self._name(journal))
            for erasure_id in {one for ids in waiting.values() for one in ids}:
                erasures[erasure_id] = await repository.get(connection, erasure_id)
        if not erasures:
            return
        for erasure in erasures.values():
            await asyncio.to_thread(self._remove_files, erasure)
        due = {
            journal: [one for one in ids if self._is_younger(oldest[journal], erasures[one])]
            for journal, ids in waiting.items()
        }
        if any(due.values()):
            async with self._database.write() as connection:
                for journal, ids in due.items():
                    await repository.acknowledge(connection, ids, self._name(journal), self._now())

    def _remove_files(self, erasure: repository.StoredErasure) -> None:
        requested_ns = _nanoseconds(erasure.requested_at)

        def covers(note: quarantine.QuarantineNote) -> bool:
            if note.project_id != erasure.project_id or erasure.kind is not ErasureKind.FILTER:
                return note.project_id == erasure.project_id
            return _nanoseconds(datetime.fromisoformat(note.received)) <= requested_ns

        remove_quarantined(self._directory, covers, self._files)
        remove_damaged(self._directory, requested_ns, self._files)

    def _oldest_segments(self) -> Mapping[str, int | None]:
        if not self._id:
            self._id = self._load_id()
        return oldest_segments(self._directory, self._files)

    def _is_younger(self, oldest_ns: int | None, erasure: repository.StoredErasure) -> bool:
        """Whether a journal whose oldest segment was created at `oldest_ns` has no request from before an erasure."""
        return min(self._clock() if oldest_ns is None else oldest_ns, self._clock()) > (
            _nanoseconds(erasure.requested_at) + MARGIN_NS
        )

    def _load_id(self) -> str:
        path = self._directory / ID_FILE
        try:
            return path.read_text("ascii").strip()
        except FileNotFoundError:
            self._files.make_directory(self._directory)
            own = path.with_name(f"{ID_FILE}-{secrets.token_hex(8)}")
            self._files.close(write_atomic(self._files, own, [f"{secrets.token_hex(8)}\n".encode()]))
            with contextlib.suppress(FileExistsError):  # another worker was faster
                os.link(own, path)
            self._files.unlink(own)
            self._files.sync_directory(self._directory)
            return path.read_text("ascii").strip()

    def _name(self, journal: str) -> str:
        return f"{self._id}/{journal}"

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock() / 10**9, UTC)


def _nanoseconds(time: datetime) -> int:
    return int(time.timestamp() * 10**3) * 10**6
