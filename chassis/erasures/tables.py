"""The tables of erasures, of their acknowledgements by gateway journals, and of these journals."""

from enum import StrEnum
from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from proto.identity import MAX_SLUG_LENGTH

MAX_MESSAGE_LENGTH: Final = 500
MAX_OWNER_LENGTH: Final = 200  # of a worker's or journal's name


_UNPURGED: Final = sa.text("purged_at IS NULL")


class ErasureKind(StrEnum):
    """The kinds of erasures. To erase an organization's telemetry, each of its projects has its own erasure."""

    ORGANIZATION = "organization"
    PROJECT = "project"
    FILTER = "filter"


class ErasureState(StrEnum):
    """PENDING: not started. RUNNING: in progress, or waiting for the next attempt. COMPLETED: final. FAILED: the
    erasure waits until the operator runs `sluice erasures retry`.
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


erasures: Final = sa.Table(
    "erasures",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False, unique=True),  # ascending in the order of commits
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger),  # the id in telemetry rows, so no foreign key; NULL: an organization
    sa.Column("project_slug", text(MAX_SLUG_LENGTH)),  # at the request; NULL when the organization was deleted
    sa.Column("kind", text(16), nullable=False),
    sa.Column("filters", sa.JSON(none_as_null=True)),  # NULL: everything in the time range
    sa.Column("from_ns", sa.BigInteger),  # time of items in nanoseconds since 1970, inclusive; NULL: no bound
    sa.Column("to_ns", sa.BigInteger),  # exclusive; NULL: no bound
    sa.Column("dry_run", sa.Boolean, nullable=False),  # counts only; no tombstone
    sa.Column("requested_by", text(32)),  # a principal; NULL: the operator
    sa.Column("requested_at", UtcTime, nullable=False),
    sa.Column("state", text(16), nullable=False),
    sa.Column("counts", sa.JSON, nullable=False),  # rows by table
    # A deletion that was begun and is not yet in counts: {"deletionId": text, "rows": by table}.
    sa.Column("pending_deletion", sa.JSON(none_as_null=True)),
    sa.Column("days", sa.JSON(none_as_null=True)),  # ISO dates of erased items, for derived rows
    sa.Column("message", text(MAX_MESSAGE_LENGTH)),
    sa.Column("attempts", sa.Integer, nullable=False),  # number of claims; distinguishes a claim from later ones
    sa.Column("lease_owner", text(MAX_OWNER_LENGTH)),
    sa.Column("lease_until", UtcTime),
    sa.Column("retry_at", UtcTime),  # not claimed before this time
    sa.Column("purged_at", UtcTime),  # when the relational rows were deleted
    sa.Column("erased_at", UtcTime),  # when the telemetry was deleted
    sa.Column("completed_at", UtcTime),
    sa.Column("expired_at", UtcTime),  # when the filters, and so the tombstone, were deleted
    enum_check("kind", ErasureKind),
    enum_check("state", ErasureState),
    sa.CheckConstraint("(kind = 'organization') = (project_id IS NULL)", name="project"),
    sa.CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name="lease"),
    sa.CheckConstraint("(state = 'COMPLETED') = (completed_at IS NOT NULL)", name="completed"),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "state", "number"),
    sa.Index("ix_erasures_unpurged", "number", sqlite_where=_UNPURGED, postgresql_where=_UNPURGED),
)

# A row means that a journal holds no request any more that the erasure covers and that was received before it.
erasure_acknowledgements: Final = sa.Table(
    "erasure_acknowledgements",
    metadata,
    sa.Column("erasure_id", text(32), sa.ForeignKey("erasures.id"), primary_key=True),
    sa.Column("journal", text(MAX_OWNER_LENGTH), primary_key=True),
    sa.Column("acknowledged_at", UtcTime, nullable=False),
)

# The journals that must acknowledge erasures, including journals of stopped gateways, which may hold requests too.
erasure_journals: Final = sa.Table(
    "erasure_journals",
    metadata,
    sa.Column("journal", text(MAX_OWNER_LENGTH), primary_key=True),
    sa.Column("registered_at", UtcTime, nullable=False),
    sa.Column("seen_at", UtcTime, nullable=False),
)
