"""`sluice journal`: what the journals of a gateway hold, whether it can be read, and what was set aside put back.

    inspect    every journal, the quarantine and what is damaged; quick, also while the gateway runs
    verify     every frame of every segment is read; 1 when any is damaged
    requeue    requests of the quarantine go back into the way to ClickHouse

None shows a body or a key: counts, sizes, times, project ids, reasons.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from chassis.errors import StartupError
from chassis.runtime.telemetry import redact_text
from gateway.journal.format import frames as fmt
from gateway.journal.storage.corruption_store import DamageNote
from gateway.journal.storage.segments import SEGMENT_SUFFIX
from gateway.journal.tools import inspection
from gateway.journal.tools.inspection import JournalFacts, QuarantinedRequest, SegmentFacts, SegmentReport
from gateway.settings import GatewaySettings
from sluice.settings_sources import SettingsSources

_REASON_CHARS: Final = 80  # the whole reason is in the .json beside the file, and in --json


class InspectResult(msgspec.Struct, frozen=True):
    """What `inspect --json` prints."""

    directory: str
    journals: Sequence[JournalFacts]
    quarantine: Sequence[QuarantinedRequest]
    damaged: Sequence[DamageNote]


def run(arguments: argparse.Namespace) -> int:
    """Do one of the three; the exit code. Raises StartupError: no journal, damage, a name that is none."""
    directory = journal_directory(SettingsSources.from_arguments(arguments))
    if not directory.is_dir():
        raise StartupError(
            f"There is no journal at {directory}; --data or SLUICE_GATEWAY_JOURNAL_DIR says where it is."
        )
    try:
        return _ACTIONS[arguments.action](directory.absolute(), arguments)
    except OSError as error:
        raise StartupError(f"The journal at {directory} cannot be read: {error}.") from error


def journal_directory(options: SettingsSources) -> Path:
    """Where the journals of a gateway with these settings are."""
    return options.load(GatewaySettings).journal_directory(options.chassis_settings().data_dir)


def _inspect(directory: Path, arguments: argparse.Namespace) -> int:
    found = InspectResult(
        str(directory),
        inspection.inspect(directory),
        list(inspection.list_quarantined(directory)),
        inspection.list_damaged(directory),
    )
    if arguments.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
        return 0
    print(f"Journals in {directory}")
    _table(_JOURNAL_COLUMNS, [_journal_row(facts) for facts in found.journals])
    _table(
        _BATCH_COLUMNS, [row for facts in found.journals for row in _batch_rows(facts)], "Batches that are not finished"
    )
    _table(_QUARANTINE_COLUMNS, [_quarantine_row(one) for one in found.quarantine], "Quarantine")
    _table(_DAMAGE_COLUMNS, [_damage_row(note) for note in found.damaged], "Damaged bytes that were kept")
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
        if faults and (again := inspection.verify_segment(path)) is not None:  # it may have been written to meanwhile
            faults = [fault for fault in _faults(again, known.get(path)) if fault in faults]
        bad += bool(faults)
        _print_result(not faults, f"{path.parent.name}/{path.name}", ", ".join(faults) or _contents(found))
    for one in inspection.list_quarantined(directory, verify=True):
        bad += not one.whole
        _print_result(bool(one.whole), f"quarantine/{one.name}", "whole" if one.whole else "cannot be read")
    for facts in inspection.inspect(directory):
        if facts.damaged_records:
            bad += 1
            _print_result(
                False, f"{Path(facts.directory).name}/ledger", f"{facts.damaged_records} records cannot be read"
            )
    if bad:
        files = f"{bad} files are" if bad > 1 else "1 file is"
        raise StartupError(f"{files} damaged; what can be read in them is stored all the same, see docs/operations.md.")
    return 0


def _requeue(directory: Path, arguments: argparse.Namespace) -> int:
    if arguments.all == bool(arguments.names):
        raise StartupError("Name the files that are to be put back, as `inspect` lists them, or --all.", exit_code=2)
    names = None if arguments.all else [name.removesuffix(SEGMENT_SUFFIX) + SEGMENT_SUFFIX for name in arguments.names]
    there = {one.name for one in inspection.list_quarantined(directory)}
    unknown = sorted(set(names or ()) - there)
    if unknown:
        raise StartupError(f"The quarantine has no {unknown[0]}; `sluice journal inspect` lists what it has.")
    done = inspection.requeue(directory, names, time.time_ns())
    if done.journal is not None:
        print(
            f"{done.requests} put back as the journal {done.journal.name}: a running gateway takes it within seconds,"
        )
        print("else the next one that starts does.")
    elif not done.unreadable:
        print("The quarantine is empty.")
    if done.unreadable:
        raise StartupError(f"{len(done.unreadable)} cannot be read and stay: {', '.join(done.unreadable)}.")
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
_BATCH_COLUMNS: Final = ("journal", "batch", "made", "requests", "blocks stored")
_QUARANTINE_COLUMNS: Final = ("set aside", "project", "signal", "items", "size", "file", "reason")
_DAMAGE_COLUMNS: Final = ("found", "journal", "segment", "bytes", "requests lost", "project")


def _journal_row(facts: JournalFacts) -> Sequence[object]:
    segments = facts.segments
    versions = sorted({segment.version for segment in segments if segment.version is not None})
    state = "in use" if facts.taken else "closed" if facts.clean else "left by a process that was killed"
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
    """Requests; what the ledger does not know of yet is being written."""
    known = sum(segment.unfinished or 0 for segment in segments)
    return f"{known} and the last segment" if any(segment.unfinished is None for segment in segments) else str(known)


def _oldest(segments: Sequence[SegmentFacts]) -> str:
    """When the first segment was begun of which something is not stored, or may not be."""
    return next(
        (
            _time_ns(segment.created_ns)
            for segment in segments
            if segment.unfinished != 0 and segment.created_ns is not None
        ),
        "-",
    )


def _batch_rows(facts: JournalFacts) -> Iterable[Sequence[object]]:
    for one in facts.batches:
        yield Path(facts.directory).name, one.batch, _time_ns(one.made_ms * 10**6), one.requests, one.stored


def _quarantine_row(one: QuarantinedRequest) -> Sequence[object]:
    note = one.note
    if note is None:
        return "-", "-", "-", "-", "-", one.name, "its note cannot be read"
    reason = redact_text(" ".join(note.reason.split()))
    shown = reason if len(reason) <= _REASON_CHARS else f"{reason[:_REASON_CHARS]}..."
    return note.set_aside, note.project_id, note.signal, note.items, _size(note.bytes), one.name, shown


def _damage_row(note: DamageNote) -> Sequence[object]:
    lost = ", ".join(f"{first} to {last}" for first, last in note.sequences) or "none"
    project = "-" if note.project_id is None else note.project_id
    return note.found, note.journal, note.segment, f"{note.start} to {note.end}", lost, project


def _faults(found: SegmentReport, known: SegmentFacts | None) -> list[str]:
    """What is wrong with a segment. An end that is torn is not: nothing there was acknowledged, unless the ledger knows
    of more.
    """
    if found.version is not None and found.version > fmt.VERSION:
        return [f"written by a newer release in version {found.version} of the format, and not read"]
    faults = ["its header cannot be read"] if found.version is None else []
    for gone in found.damaged:
        if gone.last is not None:
            whose = "" if gone.project_id is None else f" of project {gone.project_id}"
            faults.append(f"bytes {gone.start} to {gone.end} are damaged, requests {gone.first} to {gone.last}{whose}")
    if known is not None and known.requests is not None and known.requests > found.requests and not faults:
        faults.append(f"{known.requests - found.requests} requests at its end are missing")
    return [*faults, "the disk did not give all of it"] if found.unreadable else faults


def _contents(found: SegmentReport) -> str:
    return f"{found.requests} requests, {found.items} items, {_size(found.bytes)}"


def _print_result(ok: bool, name: str, detail: str) -> None:
    print(f"{'ok ' if ok else 'BAD'}  {name}  {detail}", flush=True)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Columns as wide as they need to be; nothing at all where a table with a title has no rows."""
    if title and not rows:
        return
    if title:
        print(f"\n{title}")
    texts = [head, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in texts) for place in range(len(head))]
    for line in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _size(nbytes: int) -> str:
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes >= 2**power:
            return f"{nbytes / 2**power:.1f} {unit}"
    return f"{nbytes} B"


def _time_ns(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 10**9, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
