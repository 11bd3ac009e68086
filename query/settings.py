"""Settings of the query service: `SLUICE_QUERY_<FIELD>` and the table `[query]` of the settings file."""

import os
from typing import Annotated, ClassVar, Final

import msgspec

from chassis.http.cors import check_origins
from chassis.runtime.settings_loader import Settings, setting

_MAX_HANDLES: Final = 64
_MAX_DEFAULT_HANDLES: Final = 8  # each may use `max_memory_bytes`


class QuerySettings(Settings, frozen=True, kw_only=True):
    """Limits of reads and responses; they do not affect what is stored."""

    prefix: ClassVar[str] = "SLUICE_QUERY_"

    handles: Annotated[
        int,
        setting(
            "Maximum number of concurrent reads. Each read uses a ClickHouse connection. One user, or all users of "
            "one organization together, can use all connections except one.",
            unit="reads",
            zero="one per processor, at least 2 and at most 8",
            ge=0,
            le=_MAX_HANDLES,
        ),
    ] = 0
    max_waiting: Annotated[
        int,
        setting(
            "Maximum number of requests that wait for a slot. At most half of these requests can be from one user, "
            "and at most three quarters from one organization. Further requests get 503.",
            unit="requests",
            zero="no request waits",
            ge=0,
            le=100_000,
            advanced="more dashboards load at once, and their users wait",
        ),
    ] = 1_000
    max_wait_s: Annotated[
        float,
        setting("How long a request may wait for a slot. Then it gets 503.", unit="seconds", ge=0.05, le=600),
    ] = 30.0
    timeout_s: Annotated[
        float,
        setting(
            "Time limit for all reads of a request together, including the waits between these reads. A request that "
            "takes longer gets 503.",
            unit="seconds",
            ge=0.05,
            le=600,
        ),
    ] = 30.0
    max_memory_bytes: Annotated[
        int,
        setting(
            "Memory that one read may use in ClickHouse. Requests that need more get 400. With the embedded engine, a "
            "read can use at most a quarter of the engine's memory (SLUICE_CLICKHOUSE_MEMORY_BYTES), even if this "
            "setting is larger.",
            unit="bytes",
            zero="no limit set by Sluice; embedded: a quarter of the engine's memory",
            ge=0,
        ),
    ] = 2 * 2**30
    max_read_rows: Annotated[
        int,
        setting(
            "Rows that one read may scan in ClickHouse. Requests that need more get 400.",
            unit="rows",
            zero="no limit set by Sluice",
            ge=0,
            advanced="ClickHouse is shared, and a single read must scan fewer rows",
        ),
    ] = 2_000_000_000
    max_threads: Annotated[
        int,
        setting(
            "ClickHouse threads per read.",
            unit="threads",
            zero="ClickHouse chooses",
            ge=0,
            le=1_024,
            advanced="ClickHouse is shared, and no single read may take all processors",
        ),
    ] = 0
    max_answers: Annotated[
        int,
        setting(
            "Maximum number of responses that are built concurrently. At most half of these responses can be for one "
            "user, and at most three quarters for one organization. Further requests wait.",
            unit="responses",
            ge=1,
            le=1_024,
            advanced="many processors build responses concurrently",
        ),
    ] = 8
    max_sending_bytes: Annotated[
        int,
        setting(
            "Memory for responses that clients have not read yet. One user can use at most half of this memory, and "
            "one organization at most three quarters. Further responses wait. A response larger than this memory is "
            "sent alone.",
            unit="bytes",
            ge=2**20,
            advanced="many slow clients read large responses, or memory is scarce",
        ),
    ] = 256 * 2**20
    stall_s: Annotated[
        float,
        setting(
            "How long a client may read its response slowly while other responses wait for memory "
            "(SLUICE_QUERY_MAX_SENDING_BYTES). Then its connection is closed. A client is slow if it reads at less "
            "than SLUICE_SEND_MIN_RATE, or if reading its whole response at its rate would take longer than "
            "SLUICE_QUERY_MAX_WAIT_S.",
            unit="seconds",
            ge=0.05,
            le=600,
            advanced="clients pause longer while they read",
        ),
    ] = 5.0
    cache_s: Annotated[
        float,
        setting(
            "How long a response is reused for identical requests. A response is reused only if its window ended at "
            "least 60 s before the read. If late data arrives in the window, a reused response does not show the data.",
            unit="seconds",
            zero="no response is reused",
            ge=0,
            le=300,
        ),
    ] = 5.0
    max_cache_bytes: Annotated[
        int,
        setting(
            "Memory for cached responses. If this memory is full, the least recently used responses are removed. A "
            "response larger than an eighth of this memory is not cached.",
            unit="bytes",
            zero="nothing is cached",
            ge=0,
            advanced="many dashboards show the same closed windows",
        ),
    ] = 32 * 2**20
    max_page_bytes: Annotated[
        int,
        setting(
            "Maximum size of the rows of a page, as ClickHouse stores them. A page ends before it exceeds this size, "
            "and the response shows that more rows follow.",
            unit="bytes",
            zero="one row per page",
            ge=0,
            advanced="rows are very large",
        ),
    ] = 16 * 2**20
    max_trace_spans: Annotated[
        int,
        setting(
            "Maximum number of spans in a waterfall. If a trace has more spans, its earliest spans are shown, and the "
            "response shows that spans are missing.",
            unit="spans",
            ge=1,
            le=1_000_000,
            advanced="traces are longer and must be shown completely",
        ),
    ] = 10_000
    max_trace_bytes: Annotated[
        int,
        setting(
            "Maximum size of attribute texts in a waterfall. If a trace has more text, its earliest spans are shown, "
            "and the response shows that spans are missing.",
            unit="bytes",
            ge=2**20,
            advanced="spans of traces have large attributes",
        ),
    ] = 64 * 2**20
    max_attribute_keys: Annotated[
        int,
        setting(
            "Maximum number of attributes in the list of keys. If a project has more, the most frequent attributes "
            "are listed, and the response shows that attributes are missing.",
            unit="keys",
            ge=1,
            le=50_000,
            advanced="a project has more attribute keys, and all must be listed",
        ),
    ] = 10_000
    max_scan_rows: Annotated[
        int,
        setting(
            "Maximum number of spans that an aggregate or a comparison scans. If there are more spans, an aggregate "
            "scans the newest spans, and a comparison scans a sample. The response shows that not all spans were "
            "scanned.",
            unit="spans",
            ge=1,
            le=100_000_000,
        ),
    ] = 50_000_000
    max_series: Annotated[
        int,
        setting(
            "Maximum number of groups of an aggregate that have a series.",
            unit="groups",
            zero="no group has a series",
            ge=0,
            le=100,
            advanced="charts show more series",
        ),
    ] = 100
    max_group_cardinality: Annotated[
        int,
        setting(
            "Maximum number of groups that an aggregate counts in one scan. In a series, each group counts once for "
            "each time interval. If an aggregate has more groups, Sluice scans the spans twice, with the same result: "
            "first to rank the groups, and then to read only the groups that are shown.",
            unit="groups",
            ge=1,
            le=10_000_000,
            advanced="aggregates have very many groups, and ClickHouse has the memory to count them in one scan",
        ),
    ] = 100_000
    cursor_key: Annotated[
        str,
        setting(
            "Secret text that signs page cursors. Use the same text on all machines that serve one address.",
            zero="empty: a key file in the data directory",
            secret=True,
        ),
    ] = ""
    cors_origins: Annotated[
        tuple[str, ...],
        setting(
            "Origins of web pages that may send queries from a browser, as https://host or http://host:port, "
            "comma-separated, or *.",
            zero="empty: no cross-origin requests",
        ),
    ] = ()

    def within(self, memory: int) -> "QuerySettings":
        """These settings, limited for a process that may use `memory` bytes: responses get at most a share of this
        memory."""
        return msgspec.structs.replace(
            self,
            max_sending_bytes=min(self.max_sending_bytes, memory // 32),
            max_cache_bytes=min(self.max_cache_bytes, memory // 128),
        )

    @property
    def effective_handles(self) -> int:
        """`handles`, or the default for the processors of this process."""
        return self.handles or max(2, min(_cpu_count(), _MAX_DEFAULT_HANDLES))

    def validate(self) -> None:
        """Reject origins that no browser sends."""
        check_origins("SLUICE_QUERY_CORS_ORIGINS", self.cors_origins)


def _cpu_count() -> int:
    """Processors that this process may use, if the system reports their number; otherwise all processors of the
    machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
