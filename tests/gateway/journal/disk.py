"""A disk in memory that behaves as disks do: what was not synced may be there after a crash or not, page by page and
name by name; it can be full, fail, and lose bits. It stands in for what is not ours
(`gateway.journal.storage.files.Files`).
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from gateway.journal.storage.files import Files

PAGE = 4096
SECTOR = 512
GARBAGE = b"\xa5"


class PowerLoss(BaseException):
    """The machine stops at this operation."""


@dataclass(eq=False)
class File:
    """Pages that are not in `pages` are zeros."""

    pages: dict[int, bytes] = field(default_factory=dict)  # as a reader sees them
    size: int = 0
    durable: dict[int, bytes] = field(default_factory=dict)
    durable_size: int = 0
    dirty: set[int] = field(default_factory=set)
    unreadable: set[int] = field(default_factory=set)

    def get(self, page: int) -> bytes:
        return self.pages.get(page, bytes(PAGE))

    def content(self) -> bytes:
        return b"".join(self.get(page) for page in range((self.size + PAGE - 1) // PAGE))[: self.size]

    def sync(self) -> None:
        for page in self.dirty:
            self._write_back(page)
        self.durable_size = self.size
        self.durable = {page: data for page, data in self.durable.items() if page * PAGE < self.size}
        self.dirty.clear()

    def sync_in_part(self, random: Random) -> None:
        """Some pages reach the disk, some are destroyed; the system takes all of them for written."""
        for page in sorted(self.dirty):
            choice = random.randrange(3)
            if choice == 1:
                self._write_back(page)
            elif choice == 2:
                self.durable[page] = GARBAGE * PAGE
        self.dirty.clear()

    def _write_back(self, page: int) -> None:
        if page in self.pages:
            self.durable[page] = self.pages[page]
        else:
            self.durable.pop(page, None)

    def lose_power(self, random: Random) -> None:
        """What is not synced is there or not; of a page, what was written of its sectors. One that was just being
        written may be neither the old nor the new one.
        """
        for page in sorted(self.dirty):
            choice = random.randrange(3)
            if choice == 1:
                self._write_back(page)
            elif choice == 2:
                self.durable[page] = self._torn(page, random)
        if random.random() < 0.5:
            self.durable_size = self.size
        self.pages = {page: data for page, data in self.durable.items() if page * PAGE < self.durable_size}
        self.durable = dict(self.pages)
        self.size = self.durable_size
        self.dirty.clear()

    def _torn(self, page: int, random: Random) -> bytes:
        old, new = self.durable.get(page, bytes(PAGE)), self.get(page)
        sectors = (random.choice((old, new, GARBAGE * PAGE))[at : at + SECTOR] for at in range(0, PAGE, SECTOR))
        return b"".join(sectors)


class Disk(Files):
    """`fail(operation, ...)` makes the next one of that name fail."""

    def __init__(self, seed: int = 0) -> None:
        self.random = Random(seed)
        self.files: dict[Path, File] = {}
        self.directories: set[Path] = {Path("/")}
        self.free = 2**40
        self.operations: list[str] = []  # what was done, for messages
        self.stop_at: int | None = None  # so many operations more, and then power is lost
        self._durable_files: dict[Path, File] = {}
        self._durable_directories: set[Path] = {Path("/")}
        self._pending: list[tuple[Path, Callable[[], object]]] = []  # changes of directories that are not synced
        self._descriptors: dict[int, File] = {}
        self._broken: set[int] = set()  # descriptors whose sync failed
        self._locks: dict[int, Path] = {}
        self._next = 3
        self._failures: dict[str, list[int]] = {}

    def fail(self, operation: str, error: int, times: int = 1) -> None:
        self._failures.setdefault(operation, []).extend([error] * times)

    def heal(self) -> None:
        self._failures.clear()
        self.free = 2**40

    @property
    def ailing(self) -> bool:
        return bool(self._failures) or self.free < 2**40

    def lose_power(self) -> None:
        """After this the disk is what the next process finds."""
        for _, change in self._pending:
            if self.random.random() < 0.5:
                change()
        self._pending = []
        self.files = dict(self._durable_files)
        self.directories = set(self._durable_directories)
        for file in dict.fromkeys(self.files.values()):
            file.lose_power(self.random)
        self._forget_process()

    def settle(self) -> None:
        """Everything that was written is on the disk, also what a test did to `files`."""
        self._pending = []
        self._durable_files = dict(self.files)
        for file in self.files.values():
            file.sync()

    def kill_process(self) -> None:
        """The next process finds everything as it was written."""
        self._forget_process()

    def _forget_process(self) -> None:
        self._descriptors.clear()
        self._broken.clear()
        self._locks.clear()
        self._failures.clear()
        self.stop_at = None

    def written(self, path: Path) -> int:
        """Bytes of a file up to the last page that was ever written."""
        return PAGE * (max(self.files[path].pages, default=-1) + 1)

    def flip(self, path: Path, bit: int) -> None:
        """A bit is another one when it is read again."""
        file = self.files[path]
        page, at = divmod(bit // 8, PAGE)
        data = bytearray(file.get(page))
        data[at] ^= 1 << bit % 8
        file.pages[page] = file.durable[page] = bytes(data)

    def holds(self, data: bytes) -> bool:
        """Whether it is in any file."""
        return any(data in file.content() for file in self.files.values())

    def give_up(self) -> None:
        raise PowerLoss

    # What the journal calls.

    def create(self, path: Path) -> int:
        self._did("create", path)
        if path in self.files:
            raise FileExistsError(errno.EEXIST, "exists", str(path))
        self._require(path.parent)
        file = File()
        self.files[path] = file
        self._later(path.parent, lambda: self._durable_files.update({path: file}))
        return self._descriptor(file)

    def open(self, path: Path, *, write: bool = False) -> int:
        self._did("open_write" if write else "open", path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return self._descriptor(self.files[path])

    def allocate(self, fd: int, size: int) -> None:
        self._did("allocate", fd)
        file = self._file(fd)
        self._take(max(size - file.size, 0))
        file.size = max(file.size, size)

    def write(self, fd: int, pieces: Sequence[bytes], offset: int) -> int:
        self._did("write", fd)
        file = self._file(fd)
        self._refuse_broken(fd)
        data = b"".join(pieces)
        growth = offset + len(data) - file.size
        if growth > 0 and growth > self.free:
            data = data[: max(len(data) - (growth - self.free), 0)]
            if not data:
                raise OSError(errno.ENOSPC, "no space")
        halved = "rest" in self._failures  # the disk takes a part, and fails at the next call
        if halved:
            self._failures["write"] = self._failures.pop("rest")
        if len(data) > 1 and (halved or self.random.random() < 0.1):
            data = data[: self.random.randrange(1, len(data))]  # a short write, which is no error
        self._take(max(offset + len(data) - file.size, 0))
        self._store(file, data, offset)
        return len(data)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        file = self._file(fd)
        size = max(min(size, file.size - offset), 0)
        pages = range(offset // PAGE, (offset + size + PAGE - 1) // PAGE)
        if file.unreadable.intersection(pages):
            raise OSError(errno.EIO, "unreadable")
        data = b"".join(file.get(page) for page in pages)
        return data[offset % PAGE : offset % PAGE + size]

    def drop_page_cache(self, fd: int) -> None:
        file = self._file(fd)
        dirty = {page: data for page, data in file.pages.items() if page in file.dirty}
        file.pages = {page: data for page, data in file.durable.items() if page not in file.dirty} | dirty

    def size(self, fd: int) -> int:
        return self._file(fd).size

    def truncate(self, fd: int, size: int) -> None:
        self._did("truncate", fd)
        file = self._file(fd)
        for page in [page for page in file.pages if page * PAGE >= size]:
            del file.pages[page]
            file.dirty.add(page)
        if size % PAGE and size // PAGE in file.pages:
            self._store(file, bytes(PAGE - size % PAGE), size)
        file.size = size

    def sync(self, fd: int) -> None:
        file = self._file(fd)
        self._refuse_broken(fd)
        try:
            self._did("sync", fd)
        except OSError:
            self._broken.add(fd)
            file.sync_in_part(self.random)
            raise
        file.sync()

    def close(self, fd: int) -> None:
        del self._descriptors[fd]
        self._locks.pop(fd, None)

    def rename(self, old: Path, new: Path) -> None:
        self._did("rename", new)
        if old in self.directories:
            self._rename_directory(old, new)
            return
        file = self.files.pop(old)
        self.files[new] = file

        def change() -> None:
            self._durable_files.pop(old, None)
            self._durable_files[new] = file

        self._later(new.parent, change)

    def link(self, path: Path, new: Path) -> None:
        self._did("link", new)
        file = self.files[new] = self.files[path]
        self._later(new.parent, lambda: self._durable_files.update({new: file}))

    def unlink(self, path: Path) -> None:
        self._did("unlink", path)
        if self.files.pop(path, None) is not None:
            self._later(path.parent, lambda: self._durable_files.pop(path, None))

    def list_directory(self, directory: Path) -> list[str]:
        self._require(directory)
        paths = [path for path in [*self.files, *self.directories] if path.parent == directory and path != directory]
        return sorted(path.name for path in paths)

    def make_directory(self, directory: Path) -> None:
        for path in [*reversed(directory.parents), directory]:
            if path not in self.directories:
                self.directories.add(path)
                self._durable_directories.add(path)

    def remove_directory(self, directory: Path) -> None:
        if self.list_directory(directory):
            raise OSError(errno.ENOTEMPTY, "not empty")
        self.directories.discard(directory)
        self._durable_directories.discard(directory)

    def sync_directory(self, directory: Path) -> None:
        self._did("sync_directory", directory)
        for parent, change in self._pending:
            if parent == directory:
                change()
        self._pending = [(parent, change) for parent, change in self._pending if parent != directory]

    def free_bytes(self, directory: Path) -> int:  # noqa: ARG002 (there is one disk)
        return self.free

    def lock(self, path: Path) -> int | None:
        self._require(path.parent)
        if path in self._locks.values():
            return None
        file = self.files.setdefault(path, File())
        self._durable_files.setdefault(path, file)
        fd = self._descriptor(file)
        self._locks[fd] = path
        return fd

    # How it works.

    def _did(self, operation: str, subject: object) -> None:
        self.operations.append(f"{operation} {subject}")
        if self.stop_at is not None:
            if not self.stop_at:
                raise PowerLoss
            self.stop_at -= 1
        failures = self._failures.get(operation)
        if failures:
            error = failures.pop(0)
            if not failures:
                del self._failures[operation]
            raise OSError(error, os.strerror(error))

    def _refuse_broken(self, fd: int) -> None:
        if fd in self._broken:
            raise AssertionError("a descriptor whose sync failed is used again")

    def _store(self, file: File, data: bytes, offset: int) -> None:
        end = offset + len(data)
        for page in range(offset // PAGE, (end + PAGE - 1) // PAGE):
            start = page * PAGE
            old = file.get(page)
            low, high = max(offset, start), min(end, start + PAGE)
            file.pages[page] = old[: low - start] + data[low - offset : high - offset] + old[high - start :]
            file.dirty.add(page)
        file.size = max(file.size, end)

    def _take(self, nbytes: int) -> None:
        if nbytes > self.free:
            raise OSError(errno.ENOSPC, "no space")
        self.free -= nbytes

    def _require(self, directory: Path) -> None:
        if directory not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(directory))

    def _later(self, directory: Path, change: Callable[[], object]) -> None:
        self._pending.append((directory, change))

    def _descriptor(self, file: File) -> int:
        self._next += 1
        self._descriptors[self._next] = file
        return self._next

    def _file(self, fd: int) -> File:
        return self._descriptors[fd]

    def _rename_directory(self, old: Path, new: Path) -> None:
        if new in self.directories and self.list_directory(new):
            raise OSError(errno.ENOTEMPTY, "not empty")
        self.sync_directory(old)
        moved = {path: file for path, file in self.files.items() if path.parent == old}
        self.directories.add(new)
        self.directories.discard(old)
        for path in moved:
            self.files[new / path.name] = self.files.pop(path)

        def change() -> None:
            self._durable_directories.add(new)
            self._durable_directories.discard(old)
            for path, file in moved.items():
                self._durable_files.pop(path, None)
                self._durable_files[new / path.name] = file

        self._later(new.parent, change)
