"""Which projects are deleted, known without the database too: their rows are missing for a good reason."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import structlog

from chassis.db.database import Database
from chassis.erasures import repository
from gateway.journal.storage.files import Files, RealFiles, write_atomic

FILE: Final = "deleted-projects.json"  # in the directory of the journals
_PAGE: Final = 1_000

log = structlog.get_logger(__name__)


class _Known(msgspec.Struct, frozen=True):
    """The content of the file: the latest erasure that was read, and the ids of deleted projects."""

    version: int
    projects: tuple[int, ...]


class DeletedProjects:
    """The ids of deleted projects, as last read from the database, and kept in a file of the journals' directory."""

    def __init__(self, directory: Path, files: Files | None = None) -> None:
        self._path = directory / FILE
        self._files = files or RealFiles()
        self._known = self._load()
        self._ids = frozenset(self._known.projects)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __contains__(self, project_id: object) -> bool:
        return project_id in self._ids

    async def refresh(self, database: Database) -> None:
        """Read new tombstones. Raises what the database raises, and OSError if the file cannot be written."""
        async with database.read() as connection:
            version = await repository.tombstone_version(connection)
            if version == self._known.version:
                return
            # A restored database has an older version: everything is read again, and nothing is forgotten.
            found, last = set(self._ids), self._known.version if version > self._known.version else 0
            while page := await repository.list_tombstones(connection, last, _PAGE):
                found |= {tombstone.project_id for tombstone in page if tombstone.received_before is None}
                last = page[-1].number
        known = _Known(version, tuple(sorted(found)))
        await asyncio.to_thread(self._save, known)
        self._known, self._ids = known, frozenset(found)

    def _load(self) -> _Known:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Known)
        except FileNotFoundError:
            pass
        except (OSError, msgspec.MsgspecError) as error:
            log.warning(
                "the list of deleted projects cannot be read; it is read from the database again", error=str(error)
            )
        return _Known(0, ())

    def _save(self, known: _Known) -> None:
        self._files.make_directory(self._path.parent)
        self._files.close(write_atomic(self._files, self._path, [msgspec.json.encode(known)]))
