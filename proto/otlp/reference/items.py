"""Decode spans and log records to rows: accept or reject each item, and modify accepted items (docs/codec.md 3)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from proto.otlp.policy import (
    MAX_NANOS,
    SEVERITY_NUMBERS,
    ItemModification,
    ItemRejection,
    Policy,
    RaisedException,
    RequestRejection,
    Signal,
    decode_error,
)
from proto.otlp.reference.resource_scope import (
    Attributes,
    ResourceColumns,
    ScopeColumns,
    dropped_count,
    numeric_names,
    read_resource,
    read_scope,
    resource_scope_bytes,
    shared_cells,
)
from proto.otlp.reference.text import Flags, clean, compact_json
from proto.otlp.reference.values import NO_VALUE, ValueReader, merge_occurrences

_NO_TRACE: Final = bytes(16)
_NO_SPAN: Final = bytes(8)
_SEVERITY_ERROR: Final = 17


class Row(NamedTuple):
    """An accepted item: its time, and the cells of its table except `batch_id` and `row`."""

    time_ns: int
    cells: tuple[object, ...]
    names: Mapping[bytes, bool]  # names of its attributes, and whether each value is a number; for spans only


class ItemDecoder:
    """Reads the items of one request that passed `prevalidate`. The results are in the public attributes."""

    def __init__(self, project_id: int, policy: Policy, now_ns: int) -> None:
        self.rows: list[Row] = []
        self.rejected: Counter[str] = Counter()
        self.modified: Counter[str] = Counter()
        self.exceptions: list[RaisedException] = []
        self.exceptions_over_limit = 0
        self._repeated_bytes = 0
        self._project_id = project_id
        self._policy = policy
        self._now_ns = now_ns
        self._earliest_ns = policy.min_time_ns(now_ns)
        self._latest_ns = now_ns + policy.max_future_ns
        self._values = ValueReader(policy)

    def read(self, signal: Signal, request: Any) -> None:
        for resource_items in request.resource_spans if signal == "traces" else request.resource_logs:
            resource = read_resource(resource_items.resource, resource_items.schema_url, self._values, self._policy)
            for scope_items in resource_items.scope_spans if signal == "traces" else resource_items.scope_logs:
                scope = read_scope(scope_items.scope, scope_items.schema_url, self._values, self._policy)
                repeated = resource_scope_bytes(resource, scope)
                for item in scope_items.spans if signal == "traces" else scope_items.log_records:
                    flags = Flags()
                    flags |= resource.flags | scope.flags
                    read_item = self._span if signal == "traces" else self._log
                    row = read_item(item, resource, scope, flags)
                    if isinstance(row, ItemRejection):
                        self.rejected[row] += 1
                    else:
                        self.rows.append(row)
                        self.modified.update(flags)
                        self._repeated_bytes += repeated
        if self._policy.max_repeated_bytes and self._repeated_bytes > self._policy.max_repeated_bytes:
            raise decode_error(RequestRejection.RESOURCES_TOO_LARGE, self._policy)

    def _span(self, span: Any, resource: ResourceColumns, scope: ScopeColumns, flags: Flags) -> Row | ItemRejection:
        if reason := self._span_fault(span):
            return reason
        policy = self._policy
        start_ns = span.start_time_unix_nano
        duration = clamp_time(span.end_time_unix_nano, flags) - start_ns
        if duration < 0:
            flags.add(ItemModification.REVERSED)
        name = clean(span.name, policy.max_name_bytes, flags, "/name")
        trace_state = clean(span.trace_state, policy.max_value_bytes, flags, "/traceState")
        status_message = clean(span.status.message, policy.max_value_bytes, flags, "/statusMessage")
        attributes, over_limit = self._values.attributes(span.attributes, flags, "/attributes")
        events = [self._event(event, flags, f"/events/{i}") for i, event in enumerate(span.events[: policy.max_events])]
        links = [self._link(link, flags, f"/links/{i}") for i, link in enumerate(span.links[: policy.max_links])]
        cells = (
            self._project_id,
            start_ns,
            duration,
            span.trace_id,
            span.span_id,
            _id_or_default(span.parent_span_id, _NO_SPAN, flags),
            trace_state,
            span.flags,
            name,
            _known_enum(span.kind, 5, flags),
            _known_enum(span.status.code, 2, flags),
            status_message,
            compact_json([data for data, _ in events]) if events else b"",
            dropped_count(span.dropped_events_count, len(span.events) - len(events)),
            compact_json(links) if links else b"",
            dropped_count(span.dropped_links_count, len(span.links) - len(links)),
            *shared_cells(attributes, dropped_count(span.dropped_attributes_count, over_limit), flags, resource, scope),
        )
        for data, raised in events:
            if data["name"] == "exception":
                self._add_exception(start_ns, span.trace_id, span.span_id, raised, resource)
        return Row(start_ns, cells, numeric_names(attributes, resource, scope))

    def _span_fault(self, span: Any) -> ItemRejection | None:
        if len(span.trace_id) != 16 or span.trace_id == _NO_TRACE:
            return ItemRejection.INVALID_TRACE_ID
        if len(span.span_id) != 8 or span.span_id == _NO_SPAN:
            return ItemRejection.INVALID_SPAN_ID
        if span.start_time_unix_nano == 0:
            return ItemRejection.MISSING_START_TIME
        if span.start_time_unix_nano > self._latest_ns:
            return ItemRejection.START_TIME_IN_FUTURE
        if span.start_time_unix_nano < self._earliest_ns:
            return ItemRejection.START_TIME_TOO_OLD
        return None

    def _event(self, event: Any, flags: Flags, path: str) -> tuple[dict[str, object], Attributes]:
        name = clean(event.name, self._policy.max_name_bytes, flags, f"{path}/name")
        attributes, over_limit = self._values.attributes(event.attributes, flags, f"{path}/attributes")
        data: dict[str, object] = {
            "timeUnixNano": clamp_time(event.time_unix_nano, flags),
            "name": name.decode(),
            "attributes": _json_data(attributes),
            "droppedAttributesCount": dropped_count(event.dropped_attributes_count, over_limit),
        }
        return data, attributes

    def _link(self, link: Any, flags: Flags, path: str) -> dict[str, object]:
        trace_state = clean(link.trace_state, self._policy.max_value_bytes, flags, f"{path}/traceState")
        attributes, over_limit = self._values.attributes(link.attributes, flags, f"{path}/attributes")
        return {
            "traceId": _id_or_default(link.trace_id, _NO_TRACE, flags, b"").hex(),
            "spanId": _id_or_default(link.span_id, _NO_SPAN, flags, b"").hex(),
            "traceState": trace_state.decode(),
            "attributes": _json_data(attributes),
            "droppedAttributesCount": dropped_count(link.dropped_attributes_count, over_limit),
            "flags": link.flags,
        }

    def _log(self, log: Any, resource: ResourceColumns, scope: ScopeColumns, flags: Flags) -> Row | ItemRejection:
        policy = self._policy
        times = (log.time_unix_nano, log.observed_time_unix_nano, self._now_ns)
        time_source, time_ns = next((source, time) for source, time in enumerate(times) if time or source == 2)
        if time_ns > self._latest_ns:
            return ItemRejection.TIME_IN_FUTURE
        if time_ns < self._earliest_ns:
            return ItemRejection.TIME_TOO_OLD
        trace_id = _id_or_default(log.trace_id, _NO_TRACE, flags)
        span_id = _id_or_default(log.span_id, _NO_SPAN, flags)
        severity = _known_enum(log.severity_number, 24, flags)
        if log.severity_number == 0:
            severity = SEVERITY_NUMBERS.get(log.severity_text.upper(), 0)
        severity_text = clean(log.severity_text, policy.max_name_bytes, flags, "/severityText")
        event_name = clean(log.event_name, policy.max_name_bytes, flags, "/eventName")
        attributes, over_limit = self._values.attributes(log.attributes, flags, "/attributes")
        body = NO_VALUE
        if log.body:
            body = self._values.read(merge_occurrences(log.body), policy.max_body_bytes, flags, "/body")
        cells = (
            self._project_id,
            time_ns,
            time_source,
            clamp_time(log.observed_time_unix_nano, flags),
            trace_id,
            span_id,
            log.flags,
            severity,
            severity_text,
            event_name,
            body.text,
            body.type_tag,
            *shared_cells(attributes, dropped_count(log.dropped_attributes_count, over_limit), flags, resource, scope),
        )
        if severity >= _SEVERITY_ERROR and any(_exception_texts(attributes)[:2]):
            self._add_exception(time_ns, trace_id, span_id, attributes, resource)
        return Row(time_ns, cells, {})

    def _add_exception(
        self, time_ns: int, trace_id: bytes, span_id: bytes, attributes: Attributes, resource: ResourceColumns
    ) -> None:
        if len(self.exceptions) >= self._policy.max_exceptions:
            self.exceptions_over_limit += 1
            return
        texts = (*_exception_texts(attributes), resource.service_name, resource.environment, resource.release)
        self.exceptions.append(RaisedException(time_ns, trace_id, span_id, *(text.decode() for text in texts)))


def clamp_time(time_ns: int, flags: Flags) -> int:
    """`time_ns`, or the last nanosecond that DateTime64(9) holds."""
    if time_ns > MAX_NANOS:
        flags.add(ItemModification.CLAMPED)
        return MAX_NANOS
    return time_ns


def _id_or_default(sent: bytes, none: bytes, flags: Flags, absent: bytes | None = None) -> bytes:
    """`sent` if it has the length of `none`, otherwise `absent`, by default `none`. An empty id is not an error."""
    if len(sent) == len(none):
        return sent
    if sent:
        flags.add(ItemModification.REPAIRED)
    return none if absent is None else absent


def _known_enum(number: int, maximum: int, flags: Flags) -> int:
    """The number of an enum value, or 0 if OTLP does not define the number."""
    if 0 <= number <= maximum:
        return number
    flags.add(ItemModification.REPAIRED)
    return 0


def _json_data(attributes: Attributes) -> dict[str, object]:
    return {key.decode(): value.json_value for key, value in attributes.items()}


def _exception_texts(attributes: Attributes) -> Sequence[bytes]:
    """The type, message and stack trace. A missing text is empty."""
    return [attributes.get(b"exception." + name, NO_VALUE).sent_text for name in (b"type", b"message", b"stacktrace")]
