"""`sluice journal`: shows and verifies the journals of a gateway, and requeues quarantined requests.

    inspect    shows every journal, the quarantine and damaged bytes; fast, also while the gateway runs
    verify     reads every frame of every segment; exit code 1 if one is damaged or missing
    requeue    requeues quarantined requests for insertion into ClickHouse

The output has counts, sizes, times, project ids and reasons, but no request body and no key.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from chassis.errors import StartupError
from chassis.runtime.telemetry import redact_text
from gateway.journal import format as fmt
from gateway.journal import inspection
from gateway.journal.inspection import JournalFacts, QuarantinedRequest, SegmentFacts, SegmentReport
from gateway.journal.requeue import requeue
from gateway.journal.storage.files import Files
from gateway.journal.storage.quarantine import DamageNote
from gateway.journal.storage.segments import SEGMENT_SUFFIX, segment_name
from gateway.settings import GatewaySettings
from sluice.settings_sources import SettingsSources

_REASON_CHARS: Final = 80  # the full reason is in the file's .json, and in the output of --json


class InspectResult(msgspec.Struct, frozen=True):
    """The output of `inspect --json`."""

    directory: str
    journals: Sequence[JournalFacts]
    quarantine: Sequence[QuarantinedRequest]
    damaged: Sequence[DamageNote]


def run(arguments: argparse.Namespace) -> int:
    """Run the action; the exit code. Raises StartupError for a missing journal, damage, or an unknown name."""
    directory = journal_directory(SettingsSources.from_arguments(arguments))
    if not directory.is_dir():
        raise StartupError(
            f"There is no journal at {directory}; --data or SLUICE_GATEWAY_JOURNAL_DIR selects the directory."
        )
    try:
        return _ACTIONS[arguments.action](directory.absolute(), arguments)
    except OSError as error:
        raise StartupError(f"The journal at {directory} cannot be read: {error}.") from error


def journal_directory(sources: SettingsSources) -> Path:
    """The directory of the journals of a gateway with these settings."""
    return sources.load(GatewaySettings).journal_directory(sources.chassis_settings().data_dir)


def _inspect(directory: Path, arguments: argparse.Namespace) -> int:
    found = InspectResult(
        str(directory),
        inspection.inspect(directory),
        list(inspection.list_quarantined(directory)),
        inspection.list_damaged(directory),
    )
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return 0
    print(f"Journals in {directory}")
    _table(_JOURNAL_COLUMNS, [_journal_row(facts) for facts in found.journals])
    _table(_BATCH_COLUMNS, [row for facts in found.journals for row in _batch_rows(facts)], "Unfinished batches")
    _table(_QUARANTINE_COLUMNS, [_quarantine_row(one) for one in found.quarantine], "Quarantine")
    _table(_MISSING_COLUMNS, [row for facts in found.journals for row in _missing_rows(facts)], "Missing requests")
    _table(_DAMAGE_COLUMNS, [_damage_row(note) for note in found.damaged], "Damaged and lost")
    return 0


def _verify(directory: Path, _arguments: argparse.Namespace) -> int:
    known = {
        Path(facts.directory, segment.name): segment
        for facts in inspection.inspect(directory)
        for segment in facts.segments
    }
    bad = 0
    for found in inspection.verify(directory):
        path = Path(found.path)
        faults = _faults(found, known.get(path))
        # The gateway may have written to the segment meanwhile: report only faults that a second pass confirms.
        if faults and (again := inspection.verify_segment(path)) is not None:
            faults = [fault for fault in _faults(again, known.get(path)) if fault in faults]
        bad += bool(faults)
        _print_result(not faults, f"{path.parent.name}/{path.name}", ", ".join(faults) or _contents(found))
    for request in inspection.list_quarantined(directory, verify=True):
        bad += not request.whole
        _print_result(
            bool(request.whole),
            f"quarantine/{request.name}",
            "intact" if request.whole else "cannot be read",
        )
    for facts in inspection.inspect(directory):
        if facts.damaged_records:
            bad += 1
            _print_result(
                False, f"{Path(facts.directory).name}/ledger", f"{facts.damaged_records} records cannot be read"
            )
        for (first, last), segment in zip(facts.missing, facts.missing_segments, strict=True):
            bad += 1
            _print_result(False, f"{Path(facts.directory).name}/{segment}", f"is missing, requests {first} to {last}")
    if bad:
        files = f"{bad} files are" if bad > 1 else "1 file is"
        raise StartupError(
            f"{files} damaged or missing. A gateway still stores all intact requests. docs/operations.md "
            "(SluiceJournalDamaged) describes what to do."
        )
    return 0


def _requeue(directory: Path, arguments: argparse.Namespace) -> int:
    if arguments.all == bool(arguments.names):
        raise StartupError(
            "Name the files to requeue (`sluice journal inspect` lists them), or use --all.", exit_code=2
        )
    names = None if arguments.all else [name.removesuffix(SEGMENT_SUFFIX) + SEGMENT_SUFFIX for name in arguments.names]
    known = {one.name for one in inspection.list_quarantined(directory)}
    unknown = sorted(set(names or ()) - known)
    if unknown:
        raise StartupError(f"The quarantine has no {unknown[0]}; `sluice journal inspect` lists its files.")
    result = requeue(Files(), directory, names, time.time_ns)
    if result.journal is not None:
        print(f"Requests requeued as journal {result.journal.name}: {result.requests}.")
        print(
            "A running gateway stores them within seconds; if none is running, the next gateway that starts stores "
            "them."
        )
    elif not result.unreadable:
        print("The quarantine is empty.")
    if result.unreadable:
        raise StartupError(f"These files cannot be read and stay in the quarantine: {', '.join(result.unreadable)}.")
    return 0


_ACTIONS: Final[Mapping[str, Callable[[Path, argparse.Namespace], int]]] = {
    "inspect": _inspect,
    "verify": _verify,
    "requeue": _requeue,
}

_JOURNAL_COLUMNS: Final = (
    "journal",
    "state",
    "format",
    "segments",
    "sequences",
    "size",
    "not stored",
    "open batches",
    "oldest",
)
_BATCH_COLUMNS: Final = ("journal", "batch", "created", "requests", "blocks stored")
_MISSING_COLUMNS: Final = ("journal", "requests", "first segment")
_QUARANTINE_COLUMNS: Final = ("quarantined", "project", "signal", "items", "size", "file", "reason")
_DAMAGE_COLUMNS: Final = ("found", "journal", "segment", "bytes", "requests lost", "project")


def _journal_row(facts: JournalFacts) -> Sequence[object]:
    segments = facts.segments
    versions = sorted({segment.version for segment in segments if segment.version is not None})
    state = "in use" if facts.taken else "closed" if facts.clean else "left by a killed process"
    return (
        Path(facts.directory).name,
        state,
        "/".join(map(str, versions)) or "-",
        len(segments),
        f"{segments[0].first} to {segments[-1].last or '...'}" if segments else "-",
        _size(sum(segment.bytes for segment in segments)),
        _not_stored(segments),
        len(facts.batches),
        _oldest(segments),
    )


def _not_stored(segments: Sequence[SegmentFacts]) -> str:
    """The number of requests that are not stored. The ledger does not count requests of the segment that is being
    written."""
    known = sum(segment.unfinished or 0 for segment in segments)
    return f"{known} and the last segment" if any(segment.unfinished is None for segment in segments) else str(known)


def _oldest(segments: Sequence[SegmentFacts]) -> str:
    """The time when the oldest segment was created that may have requests which are not stored."""
    return next(
        (
            _time_ns(segment.created_ns)
            for segment in segments
            if segment.unfinished != 0 and segment.created_ns is not None
        ),
        "-",
    )


def _batch_rows(facts: JournalFacts) -> Iterable[Sequence[object]]:
    for batch in facts.batches:
        yield Path(facts.directory).name, batch.batch, _time_ns(batch.made_ms * 10**6), batch.requests, batch.stored


def _missing_rows(facts: JournalFacts) -> Iterable[Sequence[object]]:
    for (first, last), segment in zip(facts.missing, facts.missing_segments, strict=True):
        yield Path(facts.directory).name, f"{first} to {last}", segment


def _quarantine_row(request: QuarantinedRequest) -> Sequence[object]:
    note = request.note
    if note is None:
        return "-", "-", "-", "-", "-", request.name, "its metadata cannot be read"
    reason = redact_text(" ".join(note.reason.split()))
    shown = reason if len(reason) <= _REASON_CHARS else f"{reason[:_REASON_CHARS]}..."
    return note.set_aside, note.project_id, note.signal, note.items, _size(note.bytes), request.name, shown


def _damage_row(note: DamageNote) -> Sequence[object]:
    lost = ", ".join(f"{first} to {last}" for first, last in note.sequences) or "none"
    lost = f"{lost} (unknown)" if note.uncertain else lost
    project = "-" if note.project_id is None else note.project_id
    return note.found, note.journal, note.segment, f"{note.start} to {note.end}", lost, project


def _faults(report: SegmentReport, facts: SegmentFacts | None) -> list[str]:
    """The faults of a segment. A torn end is not a fault, because its requests were not acknowledged, unless the ledger
    records more requests than the segment has.
    """
    if report.version is not None and report.version > fmt.VERSION:
        return [f"written by a newer release (format version {report.version}), not read"]
    faults = ["its header cannot be read"] if report.version is None else []
    if report.first is not None and segment_name(report.first) != Path(report.path).name:
        faults.append(f"is a copy of {segment_name(report.first)}, or is that segment under another name")
    for lost in report.damaged:
        if lost.last is not None:
            owner = "" if lost.project_id is None else f" of project {lost.project_id}"
            faults.append(f"bytes {lost.start} to {lost.end} are damaged, requests {lost.first} to {lost.last}{owner}")
    if report.shared:
        faults.append(
            f"overlaps {report.shared_with}: {report.shared} requests of this segment have the same sequences as "
            f"requests of {report.shared_with}"
        )
    if facts is not None and facts.requests is not None and facts.requests > report.requests and not faults:
        faults.append(f"{facts.requests - report.requests} requests at its end are missing")
    return [*faults, "read error: the disk did not return the whole file"] if report.unreadable else faults


def _contents(report: SegmentReport) -> str:
    return f"{report.requests} requests, {report.items} items, {_size(report.bytes)}"


def _print_result(ok: bool, name: str, detail: str) -> None:
    print(f"{'ok ' if ok else 'BAD'}  {name}  {detail}", flush=True)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Print a table with aligned columns; nothing if it has a title and no rows."""
    if title and not rows:
        return
    if title:
        print(f"\n{title}")
    texts = [head, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in texts) for column in range(len(head))]
    for line in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _size(nbytes: int) -> str:
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes >= 2**power:
            return f"{nbytes / 2**power:.1f} {unit}"
    return f"{nbytes} B"


def _time_ns(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 10**9, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
