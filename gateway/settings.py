"""Settings of the gateway: `SLUICE_GATEWAY_<FIELD>` and the table `[gateway]`."""

from pathlib import Path
from typing import Annotated, ClassVar, Final

import msgspec

from chassis.http.cors import check_origins
from chassis.runtime.settings_loader import Settings, SettingsError, setting
from proto.otlp.policy import NANOS_PER_DAY, SENSITIVE_WORDS, Policy

_MIB = 2**20
MIN_INFLIGHT_BYTES: Final = 160 * _MIB  # enough for one request of the largest size, with its columns
_JOURNAL_MARGIN_BYTES: Final = 512 * 2**10  # eight of the smallest segments: open ones count with their full size


class GatewaySettings(Settings, frozen=True, kw_only=True):
    """Caps on a request, budgets of the process, and how requests become batches."""

    prefix: ClassVar[str] = "SLUICE_GATEWAY_"

    max_wire_bytes: Annotated[int, setting("A body as it comes on the wire; beyond it 413.", unit="bytes", ge=1)] = (
        64 * _MIB
    )
    max_body_bytes: Annotated[int, setting("A body once inflated; beyond it 413.", unit="bytes", ge=1)] = 64 * _MIB
    max_json_bytes: Annotated[
        int,
        setting(
            "A JSON body once inflated; beyond it 413. Less than six times this in SLUICE_GATEWAY_MAX_INFLIGHT_BYTES: "
            "the largest are 503 while anything else is in flight.",
            unit="bytes",
            ge=1,
        ),
    ] = 64 * _MIB
    max_items: Annotated[int, setting("Spans or log records in a request; beyond it 413.", unit="items", ge=1)] = 50_000
    max_parts: Annotated[
        int,
        setting(
            "Spans, log records, attributes, events, links and array elements in a request; beyond it 413.",
            unit="parts",
            ge=1,
        ),
    ] = 2_000_000
    max_members: Annotated[
        int, setting("gzip members or zstd frames in a body; beyond it 413.", unit="members", ge=1)
    ] = 1_024
    max_window_bytes: Annotated[
        int,
        setting(
            "Window of a zstd frame, rounded down to a power of 2; beyond it 413.", unit="bytes", ge=2**10, le=2**31
        ),
    ] = 8 * _MIB
    max_key_bytes: Annotated[int, setting("Attribute key; longer ones are truncated.", unit="bytes", ge=16)] = 256
    max_value_bytes: Annotated[int, setting("Attribute value; longer ones are truncated.", unit="bytes", ge=16)] = (
        16 * 2**10
    )
    max_name_bytes: Annotated[
        int, setting("Span name and other names; longer ones are truncated.", unit="bytes", ge=16)
    ] = 2**10
    max_log_body_bytes: Annotated[int, setting("Log body; longer ones are truncated.", unit="bytes", ge=16)] = _MIB
    max_attributes: Annotated[
        int, setting("Attributes of one list; more are dropped and counted.", unit="attributes", ge=1)
    ] = 128
    max_events: Annotated[
        int, setting("Events of a span; more are dropped and counted.", unit="events", zero="none are kept", ge=0)
    ] = 128
    max_links: Annotated[
        int, setting("Links of a span; more are dropped and counted.", unit="links", zero="none are kept", ge=0)
    ] = 128
    max_exceptions: Annotated[
        int, setting("Error occurrences taken from a request.", unit="exceptions", zero="none are taken", ge=0)
    ] = 4_096
    max_resource_bytes: Annotated[
        int,
        setting(
            "Attributes of a resource, as they are stored with each of its items; those that do not fit are dropped "
            "and counted.",
            unit="bytes",
            zero="no limit",
            ge=0,
        ),
    ] = 128 * 2**10
    max_scope_bytes: Annotated[
        int,
        setting(
            "Attributes of a scope, as they are stored with each of its items; those that do not fit are dropped and "
            "counted.",
            unit="bytes",
            zero="no limit",
            ge=0,
        ),
    ] = 16 * 2**10
    max_repeated_bytes: Annotated[
        int,
        setting(
            "Resource and scope attributes summed over all items of a request; beyond it 413.",
            unit="bytes",
            zero="no limit",
            ge=0,
        ),
    ] = 2**30
    large_origins_bytes: Annotated[
        int,
        setting(
            "What the distinct resources and scopes of a project, UTC day of its items and process may hold beyond "
            "2 KiB each; a request with further ones is stored with 2 KiB of each, what does not fit is dropped and "
            "counted.",
            unit="bytes",
            zero="no limit",
            ge=0,
        ),
    ] = 16 * _MIB
    max_future_s: Annotated[
        int,
        setting("How far ahead of our clock an item may start.", unit="seconds", zero="not at all", ge=0, le=86_400),
    ] = 3_600
    max_days: Annotated[
        int,
        setting(
            "Days (UTC) that the items of a request lie in; beyond it 413. A batch is sent once it has so many.",
            unit="days",
            ge=1,
        ),
    ] = 100
    max_inflight_bytes: Annotated[
        int,
        setting(
            "Memory for requests between their first byte and their answer; a project that has some of it may take as "
            "much as is left free, beyond it 503.",
            unit="bytes",
            ge=1,
        ),
    ] = 512 * _MIB
    max_inflight_items: Annotated[
        int,
        setting("Items decoded and not answered yet; shared by projects like that memory.", unit="items", ge=1),
    ] = 2_000_000
    target_delay_s: Annotated[
        float,
        setting(
            "Under overload so many requests are taken at once that half of them are answered within this time of "
            "their last byte, the others get 503. In mode store half the ack deadline counts, if that is longer.",
            unit="seconds",
            zero="all are taken that memory is there for",
            ge=0,
            le=60,
        ),
    ] = 0.2
    batch_rows: Annotated[int, setting("A batch is sent once it has so many items.", unit="items", ge=1)] = 100_000
    batch_bytes: Annotated[int, setting("A batch is sent once it holds so much.", unit="bytes", ge=1)] = 64 * _MIB
    linger_s: Annotated[
        float,
        setting(
            "How long a batch waits for more; less after a pause.",
            unit="seconds",
            zero="every request at once",
            ge=0,
            le=5,
        ),
    ] = 0.2
    max_batches: Annotated[int, setting("Batches being inserted at once.", unit="batches", ge=1, le=64)] = 2
    journal_dir: Annotated[
        str,
        setting(
            "Directory of the journal (mode journal), on a disk worth trusting.",
            shown_default="journal in the data directory",
        ),
    ] = ""
    journal_segment_bytes: Annotated[
        int, setting("A file of the journal; a request that is larger gets a larger one.", unit="bytes", ge=64 * 2**10)
    ] = 64 * _MIB
    journal_max_bytes: Annotated[
        int,
        setting(
            "What the journal takes on disk; beyond it 503, for a project that holds much of it earlier. At least "
            "SLUICE_GATEWAY_MAX_WIRE_BYTES and 512 KiB.",
            unit="bytes",
            zero="no limit",
            ge=0,
        ),
    ] = 16 * 2**10 * _MIB
    journal_min_free_bytes: Annotated[
        int,
        setting(
            "Room that the journal leaves on its disk; with less of it free, 503.", unit="bytes", zero="none", ge=0
        ),
    ] = 2**10 * _MIB
    journal_hold_s: Annotated[
        float,
        setting(
            "How long requests are kept after they are stored, in case that ClickHouse loses them.",
            unit="seconds",
            zero="not at all",
            ge=0,
            le=86_400,
        ),
    ] = 600.0
    quarantine_days: Annotated[
        int,
        setting("How long requests are kept that ClickHouse refused.", unit="days", zero="for ever", ge=0, le=36_500),
    ] = 30
    journal_linger_s: Annotated[
        float,
        setting(
            "How long a batch waits for more behind the journal; less after a pause.",
            unit="seconds",
            zero="every request at once",
            ge=0,
            le=30,
        ),
    ] = 0.5
    pending_bytes: Annotated[
        int,
        setting(
            "Memory for acknowledged requests that wait to be stored; beyond it the journal alone has them.",
            unit="bytes",
            ge=1,
        ),
    ] = 128 * _MIB
    slow_after_days: Annotated[
        int,
        setting(
            "A request with an item of a day that ended so long ago takes the slow lane: batches of their own.",
            unit="days",
            zero="none does for that",
            ge=0,
        ),
    ] = 2
    slow_after_symbols: Annotated[
        int,
        setting(
            "A request with so many distinct attribute keys and span names takes the slow lane.",
            unit="distinct strings",
            zero="none does for that",
            ge=0,
        ),
    ] = 10_000
    slow_linger_s: Annotated[
        float,
        setting(
            "How long a batch of the slow lane waits for more; at most a quarter of the ack deadline.",
            unit="seconds",
            zero="every request at once",
            ge=0,
            le=30,
        ),
    ] = 2.0
    slow_batches: Annotated[
        int, setting("Batches of the slow lane being inserted at once.", unit="batches", ge=1, le=64)
    ] = 1
    recovery_batches: Annotated[
        int,
        setting(
            "After a start, unfinished batches of the previous process that are inserted at once; each is held in "
            "memory as a whole.",
            unit="batches",
            ge=1,
            le=64,
        ),
    ] = 4
    max_slow_bytes: Annotated[
        int,
        setting(
            "Memory for requests in the slow lane; a project may take as much as is left free, beyond it 503.",
            unit="bytes",
            ge=1,
        ),
    ] = 128 * _MIB
    ack_deadline_s: Annotated[
        float,
        setting(
            "A request whose items are not in ClickHouse by then is answered 503; exporters give up at 10 s.",
            unit="seconds",
            ge=0.05,
            le=300,
        ),
    ] = 8.0
    max_background_bytes: Annotated[
        int,
        setting(
            "Blocks of acknowledged batches that wait for another try (derived rows); beyond it they are lost.",
            unit="bytes",
            zero="none wait",
            ge=0,
        ),
    ] = 64 * _MIB
    derived_linger_s: Annotated[
        float,
        setting(
            "How long attribute keys, errors and outcomes wait for those of the next batches; less after a pause.",
            unit="seconds",
            zero="not at all",
            ge=0,
            le=60,
        ),
    ] = 2.0
    keys_per_day: Annotated[
        int,
        setting(
            "Distinct attribute keys listed per project, UTC day and process; further keys count in one overflow "
            "entry. Values are stored either way.",
            unit="keys",
            zero="no limit",
            ge=0,
        ),
    ] = 10_000
    keys_per_batch: Annotated[
        int,
        setting(
            "New keys per insert batch that count towards SLUICE_GATEWAY_KEYS_PER_DAY, those of most spans first.",
            unit="keys",
            zero="no limit",
            ge=0,
        ),
    ] = 2_000
    outcomes_flush_s: Annotated[
        float, setting("How often counts of refused requests are stored.", unit="seconds", ge=0.05, le=3_600)
    ] = 10.0
    quota_sync_s: Annotated[
        float,
        setting(
            "How often a process tells the database what it accepted of quotas, and learns what others did; with a "
            "Redis it does so there as well, every 0.2 s at least.",
            unit="seconds",
            ge=0.05,
            le=60,
        ),
    ] = 1.0
    cors_origins: Annotated[
        tuple[str, ...],
        setting(
            "Origins whose browser pages may send, as https://host or http://host:port, comma-separated, or *.",
            zero="empty: no cross-origin requests",
        ),
    ] = ()

    def validate(self) -> None:
        """Reject a journal that is too small for the largest request, and origins that no browser sends."""
        least = self.max_wire_bytes + _JOURNAL_MARGIN_BYTES
        if 0 < self.journal_max_bytes < least:
            raise SettingsError(
                f"SLUICE_GATEWAY_JOURNAL_MAX_BYTES must be 0 (no limit) or at least {least}: "
                "SLUICE_GATEWAY_MAX_WIRE_BYTES and 512 KiB."
            )
        check_origins("SLUICE_GATEWAY_CORS_ORIGINS", self.cors_origins)

    def journal_directory(self, data_dir: Path) -> Path:
        """The directory of the journals: `journal_dir`, or `journal` in the data directory."""
        return Path(self.journal_dir) if self.journal_dir else data_dir / "journal"

    def within(self, memory: int) -> "GatewaySettings":
        """These settings for a process that may use `memory` bytes: each buffer is limited to a fraction of it, so that
        all of them and the embedded engine fit. From 8 GiB on no default is lowered.
        """
        return msgspec.structs.replace(
            self,
            max_inflight_bytes=min(self.max_inflight_bytes, max(memory // 8, MIN_INFLIGHT_BYTES)),
            pending_bytes=min(self.pending_bytes, memory // 32),
            batch_bytes=min(self.batch_bytes, memory // 64),
            max_background_bytes=min(self.max_background_bytes, memory // 64),
            recovery_batches=min(self.recovery_batches, max(1, memory // (2 * 2**30))),
        )

    def policy(self, retention_days: int, words: tuple[str, ...] = ()) -> Policy:
        """The decoder's policy for a project with additional sensitive `words`."""
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
        )
