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

LARGE_REQUEST_US: Final = Figure(2.12, "us", "CPU of the gateway a span, 512 in a request, protobuf with gzip", _EXPORT)
SMALL_REQUEST_US: Final = Figure(400, "us", "CPU of the gateway a request of four spans", _EXPORT)
INSERT_US: Final = Figure(6.2, "us", "CPU of ClickHouse a span: its insert", _SIZING)
MERGE_US: Final = Figure(12.3, "us", "CPU of ClickHouse a span: merges", _SIZING)
SCAN_MS: Final = Figure(245, "ms", "CPU of ClickHouse an aggregate over 1.6 million spans of its window", _EXPLORE)
SPAN_BYTES: Final = Figure(49.5, "bytes", "on disk a span, merged", _SIZING)
DERIVED_BYTES: Final = Figure(5.0, "bytes", "on disk a span: trace index, attribute keys, errors", _SIZING)
LOG_BYTES: Final = Figure(31, "bytes", "on disk a log record, merged", _SIZING)
WIRE_GZIP_BYTES: Final = Figure(70, "bytes", "a span on the wire and in the journal, with gzip", _SIZING)
WIRE_PLAIN_BYTES: Final = Figure(410, "bytes", "the same without gzip", _SIZING)
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
