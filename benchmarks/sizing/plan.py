"""From a load to what it needs. Pure arithmetic over `figures`."""

from dataclasses import dataclass
from typing import Final

from benchmarks.sizing import figures

DAY_S: Final = 86_400
US: Final = 1e-6
GIB: Final = 2**30
HOLD_S: Final = 600  # SLUICE_GATEWAY_JOURNAL_HOLD_S: what was stored stays in the journal that long
MIN_FREE_BYTES: Final = GIB  # SLUICE_GATEWAY_JOURNAL_MIN_FREE_BYTES
MAX_SCAN_ROWS: Final = 50_000_000  # SLUICE_QUERY_MAX_SCAN_ROWS
ALONE_SHARE: Final = 8 / 9  # of the journal's space, for a project that is alone in it
MERGE_ROOM: Final = 1.3  # a merge writes its part anew before it drops the old ones
BUSY: Final = 0.5  # of the cores at the peak: the rest is for one machine that is away, merges that come together


@dataclass(frozen=True)
class Load:
    """What arrives and what is asked. Averages over a day; `peak` is how many times that the busiest minutes are."""

    spans_s: float = 10_000
    logs_s: float = 0
    peak: float = 3
    request_spans: float = 512
    wire_bytes: float = figures.WIRE_GZIP_BYTES.value
    retention_days: float = 30
    outage_h: float = 4
    aggregates_s: float = 0.1
    window_h: float = 1
    copies: int = 1

    @property
    def items_s(self) -> float:
        return self.spans_s + self.logs_s


@dataclass(frozen=True)
class Plan:
    """Cores at the peak, bytes of disks. `journal_bytes` is of all gateways together."""

    gateway_cores: float
    write_cores: float
    read_cores: float
    disk_bytes_day: float
    disk_bytes: float
    wire_bytes_day: float
    journal_bytes: float


def item_us(request_spans: float) -> float:
    """CPU of the gateway an item: a part for the request, and one for the item itself, from two measured sizes."""
    large = figures.LARGE_REQUEST_US.value * figures.LARGE_REQUEST_SPANS
    small = figures.SMALL_REQUEST_US.value
    each = (large - small) / (figures.LARGE_REQUEST_SPANS - figures.SMALL_REQUEST_SPANS)
    request = small - each * figures.SMALL_REQUEST_SPANS
    return request / request_spans + each


def engine_us() -> float:
    """CPU of ClickHouse an item, until it is merged."""
    return figures.INSERT_US.value + figures.MERGE_US.value


def read_cores(load: Load) -> float:
    """What reads keep busy, averaged; an aggregate scans the spans of its window, or the newest of them."""
    spans = min(load.spans_s * load.window_h * 3_600, MAX_SCAN_ROWS)
    return load.aggregates_s * spans / figures.SCANNED_SPANS * figures.SCAN_MS.value / 1_000


def disk_bytes_day(load: Load) -> float:
    """The bytes that a day adds to each copy, after merges."""
    span_bytes = figures.SPAN_BYTES.value + figures.DERIVED_BYTES.value
    return DAY_S * (load.spans_s * span_bytes + load.logs_s * figures.LOG_BYTES.value)


def journal_bytes(load: Load) -> float:
    """Room for an outage of ClickHouse at the peak rate, beside what was stored a moment ago."""
    seconds = load.outage_h * 3_600 + HOLD_S
    return load.items_s * load.peak * load.wire_bytes * seconds / ALONE_SHARE + MIN_FREE_BYTES


def plan(load: Load) -> Plan:
    """All of it."""
    peak_s = load.items_s * load.peak
    day = disk_bytes_day(load)
    return Plan(
        gateway_cores=peak_s * item_us(load.request_spans) * US / BUSY,
        write_cores=peak_s * engine_us() * US / BUSY,
        read_cores=read_cores(load) / BUSY,
        disk_bytes_day=day,
        disk_bytes=day * load.retention_days * load.copies * MERGE_ROOM,
        wire_bytes_day=DAY_S * load.items_s * load.wire_bytes,
        journal_bytes=journal_bytes(load),
    )
