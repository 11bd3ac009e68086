"""The lines of `sluice erasures export`: tombstones as JSON, which can be applied to a restored backup."""

from datetime import datetime
from typing import Any

import msgspec

from chassis.db.database import format_time
from chassis.erasures.repository import StoredErasure
from chassis.erasures.tables import ErasureKind


class ExportedErasure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line. If `project_id` is null, the line erases the organization itself, in a backup of the relational
    database. Times of items are nanoseconds since 1970: `from` is inclusive, `to` is exclusive, and null means no
    bound. Relative times in `filters` are relative to `requested_at`. The erasure of a project or organization covers
    everything, regardless of when it was received. The erasure of a filter covers items received before `requested_at`.
    """

    id: str
    number: int
    kind: ErasureKind
    org_id: str
    project_id: str | None
    filters: list[dict[str, Any]] | None
    from_ns: int | None
    to_ns: int | None
    requested_at: str

    @property
    def requested_time(self) -> datetime:
        """`requested_at` as a time."""
        return datetime.fromisoformat(self.requested_at)


def is_exported(erasure: StoredErasure) -> bool:
    """Whether the erasure is in force: it is not a dry run, and its filters are still stored."""
    return not erasure.dry_run and erasure.expired_at is None


def encode_line(erasure: StoredErasure) -> bytes:
    """Encode an erasure as a line, with the line end."""
    line = ExportedErasure(
        id=erasure.id,
        number=erasure.number,
        kind=erasure.kind,
        org_id=erasure.org_id,
        project_id=None if erasure.project_id is None else str(erasure.project_id),
        filters=None if erasure.filters is None else [dict(one) for one in erasure.filters],
        from_ns=erasure.from_ns,
        to_ns=erasure.to_ns,
        requested_at=format_time(erasure.requested_at),
    )
    return msgspec.json.encode(line) + b"\n"


def decode_line(line: bytes) -> ExportedErasure:
    """Decode a line. Raises ValueError for a line that does not come from an export."""
    try:
        return msgspec.json.decode(line, type=ExportedErasure)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"not an exported erasure: {error}") from error
