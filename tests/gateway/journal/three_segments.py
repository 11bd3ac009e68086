"""A journal of three segments, and what may happen to their files."""

from pathlib import Path
from typing import Any

import msgspec

from gateway.journal.storage.segments import segment_name
from tests.gateway.journal.disk import Disk, File
from tests.gateway.journal.rig import FIRST, NO_LIMITS, Rig, segments

SIZE = 12_000  # of a body: five fill a segment
LIMITS = msgspec.structs.replace(NO_LIMITS, segment_bytes=80 * 1024)
EVERYTHING = list(range(1, 16))


def three_segments(disk: Disk) -> Rig:
    """Requests 1 to 15 in three segments, 1, 6 and 11, the last of them open. None is stored."""
    rig = Rig(disk, limits=LIMITS)
    rig.start()
    for number in EVERYTHING:
        write(rig, number)
    assert segments(disk) == [1, 6, 11]
    return rig


def write(rig: Rig, number: int) -> None:
    rig.journal.commit([rig.request(b"%d" % (number % 10) * SIZE)])


def path(first: int) -> Path:
    return FIRST / segment_name(first)


def copy(disk: Disk, source: Path, target: Path) -> None:
    file = disk.files[source]
    disk.files[target] = File(dict(file.pages), file.size, dict(file.pages), file.size)


def cut(disk: Disk, file: Path, length: int) -> None:
    disk.truncate(disk.open(file, write=True), length)


def kill(rig: Rig, *, in_order: bool = False, ticked: bool = True) -> None:
    if ticked and not in_order:
        rig.journal.tick()
    rig.end(in_order=in_order)


def sequences(rig: Rig) -> list[int]:
    found = rig.read()
    assert [entry.request.body[:1] for entry in found] == [b"%d" % (entry.sequence % 10) for entry in found]
    return [entry.sequence for entry in found]


def counted(rig: Rig) -> tuple[float, float]:
    """Lost requests, and those of which nothing is known."""
    metrics = rig.metrics
    return float(metrics.lost_requests._value.get()), float(metrics.uncertain_requests._value.get())


def said(rig: Rig) -> list[tuple[str, dict[str, Any]]]:
    return [(event, fields) for level, event, fields in rig.log.said if level == "error"]


def without(first: int, last: int) -> list[int]:
    return [number for number in EVERYTHING if not first <= number <= last]
