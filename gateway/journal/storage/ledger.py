"""The ledger: a small file beside the segments that records which batches were begun and finished.

`Ledger.append` queues a record; `Ledger.flush` returns when all queued records are on disk, with one sync for all. When
the file has grown too large, a new file that begins with the current state replaces it. The same happens when a record
could not be written: a file whose sync failed is never written to again. Until the new file is on disk there is no
ledger. Records of this time change only the state in memory, with which the new file begins.
"""

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gateway.journal import format as fmt
from gateway.journal.storage.batch_state import BatchState
from gateway.journal.storage.files import Files, JournalContext, rename_durable, write_all, write_temporary
from gateway.journal.storage.scanning import Damage, JournalFrame, build_reader, frames_and_damage, load_file_header

LEDGER_PREFIX: Final = "ledger-"
_COMPACTIONS: Final = 4  # attempts to replace a file before its allocated space is used up


class Ledger:
    """The ledger of one journal; used by one thread. `size` bytes are allocated for a file, so that batches can still
    be finished on a full disk, which frees space.
    """

    def __init__(
        self,
        context: JournalContext,
        directory: Path,
        number: int,
        size: int,
        salt: bytes,
        state: BatchState,
    ) -> None:
        self.state = state
        self._files, self._metrics, self._log = context.files, context.metrics, context.log
        self._directory = directory
        self._number = number  # number of the newest file, intact or not
        self._size = size
        self._salt = salt
        self._seed = fmt.checksum_seed(salt)
        self._clock = context.clock
        self._fd: int | None = None
        self._pending: list[fmt.Record] = []
        self._record_count = 0  # in the file
        self._end = 0
        self._compact_at = 0
        self._failing = False

    @property
    def path(self) -> Path:
        """The file; it exists while `is_flushed`."""
        return ledger_path(self._directory, self._number)

    @property
    def length(self) -> int:
        """Bytes of the file that are written and synced."""
        return self._end

    @property
    def is_flushed(self) -> bool:
        """Whether all records are on disk."""
        return self._fd is not None and not self._pending

    def append(self, record: fmt.Record) -> None:
        """Apply a record to the state at once; it is on disk after the next flush."""
        self.state.apply(record)
        if self._fd is not None:  # without a file, the next file begins with the state, which includes the record
            self._pending.append(record)

    def flush(self) -> None:
        """Write all queued records; they are on disk when this returns. After an OSError they remain applied."""
        try:
            if self._fd is None:
                self._rotate()
            elif self._pending:
                self._write_pending(self._fd)
        except OSError as error:
            self._on_io_error(error)
            raise
        self._on_io_recovered()
        if self._end >= self._compact_at:
            self._compact()

    def close(self) -> None:
        """Close the file without writing."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            self._files.close(fd)

    def _write_pending(self, fd: int) -> None:
        frames = _encode_frames(self._pending, self._record_count + 1, self._seed)
        try:
            end = write_all(self._files, fd, frames, self._end)
            self._files.sync(fd)
        except OSError as error:
            self._on_io_error(error)
            with contextlib.suppress(OSError):
                self.close()
            self._rotate()
            return
        self._record_count += len(self._pending)
        self._pending.clear()
        self._end = fmt.align_to_page(end)

    def _rotate(self) -> None:
        """Replace the file by a new one with the current state. Raises OSError."""
        older = self._number
        path = ledger_path(self._directory, older + 1)
        pieces = encode_ledger(self.state, self._salt, self._clock())
        end = fmt.align_to_page(sum(map(len, pieces)))
        fd = write_temporary(self._files, path, pieces, end + self._size)
        self._number += 1
        self.close()  # from here on, the next start may find either file
        try:
            rename_durable(self._files, path)
        except OSError:
            self._files.close(fd)
            raise
        self._fd, self._record_count, self._end, self._compact_at = (
            fd,
            len(pieces) - 1,
            end,
            end + self._size // _COMPACTIONS,
        )
        self._pending.clear()
        self.state.observe(self.state.next_sequence - 1)
        with contextlib.suppress(OSError):  # the next start ignores it, and removes it
            self._files.unlink(ledger_path(self._directory, older))

    def _compact(self) -> None:
        """Replace a file that has grown. If that fails, the current file stays in use."""
        try:
            self._rotate()
        except OSError as error:
            self._metrics.failures.labels("ledger").inc()
            self._log.warning("the journal ledger cannot be compacted; retrying later", error=str(error))
            self._compact_at += self._size // _COMPACTIONS

    def _on_io_error(self, error: OSError) -> None:
        """Count every error; log once per outage."""
        self._metrics.failures.labels("ledger").inc()
        if not self._failing:
            self._failing = True
            self._log.error("the journal ledger cannot be written", error=str(error))

    def _on_io_recovered(self) -> None:
        if self._failing:
            self._failing = False
            self._log.warning("the journal ledger can be written again")


def ledger_path(directory: Path, number: int) -> Path:
    """The path of the ledger with this number."""
    return directory / f"{LEDGER_PREFIX}{number:08d}"


def encode_ledger(state: BatchState, salt: bytes, now_ns: int) -> list[bytes]:
    """The contents of a ledger that describes `state`: its header, and one frame per record."""
    header = fmt.FileHeader(fmt.LEDGER, state.next_sequence, now_ns, salt)
    return [fmt.pack_file_header(header), *_encode_frames(list(state.snapshot()), 1, fmt.checksum_seed(salt))]


def _encode_frames(records: Sequence[fmt.Record], first: int, seed: int) -> list[bytes]:
    return [
        fmt.pack_frame(seed, kind, payload, sequence=number, group=first)
        for number, (kind, payload) in enumerate(map(fmt.encode_record, records), first)
    ]


class LedgerFile(NamedTuple):
    """The contents of a ledger file."""

    header: fmt.FileHeader | None
    records: Sequence[fmt.Record]
    damaged_records: int  # unreadable records that were on disk; a damaged header counts as one


def ledger_numbers(names: Iterable[str]) -> list[int]:
    """The numbers of the ledgers among the file names of a journal, newest first."""
    found = (name.removeprefix(LEDGER_PREFIX) for name in names if name.startswith(LEDGER_PREFIX))
    return sorted((int(number) for number in found if number.isdigit()), reverse=True)


def read_ledger(files: Files, path: Path, salts: Iterable[bytes]) -> LedgerFile:
    """The readable records of a ledger. If its header is damaged, `salts` are tried. Raises OSError."""
    with files.opened(path) as fd:
        header = load_file_header(files, fd)
        size = files.size(fd)
        for salt in salts if header is None else [header.salt]:
            read_file = build_reader(files, fd)
            parts = list(frames_and_damage(read_file, fmt.checksum_seed(salt), fmt.PAGE, size, 0))
            records = [
                record
                for part in parts
                if not isinstance(part, Damage)
                and (record := fmt.decode_record(part.header.kind, part.payload)) is not None
            ]
            if records or header is not None:
                return LedgerFile(header, records, _count_damaged(parts) + (header is None))
        return LedgerFile(header, (), 1)


def _count_damaged(parts: Sequence[JournalFrame | Damage]) -> int:
    """The number of missing records that were once on disk. Records of the last group do not count, because it may
    never have been synced, unless it is the first group, with which the file is created. 1 if the file has no record.
    """
    headers = [part.header for part in parts if isinstance(part, JournalFrame)]
    if not headers:
        return 1
    created = max((header.sequence for header in headers if header.group == 1), default=0)
    synced = max(created, max(header.group for header in headers) - 1)
    missing = (part.missing(0) for part in parts if isinstance(part, Damage))
    return sum(max(min(last, synced) - first + 1, 0) for first, last in missing) + _is_creation_cut(parts)


def _is_creation_cut(parts: Sequence[JournalFrame | Damage]) -> bool:
    """Whether the end of the first group is missing. A later group would begin on a page boundary."""
    end = parts[-1]
    has_others = any(isinstance(part, JournalFrame) and part.header.group > 1 for part in parts)
    return isinstance(end, Damage) and end.last is None and not has_others and end.start % fmt.PAGE != 0
