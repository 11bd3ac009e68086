"""A power cut, after the fact: files lose what was written to them and not synced.

preload.c logs, before each change, what it needs; the page cache, and with it the log, outlives the process. The model
is the strictest that POSIX allows:

    content   a page is on disk as it was at the last fsync or fdatasync of its file; what came after is lost, or, page
              by page, as chance has it, kept: the kernel may have written it on its own
    names     a file is created, renamed or removed once its directory is synced. Before that all is undone, or, as
              chance has it, what came after some moment: file systems do these things in order
    errors    after a sync that failed the pages that it was about are lost, whatever later syncs say, unless they are
              written again: Linux marks them clean
"""

import os
import random
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = 4096
_RECORD: Final = struct.Struct("=c7xQQqqqQQ")


class Cut(NamedTuple):
    """What a power cut took, and what it left by chance."""

    pages_lost: int
    pages_kept: int
    names_undone: int
    names_kept: int


class _Entry(NamedTuple):
    kind: str
    inode: int
    other: int
    offset: int
    length: int
    size: int
    paths: list[Path]
    data: bytes


@dataclass
class _Volatile:
    """What a file has that its disk has not: by page, what the disk has instead."""

    pages: dict[int, bytes] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)  # pages that no sync writes any more
    size: int | None = None  # of the file on disk, if that is another one

    def change(self, entry: _Entry) -> None:
        """A write, or another size."""
        if self.size is None:
            self.size = entry.size
        first, last = entry.offset // PAGE, (entry.offset + entry.length) // PAGE
        for page in range(first, last):
            self.failed.discard(page)
            begin = page * PAGE - entry.offset
            self.pages.setdefault(page, entry.data[begin : begin + PAGE])

    def synced(self) -> None:
        """All of it is on disk, but for what a failed sync has lost."""
        self.pages = {page: self.pages[page] for page in self.failed if page in self.pages}
        if not self.pages:
            self.size = None


def cut(log: Path, chance: random.Random | None) -> Cut:
    """Put the files of the log back, and begin a new log. Without `chance` everything unsynced is lost."""
    files: dict[int, _Volatile] = {}
    names: list[_Entry] = []
    for entry in _entries(log / "log"):
        volatile = files.setdefault(entry.inode, _Volatile())
        if entry.kind == "W":
            volatile.change(entry)
        elif entry.kind == "S":
            volatile.synced()
        elif entry.kind == "F":
            volatile.failed.update(volatile.pages)
        elif entry.kind == "D":
            names = [name for name in names if not _in_directory(name, entry.paths[0])]
        else:
            names.append(entry)
    lost = kept = 0
    for inode, volatile in files.items():
        if volatile.size is not None:
            survivors = _put_back(log / str(inode), volatile, chance)
            kept += survivors
            lost += len(volatile.pages) - survivors
    remaining = chance.randint(0, len(names)) if chance else 0
    for entry in reversed(names[remaining:]):
        _undo(log, entry)
    for file in log.iterdir():
        file.unlink()
    return Cut(lost, kept, len(names) - remaining, remaining)


def _entries(log: Path) -> Iterator[_Entry]:
    if not log.exists():
        return
    with log.open("rb") as file:
        while head := file.read(_RECORD.size):
            kind, inode, other, offset, length, size, path_size, data_size = _RECORD.unpack(head)
            paths = [Path(os.fsdecode(path)) for path in file.read(path_size).split(b"\0")[:-1]]
            yield _Entry(kind.decode(), inode, other, offset, length, size, paths, file.read(data_size))


def _in_directory(name: _Entry, directory: Path) -> bool:
    """Whether the change is on disk once this directory is. One between two directories never is: nobody does that."""
    return {path.parent for path in name.paths} == {directory}


def _put_back(file: Path, volatile: _Volatile, chance: random.Random | None) -> int:
    """Undo what is volatile of a file; how many pages chance has kept."""
    on_disk, now = volatile.size or 0, file.stat().st_size
    kept = {
        page
        for page in sorted(volatile.pages.keys() - volatile.failed)
        if chance and chance.random() < 0.5 and page * PAGE < now
    }
    longer = chance is not None and chance.random() < 0.5  # the size may have reached the disk without its pages
    size = max(on_disk, now if longer else max((min(now, (page + 1) * PAGE) for page in kept), default=0))
    with file.open("r+b") as out:
        for page, old in volatile.pages.items():
            if page not in kept:
                out.seek(page * PAGE)
                out.write(old.ljust(PAGE, b"\0"))
        out.truncate(size)
    return len(kept)


def _undo(log: Path, entry: _Entry) -> None:
    path = entry.paths[0]
    if entry.kind == "C":
        path.unlink(missing_ok=True)
    elif entry.kind == "U":
        os.link(log / str(entry.inode), path)
    elif entry.kind == "M":
        shutil.rmtree(path)
    elif entry.kind == "X":
        path.mkdir(mode=0o700)
    elif entry.kind == "R":
        entry.paths[1].rename(path)
        if entry.other:
            os.link(log / str(entry.other), entry.paths[1])
