"""Settings of the gateway: `SLUICE_GATEWAY_<FIELD>` and the table `[gateway]` of the settings file."""

from pathlib import Path
from typing import Annotated, ClassVar, Final

import msgspec

from chassis.http.cors import check_origins
from chassis.runtime.settings_loader import Settings, SettingsError, setting
from proto.otlp.policy import NANOS_PER_DAY, SENSITIVE_WORDS, Policy

_MIB = 2**20
MIN_INFLIGHT_BYTES: Final = 160 * _MIB  # fits the largest request with its columns
# Eight segments of the smallest size; an open segment counts with its full size.
_JOURNAL_MARGIN_BYTES: Final = 512 * 2**10


class GatewaySettings(Settings, frozen=True, kw_only=True):
    """Limits of a request, memory budgets of the process, and batching."""

    prefix: ClassVar[str] = "SLUICE_GATEWAY_"

    max_wire_bytes: Annotated[
        int,
        setting(
            "Maximum size of a request body as received, before decompression. Larger bodies get 413.",
            unit="bytes",
            ge=1,
        ),
    ] = 64 * _MIB
    max_body_bytes: Annotated[
        int, setting("Maximum size of a decompressed request body. Larger bodies get 413.", unit="bytes", ge=1)
    ] = 64 * _MIB
    max_json_bytes: Annotated[
        int,
        setting(
            "Maximum size of a decompressed JSON body. Larger bodies get 413. If SLUICE_GATEWAY_MAX_INFLIGHT_BYTES is "
            "less than six times this size, the largest bodies get 503 while any other request is in flight.",
            unit="bytes",
            ge=1,
            advanced="memory is scarce: a JSON body of this size takes six times its size in memory",
        ),
    ] = 64 * _MIB
    max_items: Annotated[
        int, setting("Maximum number of spans or log records per request. Larger requests get 413.", unit="items", ge=1)
    ] = 50_000
    max_parts: Annotated[
        int,
        setting(
            "Maximum number of spans, log records, attributes, events, links and array elements per request. Larger "
            "requests get 413.",
            unit="parts",
            ge=1,
            advanced="requests have an unusual number of attributes or array elements per item",
        ),
    ] = 2_000_000
    max_members: Annotated[
        int,
        setting(
            "Maximum number of gzip members or zstd frames per body. Bodies with more members or frames get 413.",
            unit="members",
            ge=1,
            advanced="a client compresses a body in very many pieces",
        ),
    ] = 1_024
    max_window_bytes: Annotated[
        int,
        setting(
            "Maximum window size of a zstd frame, rounded down to a power of 2. Larger windows get 413.",
            unit="bytes",
            ge=2**10,
            le=2**31,
            advanced="a client compresses with a zstd window above 8 MiB",
        ),
    ] = 8 * _MIB
    max_key_bytes: Annotated[
        int,
        setting(
            "Maximum size of an attribute key. Longer keys are truncated.",
            unit="bytes",
            ge=16,
            advanced="attribute keys are longer and must not be truncated",
        ),
    ] = 256
    max_value_bytes: Annotated[
        int, setting("Maximum size of an attribute value. Longer values are truncated.", unit="bytes", ge=16)
    ] = 64 * 2**10
    max_name_bytes: Annotated[
        int,
        setting(
            "Maximum size of a span name or other name. Longer names are truncated.",
            unit="bytes",
            ge=16,
            advanced="span names are longer and must not be truncated",
        ),
    ] = 2**10
    max_log_body_bytes: Annotated[
        int,
        setting(
            "Maximum size of a log body. Longer bodies are truncated.",
            unit="bytes",
            ge=16,
            advanced="log bodies are longer and must not be truncated, or disk space is scarce",
        ),
    ] = _MIB
    max_attributes: Annotated[
        int,
        setting(
            "Maximum number of attributes per list. Further attributes are dropped and counted.",
            unit="attributes",
            ge=1,
        ),
    ] = 128
    max_events: Annotated[
        int,
        setting(
            "Maximum number of events per span. Further events are dropped and counted.",
            unit="events",
            zero="none are kept",
            ge=0,
            advanced="spans have more events",
        ),
    ] = 128
    max_links: Annotated[
        int,
        setting(
            "Maximum number of links per span. Further links are dropped and counted.",
            unit="links",
            zero="none are kept",
            ge=0,
            advanced="spans have more links",
        ),
    ] = 128
    max_exceptions: Annotated[
        int,
        setting(
            "Maximum number of error occurrences that are extracted per request.",
            unit="exceptions",
            zero="none are extracted",
            ge=0,
            advanced="requests record more exceptions",
        ),
    ] = 4_096
    max_resource_bytes: Annotated[
        int,
        setting(
            "Maximum size of the attributes of a resource. They are stored with each item of the resource. Attributes "
            "that do not fit are dropped and counted.",
            unit="bytes",
            zero="no limit",
            ge=0,
            advanced="resources have more or larger attributes",
        ),
    ] = 128 * 2**10
    max_scope_bytes: Annotated[
        int,
        setting(
            "Maximum size of the attributes of a scope. They are stored with each item of the scope. Attributes that "
            "do not fit are dropped and counted.",
            unit="bytes",
            zero="no limit",
            ge=0,
            advanced="scopes have more or larger attributes",
        ),
    ] = 16 * 2**10
    max_repeated_bytes: Annotated[
        int,
        setting(
            "Maximum size of resource and scope attributes, summed over all items of a request. Larger requests get "
            "413.",
            unit="bytes",
            zero="no limit",
            ge=0,
            advanced="requests repeat large resources over very many items",
        ),
    ] = 2**30
    large_origins_bytes: Annotated[
        int,
        setting(
            "Maximum total size of the large resources and scopes of a project. A resource or scope is large if it "
            "has more than 2 KiB. Only the bytes after the first 2 KiB count, and identical resources or scopes count "
            "once. Each process counts separately, and each UTC day of the items has its own count. If a request "
            "would exceed the maximum, its resources and scopes are shortened to 2 KiB each. Attributes that do not "
            "fit are dropped and counted.",
            unit="bytes",
            zero="no limit",
            ge=0,
            advanced="a project sends many distinct large resources, and ClickHouse has memory for their dictionaries",
        ),
    ] = 16 * _MIB
    max_future_s: Annotated[
        int,
        setting(
            "How far ahead of the gateway's clock an item may start. Items that start later are rejected.",
            unit="seconds",
            zero="not at all",
            ge=0,
            le=86_400,
            advanced="clocks of senders are further ahead",
        ),
    ] = 3_600
    max_days: Annotated[
        int,
        setting(
            "Maximum number of UTC days in the times of a batch's items. A batch with this many days gets no further "
            "request. In mode store, a request with more days gets 413.",
            unit="days",
            ge=1,
            advanced="old data is imported, and one request has items of many days",
        ),
    ] = 100
    max_inflight_bytes: Annotated[
        int,
        setting(
            "Memory for requests from their first byte to their response. The first request of a project may use all "
            "free memory. A further request gets 503 if its project would then use more memory than is still free. "
            "For example, a single project can use half of the memory, and each of two projects a third.",
            unit="bytes",
            ge=1,
        ),
    ] = 512 * _MIB
    max_inflight_items: Annotated[
        int,
        setting(
            "Maximum number of items that are decoded and not answered yet. Further requests get 503. Projects share "
            "this number by the rule of SLUICE_GATEWAY_MAX_INFLIGHT_BYTES.",
            unit="items",
            ge=1,
            advanced="requests have very small items, so that the number of items is reached before the memory limit",
        ),
    ] = 2_000_000
    target_delay_s: Annotated[
        float,
        setting(
            "Target latency under overload. Sluice limits the number of concurrent requests so that half of the "
            "requests are answered within this time after their last byte. Further requests get 503. In mode store, "
            "the target is at least half of SLUICE_GATEWAY_ACK_DEADLINE_S.",
            unit="seconds",
            zero="memory is the only limit on concurrent requests",
            ge=0,
            le=60,
            advanced="under overload, throughput matters more than latency, or latency matters more than throughput",
        ),
    ] = 0.2
    batch_rows: Annotated[int, setting("Number of items at which a batch is inserted.", unit="items", ge=1)] = 100_000
    batch_bytes: Annotated[
        int,
        setting(
            "Total size of the decoded requests at which a batch is inserted.",
            unit="bytes",
            ge=1,
            advanced="ClickHouse has little memory, or inserts should be larger",
        ),
    ] = 64 * _MIB
    linger_s: Annotated[
        float,
        setting(
            "Mode store: how long a batch waits for more requests. After an idle period, a batch waits less.",
            unit="seconds",
            zero="every request is inserted immediately",
            ge=0,
            le=5,
            advanced="mode `store`: acknowledgements must be faster, or ClickHouse must get fewer parts",
        ),
    ] = 0.2
    max_batches: Annotated[
        int,
        setting(
            "Number of batches that are inserted at the same time.",
            unit="batches",
            ge=1,
            le=64,
            advanced="the network to ClickHouse is slow, and ClickHouse is idle between inserts",
        ),
    ] = 2
    journal_dir: Annotated[
        str,
        setting(
            "Directory of the journal (mode journal). Use a reliable disk.",
            shown_default="journal in the data directory",
        ),
    ] = ""
    journal_segment_bytes: Annotated[
        int,
        setting(
            "Size of a journal file. A larger request gets a larger file.",
            unit="bytes",
            ge=64 * 2**10,
            advanced="the disk is small",
        ),
    ] = 64 * _MIB
    journal_max_bytes: Annotated[
        int,
        setting(
            "Maximum size of the journal on disk. Requests that do not fit get 503. A project with much data in the "
            "journal gets 503 earlier. The value must be at least SLUICE_GATEWAY_MAX_WIRE_BYTES plus 512 KiB.",
            unit="bytes",
            zero="no limit",
            ge=0,
        ),
    ] = 16 * 2**10 * _MIB
    journal_min_free_bytes: Annotated[
        int,
        setting(
            "Disk space that the journal leaves free. With less free space, requests get 503.",
            unit="bytes",
            zero="none",
            ge=0,
        ),
    ] = 2**10 * _MIB
    journal_hold_s: Annotated[
        float,
        setting(
            "How long stored requests stay in the journal, so that they can be inserted again if ClickHouse loses "
            "them.",
            unit="seconds",
            zero="not at all",
            ge=0,
            le=86_400,
        ),
    ] = 600.0
    quarantine_days: Annotated[
        int,
        setting(
            "How long quarantined requests and damaged bytes of the journal are kept.",
            unit="days",
            zero="kept forever",
            ge=0,
            le=36_500,
        ),
    ] = 30
    journal_linger_s: Annotated[
        float,
        setting(
            "Modes journal and memory: how long a batch waits for more requests. After an idle period, a batch waits "
            "less.",
            unit="seconds",
            zero="every request is inserted immediately",
            ge=0,
            le=30,
            advanced="rows must be visible sooner, or ClickHouse must get fewer parts",
        ),
    ] = 0.5
    pending_bytes: Annotated[
        int,
        setting(
            "Memory for acknowledged requests that wait to be stored. Further requests wait in the journal.",
            unit="bytes",
            ge=1,
        ),
    ] = 128 * _MIB
    slow_after_days: Annotated[
        int,
        setting(
            "Age from which an item counts as old: the number of days since the UTC day of the item ended. A request "
            "with an old item takes the slow lane, which has its own batches.",
            unit="days",
            zero="age is not considered",
            ge=0,
            advanced="old data is imported, or most requests hold items of earlier days",
        ),
    ] = 2
    slow_after_symbols: Annotated[
        int,
        setting(
            "A request with at least this many distinct attribute keys and span names takes the slow lane.",
            unit="distinct strings",
            zero="the number of keys and names is not considered",
            ge=0,
            advanced="most requests have very many distinct keys and names",
        ),
    ] = 10_000
    slow_linger_s: Annotated[
        float,
        setting(
            "How long a batch of the slow lane waits for more requests. In mode store, it waits at most a quarter of "
            "SLUICE_GATEWAY_ACK_DEADLINE_S.",
            unit="seconds",
            zero="every request is inserted immediately",
            ge=0,
            le=30,
            advanced="imported data must be visible sooner",
        ),
    ] = 2.0
    slow_batches: Annotated[
        int,
        setting(
            "Number of batches of the slow lane that are inserted at the same time.",
            unit="batches",
            ge=1,
            le=64,
            advanced="an import must be faster, and ClickHouse is not busy",
        ),
    ] = 1
    recovery_batches: Annotated[
        int,
        setting(
            "After a start: number of unfinished batches of the previous process that are inserted at the same time. "
            "Each of these batches is held in memory as a whole.",
            unit="batches",
            ge=1,
            le=64,
            advanced="recovery after an outage must be faster, or take less memory",
        ),
    ] = 4
    max_slow_bytes: Annotated[
        int,
        setting(
            "Memory for requests in the slow lane. In mode store, projects share this memory by the rule of "
            "SLUICE_GATEWAY_MAX_INFLIGHT_BYTES, and requests that do not fit get 503. In mode journal, requests that "
            "do not fit wait in the journal.",
            unit="bytes",
            ge=1,
            advanced="mode `store`: imports are refused because the slow lane has no memory left",
        ),
    ] = 128 * _MIB
    ack_deadline_s: Annotated[
        float,
        setting(
            "Mode store: time within which the items of a request must be in ClickHouse. Afterwards the request gets "
            "503. Exporters give up after 10 s.",
            unit="seconds",
            ge=0.05,
            le=300,
            advanced="mode `store`: exporters wait for more or less than ten seconds",
        ),
    ] = 8.0
    max_background_bytes: Annotated[
        int,
        setting(
            "Memory for derived rows (such as attribute keys, errors and outcomes) that wait for a retry. A block of "
            "derived rows waits here if its batch is acknowledged, but the insert of the block has failed. Blocks "
            "that do not fit are lost.",
            unit="bytes",
            zero="no block is retried",
            ge=0,
            advanced="mode `store`: derived rows are lost during ClickHouse outages",
        ),
    ] = 64 * _MIB
    derived_linger_s: Annotated[
        float,
        setting(
            "How long rows of attribute keys, errors and outcomes wait for the rows of the next batches. After an "
            "idle period, the rows wait less.",
            unit="seconds",
            zero="not at all",
            ge=0,
            le=60,
            advanced="attribute keys and errors must be visible sooner, or ClickHouse must get fewer parts",
        ),
    ] = 2.0
    keys_per_day: Annotated[
        int,
        setting(
            "Maximum number of distinct attribute keys that are listed per project, UTC day and process. Further keys "
            "are counted in one overflow entry. The values of all keys are stored.",
            unit="keys",
            zero="no limit",
            ge=0,
            advanced="a project has more attribute keys, and all must be listed",
        ),
    ] = 10_000
    keys_per_batch: Annotated[
        int,
        setting(
            "Maximum number of new attribute keys that one insert batch adds to the list of a project and UTC day "
            "(see SLUICE_GATEWAY_KEYS_PER_DAY). If a batch has more new keys, the keys that occur in the most spans "
            "of the batch are added.",
            unit="keys",
            zero="no limit",
            ge=0,
            advanced="a project gets very many new attribute keys at once",
        ),
    ] = 2_000
    outcomes_flush_s: Annotated[
        float,
        setting(
            "Interval at which counts of refused requests are stored.",
            unit="seconds",
            ge=0.05,
            le=3_600,
            advanced="counts of refused requests must be visible sooner",
        ),
    ] = 10.0
    quota_sync_s: Annotated[
        float,
        setting(
            "Interval at which a process writes its quota usage to the database and reads the usage of the other "
            "processes. With Redis, the process also writes and reads the usage in Redis, at least every 0.2 s.",
            unit="seconds",
            ge=0.05,
            le=60,
            advanced="several gateways must agree on quotas sooner, or the database must get fewer writes",
        ),
    ] = 1.0
    cors_origins: Annotated[
        tuple[str, ...],
        setting(
            "Origins whose browser pages may send exports, as https://host or http://host:port, comma-separated, or "
            "*. If the value is *, pages cannot send beacons, or custom headers such as X-Tenant. To allow them, list "
            "the origins by name.",
            zero="empty: no cross-origin requests",
        ),
    ] = ()

    def validate(self) -> None:
        """Reject a journal that is too small for the largest request, and origins that no browser sends."""
        least = self.max_wire_bytes + _JOURNAL_MARGIN_BYTES
        if 0 < self.journal_max_bytes < least:
            raise SettingsError(
                f"SLUICE_GATEWAY_JOURNAL_MAX_BYTES must be 0 (no limit) or at least {least}: "
                "SLUICE_GATEWAY_MAX_WIRE_BYTES plus 512 KiB."
            )
        check_origins("SLUICE_GATEWAY_CORS_ORIGINS", self.cors_origins)

    def journal_directory(self, data_dir: Path) -> Path:
        """The directory of all journals; by default in `data_dir`."""
        return Path(self.journal_dir) if self.journal_dir else data_dir / "journal"

    def within(self, memory: int) -> "GatewaySettings":
        """These settings, limited for a process that may use `memory` bytes: each memory budget gets at most a share,
        so that all budgets together, including the embedded engine, stay below `memory`. From 8 GiB on, no default is
        lowered.
        """
        return msgspec.structs.replace(
            self,
            max_inflight_bytes=min(self.max_inflight_bytes, max(memory // 8, MIN_INFLIGHT_BYTES)),
            pending_bytes=min(self.pending_bytes, memory // 32),
            batch_bytes=min(self.batch_bytes, memory // 64),
            max_background_bytes=min(self.max_background_bytes, memory // 64),
            recovery_batches=min(self.recovery_batches, max(1, memory // (2 * 2**30))),
        )

    def policy(self, retention_days: int, words: tuple[str, ...] = (), exempt_keys: tuple[str, ...] = ()) -> Policy:
        """The decoder's policy for a project with additional sensitive `words`, and with `exempt_keys`."""
        return Policy(
            max_items=self.max_items,
            max_parts=self.max_parts,
            max_key_bytes=self.max_key_bytes,
            max_value_bytes=self.max_value_bytes,
            max_name_bytes=self.max_name_bytes,
            max_body_bytes=self.max_log_body_bytes,
            max_attributes=self.max_attributes,
            max_events=self.max_events,
            max_links=self.max_links,
            max_exceptions=self.max_exceptions,
            max_resource_bytes=self.max_resource_bytes,
            max_scope_bytes=self.max_scope_bytes,
            max_repeated_bytes=self.max_repeated_bytes,
            max_future_ns=self.max_future_s * 10**9,
            retention_ns=retention_days * NANOS_PER_DAY,
            sensitive_words=(*SENSITIVE_WORDS, *words),
            exempt_keys=exempt_keys,
        )
