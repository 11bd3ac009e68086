"""The tables of followers: how far each has read in storage order, and the blocks that it has read lately.

The batch ids of ClickHouse are unsigned; they are stored less 2**63, which keeps their order.
"""

from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, text

MAX_NAME_LENGTH: Final = 64
MAX_OWNER_LENGTH: Final = 200

follower_progress: Final = sa.Table(
    "follower_progress",
    metadata,
    sa.Column("follower", text(MAX_NAME_LENGTH), primary_key=True),
    sa.Column("stored_us", sa.BigInteger, nullable=False),
    sa.Column("batch_id", sa.BigInteger, nullable=False),
    sa.Column("row", sa.BigInteger, nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),  # read so far
    sa.Column(
        "quiet_until_us", sa.BigInteger, nullable=False
    ),  # rows stored until then are history: nobody is notified
    sa.Column("version", sa.BigInteger, nullable=False),  # of the row: who has read another one stores nothing
    sa.Column("lease_owner", text(MAX_OWNER_LENGTH), nullable=False),  # the process that read last
    sa.Column("lease_until", UtcTime, nullable=False),  # until then others leave the work to it
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
)

follower_blocks: Final = sa.Table(
    "follower_blocks",
    metadata,
    sa.Column("follower", text(MAX_NAME_LENGTH), sa.ForeignKey("follower_progress.follower"), primary_key=True),
    sa.Column("batch_id", sa.BigInteger, primary_key=True),
    sa.Column("day", sa.Integer, primary_key=True),  # of the rows' own time, since 1970
    sa.Column("stored_us", sa.BigInteger, nullable=False),
    sa.Column("row", sa.BigInteger, nullable=False),
)
