"""A lower bound for `stored_time`, the floor: rows stored later have a later position, even if a clock goes back.

ClickHouse writes its own clock into every row that it stores (`proto/storage/sql/0007_tables.sql`). A clock can
go back: it is set, or a server restarts with a wrong one. So each insert carries a floor, and its rows get the later
time of the two. The floor is ClickHouse's own time as the inserting process last read it, plus the time since then by a
monotonic clock. The clocks of the machines that insert play no part.

With its time, a process reads the latest time in the tables. Where that is in the future, the clock has gone back: the
floor stays there until the clock has passed it. Rows share that time meanwhile, and followers read them when it has
passed; inserts do not wait. Not covered is a clock that goes forward and back again between two readings of a process.

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
SLOW_READ_INTERVAL_S: Final = 1.0  # after a reading that took longer than DRIFT_US, and is as imprecise
# A clock that is at most this much behind has drifted: the floor follows it. Followers keep a larger distance.
DRIFT_US: Final = 100_000
# The latest row is in the future only where the clock has gone back. The index of the column skips all others. Parts of
# earlier releases have none until a mutation has added it, so the statement ends after a second with what it found.
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
    """ClickHouse's time, and that of its latest row if it is later (else 0); in microseconds since 1970."""

    now_us: int
    latest_us: int


class StoredTimeFloor:
    """The floor of one client of ClickHouse. Threads may share it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._reading: ClockReading | None = None
        self._read_at = self._due_at = 0.0  # by the monotonic clock
        self._frozen_us = 0  # the clock has gone back from here

    def insert_comment(self, read_clock: Callable[[], ClockReading]) -> str:
        """The `log_comment` of an insert that starts now. Calls `read_clock` every READ_INTERVAL_S, in each thread
        that finds it due: a server that hangs holds up no other insert. Raises its error if there is no reading yet.
        """
        if self._is_due():
            began = self._monotonic()
            try:
                reading = read_clock()
            except Exception as error:
                with self._lock:
                    if self._reading is None:
                        raise
                    log.warning("clickhouse's clock cannot be read; the last reading is used", error=repr(error))
                    self._due_at = self._monotonic() + READ_INTERVAL_S  # the floor goes on by the monotonic clock
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
        """Take over a reading that was made at an unknown moment since `began`."""
        now = self._monotonic()
        elapsed_us = int((now - began) * _US)
        clock_us = min(max(self._floor_us(), reading.now_us), reading.now_us + elapsed_us)
        floor = max(self._floor_us(), reading.latest_us + 1)  # after that row, whatever the batch ids
        if clock_us < floor - DRIFT_US:
            if floor > self._frozen_us:  # once for each step
                log.warning(
                    "clickhouse's clock has gone back; followers wait until it catches up: check time synchronization",
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
