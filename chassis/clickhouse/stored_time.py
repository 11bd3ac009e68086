"""The floor, a lower bound for `stored_time`: rows stored later have a later position, even if a clock is set back.

ClickHouse writes its own time into every row that it stores (`proto/storage/sql/0007_tables.sql`). ClickHouse's clock
can jump back, because it is set or because a server restarts with a wrong clock. So each insert carries a floor, and
its rows get the later of ClickHouse's time and the floor. The floor is ClickHouse's time as the inserting process last
read it, plus the time since then by a monotonic clock. The clocks of the inserting machines do not matter.

Together with ClickHouse's time, a process reads the latest `stored_time` in the tables. If the latest time is in the
future, ClickHouse's clock has jumped back, and the floor keeps the latest time until the clock has passed it. Rows that
are inserted meanwhile all get that time, and followers read them when the time has passed. Inserts do not wait. A clock
that jumps forward and back again between two readings of a process is not detected.

Source: docs/adr/020-storage-order.md.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from proto.storage.tables import TABLES_IN_STORAGE_ORDER

INSERT_COMMENT: Final = "sluice:insert:"  # the prefix of `log_comment`, which the DDL of the tables repeats
READ_INTERVAL_S: Final = 15.0
SLOW_READ_INTERVAL_S: Final = 1.0  # after a reading that took longer than DRIFT_US, which makes it too imprecise
# A clock that is behind by at most this much has drifted, and the floor follows the clock. Followers keep a larger
# distance.
DRIFT_US: Final = 100_000
# The latest row is in the future only if the clock has jumped back. The index of the column skips all other rows. Parts
# of earlier releases have no index until a mutation has added it, so the statement ends after a second and returns the
# latest time that it found.
_LATEST: Final = " UNION ALL ".join(
    f"SELECT max(stored_time) AS latest FROM {table.name} WHERE stored_time > now64(6, 'UTC')"
    for table in TABLES_IN_STORAGE_ORDER
)
CLOCK_SQL: Final = (
    f"SELECT toUnixTimestamp64Micro(now64(6, 'UTC')), toUnixTimestamp64Micro(max(latest)) FROM ({_LATEST})"
    " SETTINGS max_execution_time = 1, timeout_overflow_mode = 'break'"
)

_US: Final = 1_000_000

log = structlog.get_logger(__name__)


class ClockReading(NamedTuple):
    """ClickHouse's time, and the time of its latest row if that is later (otherwise 0), in microseconds since 1970."""

    now_us: int
    latest_us: int


class StoredTimeFloor:
    """The floor of one client of ClickHouse. Threads may share it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._reading: ClockReading | None = None
        self._read_at = self._due_at = 0.0  # by the monotonic clock
        self._frozen_us = 0  # the latest time, from which the clock has jumped back

    def insert_comment(self, read_clock: Callable[[], ClockReading]) -> str:
        """The `log_comment` of an insert that starts now. Calls `read_clock` if the last reading is older than
        READ_INTERVAL_S. Several threads may do so at once, so that a server that hangs delays no other insert. Raises
        the error of `read_clock` if there is no reading yet.
        """
        if self._is_due():
            began = self._monotonic()
            try:
                reading = read_clock()
            except Exception as error:
                with self._lock:
                    if self._reading is None:
                        raise
                    log.warning("clickhouse's clock cannot be read, the last reading is used", error=repr(error))
                    # Until then the floor advances by the monotonic clock.
                    self._due_at = self._monotonic() + READ_INTERVAL_S
            else:
                with self._lock:
                    self._update(reading, began)
        with self._lock:
            seconds, fraction = divmod(self._floor_us(), _US)
        return f"{INSERT_COMMENT}{seconds}.{fraction:06}"

    def _is_due(self) -> bool:
        with self._lock:
            return self._reading is None or self._monotonic() >= self._due_at

    def _update(self, reading: ClockReading, began: float) -> None:
        """Use a reading that was made at an unknown time since `began`."""
        now = self._monotonic()
        elapsed_us = int((now - began) * _US)
        clock_us = min(max(self._floor_us(), reading.now_us), reading.now_us + elapsed_us)
        floor = max(self._floor_us(), reading.latest_us + 1)  # after that row, regardless of batch ids
        if clock_us < floor - DRIFT_US:
            if floor > self._frozen_us:  # log once for each jump
                log.warning(
                    "clickhouse's clock has jumped back, readers of new rows wait until the clock has caught up; check "
                    "time synchronization",
                    seconds=round((floor - clock_us) / _US, 3),
                )
            self._frozen_us = floor
        self._reading, self._read_at = reading._replace(now_us=clock_us), now
        self._due_at = now + (READ_INTERVAL_S if elapsed_us <= DRIFT_US else SLOW_READ_INTERVAL_S)

    def _floor_us(self) -> int:
        if self._reading is None:
            return 0
        elapsed_us = int((self._monotonic() - self._read_at) * _US)
        return max(self._frozen_us, self._reading.now_us + elapsed_us)


def floor_of(insert_comment: str) -> int | None:
    """The floor in the `log_comment` of an insert, in microseconds since 1970; None for any other comment."""
    text = insert_comment.removeprefix(INSERT_COMMENT)
    seconds, _, fraction = text.partition(".")
    if text == insert_comment or not (seconds.isdecimal() and fraction.isdecimal() and len(fraction) == 6):
        return None
    return int(seconds) * _US + int(fraction)
