"""Response bodies of source maps, and the parameters of an upload."""

from typing import Annotated

import msgspec
from msgspec import Meta

from chassis.db.database import format_time
from chassis.source_maps.tables import MAX_PATH_LENGTH
from control.http.field_types import Timestamp
from control.http.paging import NextCursor
from control.source_maps.repository import StoredSourceMap


class SourceMap(msgspec.Struct, frozen=True, rename="camel"):
    """A source map. Its content is not shown."""

    id: str
    release: str
    path: Annotated[
        str, Meta(max_length=MAX_PATH_LENGTH, description="Of the minified file: its URL without origin and query.")
    ]
    debug_id: Annotated[str | None, Meta(description="The UUID that the map and the minified file have in common.")]
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 of the map as uploaded.")]
    bytes: Annotated[int, Meta(ge=0, description="Size as stored.")]
    created_by: Annotated[str | None, Meta(description="Id of the principal.")]
    created_at: Timestamp


class UploadedSourceMap(SourceMap, frozen=True, rename="camel"):
    """A source map, and what had to make room for it."""

    removed_releases: Annotated[
        list[str], Meta(description="Releases whose source maps were removed, because the project would have too many.")
    ]


class SourceMapPage(msgspec.Struct, frozen=True, rename="camel"):
    """A page of source maps, newest first."""

    data: list[SourceMap]
    next_cursor: NextCursor
    has_more: bool


def source_map_body(stored: StoredSourceMap) -> SourceMap:
    """The API representation."""
    return SourceMap(
        id=stored.id,
        release=stored.release,
        path=stored.path,
        debug_id=stored.debug_id,
        digest=stored.digest.hex(),
        bytes=stored.size,
        created_by=stored.created_by,
        created_at=format_time(stored.created_at),
    )


def uploaded_body(stored: StoredSourceMap, removed_releases: list[str]) -> UploadedSourceMap:
    """The answer to an upload."""
    return UploadedSourceMap(**msgspec.structs.asdict(source_map_body(stored)), removed_releases=removed_releases)
