"""The files of the built page, which are read once."""

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"
SHELL: Final = "index.html"
_MIN_COMPRESSED: Final = 1_024  # bytes


class PageNotBuilt(Exception):
    """There is no directory `static/`, because the page of a checkout was not built."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent. `compressed`: the file compressed with gzip, or None if that saves nothing. `etag`: the
    ETag with its quotes.
    """

    body: bytes
    compressed: bytes | None
    content_type: str
    etag: str


@dataclass(frozen=True, slots=True)
class Assets:
    """The document, and the files that it names. The name of a file contains a hash of its content."""

    shell: Asset
    files: Mapping[str, Asset]


def load_assets(directory: Path = STATIC) -> Assets:
    """Read the document and its files. Raises PageNotBuilt."""
    shell = directory / SHELL
    if not shell.is_file():
        raise PageNotBuilt(directory)
    files = {path.name: _load(path) for path in sorted((directory / "assets").iterdir())}
    return Assets(_load(shell), files)


def _load(path: Path) -> Asset:
    body = path.read_bytes()
    compressed = gzip.compress(body, 9, mtime=0)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Asset(
        body=body,
        compressed=compressed if len(body) >= _MIN_COMPRESSED and len(compressed) < len(body) else None,
        content_type=f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    )
