"""Requests and responses of the log endpoints that count."""

from typing import Annotated

import msgspec
from msgspec import Meta

from query.analysis.aggregate import MAX_LIMIT, Limits
from query.analysis.time_buckets import MAX_INTERVAL_SECONDS
from query.json_types import Count, Range
from query.request.bodies import TimeInput
from query.request.filters import FiltersInBody, KeyText
from query.statements.window import MAX_HOURS


class LogKey(msgspec.Struct, rename="camel"):
    """A key for filters and groups. `numeric`: its value is a finite number in all of these records."""

    key: str
    records: Count
    numeric: bool


class LogKeys(msgspec.Struct, rename="camel"):
    """Built-in fields and attributes of the log records in `range`, those of most records first, then by key.
    `scanned` is the number of these records; `scanTruncated`: the window has older ones, too.
    """

    data: list[LogKey]
    range: Range
    scanned: Count
    scan_truncated: bool


class LogCountsRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The log records to count. `intervalSeconds`: 0 for no series. A null field is the same as an absent one."""

    from_: TimeInput | None = msgspec.field(default=None, name="from")
    to: TimeInput | None = None
    hours: Annotated[int, Meta(ge=1, le=MAX_HOURS)] | None = None
    group_by: KeyText | None = None
    filters: FiltersInBody | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] | None = None
    interval_seconds: Annotated[int, Meta(ge=0, le=MAX_INTERVAL_SECONDS)] | None = None


class LogGroup(msgspec.Struct):
    """One group. `group`: null for the records without the key."""

    group: str | None
    count: Count


class LogPoint(msgspec.Struct):
    """The records of the interval that begins at `bucket`, within `range`."""

    bucket: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    count: Count


class LogSeries(msgspec.Struct):
    """One point for every interval of the range."""

    group: str | None
    points: list[LogPoint]


class LogCounts(msgspec.Struct, rename="camel"):
    """The log records in `range`: the number of each group as a whole, and over time. `intervalSeconds` is null if no
    series were requested.
    """

    group_by: str | None
    interval_seconds: int | None
    range: Range
    groups: list[LogGroup]
    series: list[LogSeries]
    scanned: Count
    scan_truncated: bool
    group_count: Count
    groups_truncated: bool
    limits: Limits
