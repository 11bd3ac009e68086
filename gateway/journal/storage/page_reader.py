"""Reads files page by page where the disk fails: unreadable pages are returned as zeros, which are never a frame."""

import errno
from typing import Final

from gateway.journal.format import frames as fmt
from gateway.journal.storage.files import Files
from gateway.journal.storage.scanning import ReadAt

# Read errors of a device, or of a file system with checksums.
_READ_ERRNOS: Final = frozenset({errno.EIO, errno.EBADMSG, errno.EUCLEAN})


class ReadErrorFlag:
    """Set when a page was unreadable."""

    def __init__(self) -> None:
        self.is_set = False


def build_reader(files: Files, fd: int, error_flag: ReadErrorFlag | None = None) -> ReadAt:
    """A function that reads from a file. Unreadable pages (`_READ_ERRNOS`) are zeros and set `error_flag`; it raises
    other OSErrors.
    """

    def read(size: int, offset: int) -> bytes:
        try:
            return _read_full(files, fd, size, offset)
        except OSError as error:
            if error.errno not in _READ_ERRNOS:
                raise
        if error_flag is not None:
            error_flag.is_set = True
        return _read_by_page(files, fd, size, offset)

    return read


def load_file_header(files: Files, fd: int) -> fmt.FileHeader | None:
    """The header of a file of any version; None if it is damaged."""
    return fmt.read_file_header(build_reader(files, fd)(fmt.PAGE, 0))


def _read_full(files: Files, fd: int, size: int, offset: int) -> bytes:
    """Exactly `size` bytes, fewer only at the end of the file."""
    pieces = []
    while size and (piece := files.read(fd, size, offset)):
        pieces.append(piece)
        size -= len(piece)
        offset += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _read_by_page(files: Files, fd: int, size: int, offset: int) -> bytes:
    pieces = []
    end = min(offset + size, files.size(fd))
    while offset < end:
        part = min(fmt.align_to_page(offset + 1), end) - offset
        try:
            pieces.append(_read_full(files, fd, part, offset))
        except OSError:
            pieces.append(bytes(part))
        offset += part
    return b"".join(pieces)
