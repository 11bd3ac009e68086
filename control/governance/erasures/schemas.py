"""The bodies of erasures in the API."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from chassis.db.database import format_time
from chassis.erasures.repository import StoredErasure
from chassis.erasures.tables import ErasureKind, ErasureState
from chassis.http.validation import Issues
from control.export.model import SinkKind, Stream
from control.export.run_repository import Exported
from control.http.field_types import Slug, Timestamp
from control.routing.resource import shown_as
from proto.rfc3339 import parse_rfc3339

MAX_FILTERS: Final = 20  # as explore accepts; its parser checks them
MAX_NANOS: Final = 2**63 - 1
_NANOS_PER_SECOND: Final = 10**9
_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)

E = TypeVar("E", bound="Erasure")

ItemTime = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=40,
        description="A time of spans (start) or log records, RFC 3339 with a time zone.",
        examples=["2026-11-20T15:17:03Z"],
    ),
]
StoredItemTime = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{9}Z$",
        description="A time of spans or log records.",
    ),
]


class NewFilterErasure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What to erase: at least one of `filters`, `from` and `to`. To erase everything, delete the project."""

    filters: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Filters as in explore: `{key, op, value}`, of which an item must match all.",
            extra_json_schema={"maxItems": MAX_FILTERS},
        ),
    ] = []
    from_: ItemTime | None = msgspec.field(default=None, name="from")
    to: ItemTime | None = None
    dry_run: Annotated[bool, Meta(description="Only count what would be erased.")] = False


class Erasure(msgspec.Struct, frozen=True, rename="camel"):
    """The deletion of a project or an organization, or of what matches filters, and how far it is. The filters are not
    returned: their values may be what has to be erased.
    """

    id: Annotated[str, Meta(pattern="^ers_[0-9a-z]{26}$")]
    kind: ErasureKind
    state: Annotated[
        ErasureState,
        Meta(
            description="FAILED: the operator has to act (`message` has the reason). COMPLETED: everything is erased, "
            "or (dry run) counted."
        ),
    ]
    project_id: Annotated[str | None, Meta(description="Null: the whole organization.")]
    project_slug: Annotated[Slug | None, Meta(description="The slug that the project had.")]
    dry_run: bool
    filter_count: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="Null: the filters were deleted since.")
    ]
    from_: Annotated[StoredItemTime | None, Meta(description="Inclusive. Null: open.")] = msgspec.field(name="from")
    to: Annotated[StoredItemTime | None, Meta(description="Exclusive. Null: open.")]
    rows: Annotated[dict[str, int], Meta(description="Rows by table: erased so far, or (dry run) found.")]
    message: Annotated[str | None, Meta(description="What it waits for, or why it failed.")]
    requested_by_principal_id: Annotated[str | None, Meta(description="Null: the operator.")]
    requested_at: Timestamp
    completed_at: Timestamp | None


class ErasureExport(msgspec.Struct, rename="camel"):
    """A stream of a warehouse sink that exported rows before the erasure was complete."""

    sink_id: str
    sink_name: str
    sink_kind: SinkKind
    stream: Stream
    exported_until: Annotated[
        Timestamp | None, Meta(description="When the last exported row was stored (of issues: changed).")
    ]


class ErasureDetails(Erasure, frozen=True, rename="camel", kw_only=True):
    """An erasure, and where rows that it erases may have been exported to."""

    exports: Annotated[
        list[ErasureExport],
        Meta(description="What left by export is not erased: delete it there. Deleted sinks are not listed."),
    ]


def erasure_body(erasure: StoredErasure) -> Erasure:
    """The API representation."""
    return _shown_as(Erasure, erasure)


def erasure_details(erasure: StoredErasure, exports: Sequence[Exported]) -> ErasureDetails:
    """The API representation of one erasure."""
    listed = [
        shown_as(
            ErasureExport,
            one,
            sink_kind=one.kind,
            exported_until=None if one.cursor_at is None else format_time(one.cursor_at),
        )
        for one in exports
    ]
    return _shown_as(ErasureDetails, erasure, exports=listed)


def _shown_as(type_: type[E], erasure: StoredErasure, **more: object) -> E:
    return shown_as(
        type_,
        erasure,
        project_id=None if erasure.project_id is None else str(erasure.project_id),
        filter_count=None if erasure.expired_at is not None else len(erasure.filters or ()),
        from_=None if erasure.from_ns is None else format_item_time(erasure.from_ns),
        to=None if erasure.to_ns is None else format_item_time(erasure.to_ns),
        rows=dict(erasure.counts),
        requested_by_principal_id=erasure.requested_by,
        **more,
    )


def parse_item_time(text: str | None, path: str, issues: Issues) -> int | None:
    """Nanoseconds since 1970; None for None, and after recording an issue."""
    if text is None:
        return None
    match = _TIME.fullmatch(text)
    if match is not None:
        day, clock, fraction, zone = match.groups()
        moment = parse_rfc3339(f"{day}T{clock}{zone}")
        if moment is not None:
            seconds = int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
            nanos = seconds * _NANOS_PER_SECOND + int((fraction or "0").ljust(9, "0"))
            if 0 <= nanos <= MAX_NANOS:
                return nanos
    message = "Must be an RFC 3339 time with a time zone, such as 2026-11-20T15:17:03Z, from 1970 to 2262."
    issues.add(path, message, "format")
    return None


def format_item_time(nanos: int) -> str:
    """RFC 3339 in UTC with nine digits."""
    seconds, fraction = divmod(nanos, _NANOS_PER_SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"
