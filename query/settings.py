"""Settings of the query service: `SLUICE_QUERY_<FIELD>`, or the table `[query]` of the settings file."""

import os
from typing import Annotated, ClassVar, Final

import msgspec

from chassis.http.cors import check_origins
from chassis.runtime.settings_loader import Settings, setting

_MAX_HANDLES: Final = 64
_MAX_DEFAULT_HANDLES: Final = 8  # each may use `max_memory_bytes`


class QuerySettings(Settings, frozen=True, kw_only=True):
    """Limits of reads. None of them affects what is stored."""

    prefix: ClassVar[str] = "SLUICE_QUERY_"

    handles: Annotated[
        int,
        setting(
            "Reads that run at once; each holds a connection to ClickHouse. One user, and one organization, have all "
            "but one of them at most.",
            unit="reads",
            zero="as many as there are processors, 2 to 8",
            ge=0,
            le=_MAX_HANDLES,
        ),
    ] = 0
    max_waiting: Annotated[
        int,
        setting(
            "Requests that may wait for their turn, half of them of one user, three quarters of one organization; one "
            "more is answered 503.",
            unit="requests",
            zero="none waits",
            ge=0,
            le=100_000,
        ),
    ] = 1_000
    max_wait_s: Annotated[
        float,
        setting("A request that waits longer for its turn is answered 503.", unit="seconds", ge=0.05, le=600),
    ] = 30.0
    timeout_s: Annotated[
        float,
        setting(
            "What all reads of a request may take together, with their waits for each other; then 503.",
            unit="seconds",
            ge=0.05,
            le=600,
        ),
    ] = 30.0
    max_memory_bytes: Annotated[
        int,
        setting(
            "Memory one read may take in ClickHouse; beyond it 400. With the embedded engine a quarter of its memory "
            "(SLUICE_CLICKHOUSE_MEMORY_BYTES) where that is less.",
            unit="bytes",
            zero="no limit of ours; embedded that quarter",
            ge=0,
        ),
    ] = 2 * 2**30
    max_read_rows: Annotated[
        int,
        setting("Rows one read may look at in ClickHouse; beyond it 400.", unit="rows", zero="no limit of ours", ge=0),
    ] = 2_000_000_000
    max_threads: Annotated[
        int,
        setting("Threads one read may use in ClickHouse.", unit="threads", zero="ClickHouse chooses", ge=0, le=1_024),
    ] = 0
    max_answers: Annotated[
        int,
        setting(
            "Answers that are made at once, half of them of one user, three quarters of one organization; the next "
            "waits.",
            unit="answers",
            ge=1,
            le=1_024,
        ),
    ] = 8
    max_sending_bytes: Annotated[
        int,
        setting(
            "Memory for responses that clients have not taken yet, half of it for one user, three quarters for one "
            "organization; further ones wait. A response larger than it is sent alone.",
            unit="bytes",
            ge=2**20,
        ),
    ] = 256 * 2**20
    stall_s: Annotated[
        float,
        setting(
            "While a response waits for SLUICE_QUERY_MAX_SENDING_BYTES, a connection that holds some of it is closed "
            "when it goes on for so long at less than SLUICE_SEND_MIN_RATE, or than takes it through its response in "
            "SLUICE_QUERY_MAX_WAIT_S.",
            unit="seconds",
            ge=0.05,
            le=600,
        ),
    ] = 5.0
    cache_s: Annotated[
        float,
        setting(
            "How long a response is reused whose window ended at least 60 s before it was read; late data appears that "
            "much later.",
            unit="seconds",
            zero="none is reused",
            ge=0,
            le=300,
        ),
    ] = 5.0
    max_cache_bytes: Annotated[
        int,
        setting(
            "Memory for cached responses; least recently used go first, none is larger than an eighth.",
            unit="bytes",
            zero="none is cached",
            ge=0,
        ),
    ] = 32 * 2**20
    max_page_bytes: Annotated[
        int,
        setting(
            "Rows of one page, as ClickHouse holds them; a page is cut short before it would be larger, and says so.",
            unit="bytes",
            zero="one row a page",
            ge=0,
        ),
    ] = 16 * 2**20
    max_trace_spans: Annotated[
        int,
        setting(
            "Spans a waterfall shows; of a longer trace the earliest, and it says so.", unit="spans", ge=1, le=1_000_000
        ),
    ] = 10_000
    max_trace_bytes: Annotated[
        int,
        setting("Attribute text a waterfall shows; beyond it the trace is cut likewise.", unit="bytes", ge=2**20),
    ] = 64 * 2**20
    max_attribute_keys: Annotated[
        int,
        setting(
            "Attributes in the list of keys, those of most spans; of more it says so.", unit="keys", ge=1, le=50_000
        ),
    ] = 10_000
    max_scan_rows: Annotated[
        int,
        setting(
            "Spans an aggregate or a comparison looks at; of more the newest, or for a comparison a sample, and it "
            "says so.",
            unit="spans",
            ge=1,
            le=100_000_000,
        ),
    ] = 50_000_000
    max_series: Annotated[
        int, setting("Groups of an aggregate that have a series.", unit="groups", zero="none has", ge=0, le=100)
    ] = 100
    max_group_cardinality: Annotated[
        int,
        setting(
            "Groups times steps of time that an aggregate counts in one scan; of more it ranks the groups first and "
            "then reads again for those it shows. The answer is the same.",
            unit="groups",
            ge=1,
            le=10_000_000,
        ),
    ] = 100_000
    cursor_key: Annotated[
        str,
        setting(
            "Text that signs page cursors; the same on every machine that serves one address.",
            zero="empty: a key file in the data directory",
            secret=True,
        ),
    ] = ""
    cors_origins: Annotated[
        tuple[str, ...],
        setting(
            "Origins whose browser pages may ask, as https://host or http://host:port, comma-separated, or *.",
            zero="empty: no cross-origin requests",
        ),
    ] = ()

    def within(self, memory: int) -> "QuerySettings":
        """These settings for a process that may use `memory` bytes: caps the buffers of responses at a share of it."""
        return msgspec.structs.replace(
            self,
            max_sending_bytes=min(self.max_sending_bytes, memory // 32),
            max_cache_bytes=min(self.max_cache_bytes, memory // 128),
        )

    @property
    def effective_handles(self) -> int:
        """`handles`, with 0 resolved to the number of processors, 2 to 8."""
        return self.handles or max(2, min(_cpu_count(), _MAX_DEFAULT_HANDLES))

    def validate(self) -> None:
        """Raises for origins that no browser sends."""
        check_origins("SLUICE_QUERY_CORS_ORIGINS", self.cors_origins)


def _cpu_count() -> int:
    """The number of CPUs this process may use, as far as the system reports it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
