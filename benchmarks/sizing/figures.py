"""What was measured, each figure with the place that has it and the command that measures it."""

from typing import Final, NamedTuple


class Figure(NamedTuple):
    """A value, its unit, what it is, and where it comes from: a section of docs/benchmarks.md."""

    value: float
    unit: str
    what: str
    section: str


_EXPORT: Final = "cost-of-an-export"
_SIZING: Final = "figures-for-sizing"
_EXPLORE: Final = "speed-of-explore"

LARGE_REQUEST_US: Final = Figure(2.12, "us", "gateway CPU time per span, in requests of 512 (protobuf, gzip)", _EXPORT)
SMALL_REQUEST_US: Final = Figure(400, "us", "gateway CPU time per request of four spans", _EXPORT)
INSERT_US: Final = Figure(6.2, "us", "ClickHouse CPU time per span for its insert", _SIZING)
MERGE_US: Final = Figure(12.3, "us", "ClickHouse CPU time per span for merges", _SIZING)
SCAN_MS: Final = Figure(245, "ms", "ClickHouse CPU time of one aggregate over 1.6 million spans", _EXPLORE)
SPAN_BYTES: Final = Figure(49.5, "bytes", "disk per span, merged", _SIZING)
DERIVED_BYTES: Final = Figure(5.0, "bytes", "disk per span for trace index, attribute keys, errors", _SIZING)
LOG_BYTES: Final = Figure(31, "bytes", "disk per log record, merged", _SIZING)
WIRE_GZIP_BYTES: Final = Figure(70, "bytes", "bytes per span on the wire and in the journal, with gzip", _SIZING)
WIRE_PLAIN_BYTES: Final = Figure(410, "bytes", "bytes per span on the wire and in the journal, without gzip", _SIZING)
GATEWAY_MIB: Final = Figure(256, "MiB", "memory of a gateway at half a million items a second", _EXPORT)

ALL: Final = (
    LARGE_REQUEST_US,
    SMALL_REQUEST_US,
    INSERT_US,
    MERGE_US,
    SCAN_MS,
    SPAN_BYTES,
    DERIVED_BYTES,
    LOG_BYTES,
    WIRE_GZIP_BYTES,
    WIRE_PLAIN_BYTES,
    GATEWAY_MIB,
)

LARGE_REQUEST_SPANS: Final = 512
SMALL_REQUEST_SPANS: Final = 4
SCANNED_SPANS: Final = 1_600_000
