"""The OpenTelemetry SDK as a client, unchanged, whose every record and every attempt is written down."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from tests.faults.records import CLIENT, REFUSED, RUN, SEQUENCE, SUM, Export, checksum

# By default an export is given up after ten seconds. A process on a busy machine may take as long to start.
PATIENCE_S = 40


class _Session(requests.Session):
    """What became of each attempt of the export under way."""

    export: Export

    def send(self, *arguments: Any, **options: Any) -> requests.Response:
        try:
            answer = super().send(*arguments, **options)
        except requests.ConnectionError as error:
            self.export.answers.append(REFUSED if "refused" in str(error) else "reset")
            raise
        self.export.answers.append(str(answer.status_code))
        return answer


class _Recording(SpanExporter):
    """The SDK's exporter, which waits between its attempts as it does by default, and a note of what it was given."""

    def __init__(self, url: str, key: str, client: int, exports: list[Export]) -> None:
        self._session = _Session()
        headers = {"X-Legacy-Auth": f"Legacy legacy_key={key}"}
        self._exporter = OTLPSpanExporter(
            f"{url}/v1/traces", headers=headers, timeout=PATIENCE_S, session=self._session
        )
        self._client = client
        self._exports = exports
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        sequences = [int((span.attributes or {})[SEQUENCE]) for span in spans]  # type: ignore[arg-type]  # it is an int
        self._session.export = Export(self._client, sequences[0], len(spans))
        self._exports.append(self._session.export)
        if sequences != list(self._session.export.good):
            self._session.export.wrong = f"not in order: {sequences}"
        result = self._exporter.export(spans)
        self.failed += result is not SpanExportResult.SUCCESS
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the SDK types half of its methods


@dataclass
class SdkClient:
    """A tracer that exports five times a second. Not for several threads."""

    url: str
    key: str
    run: str
    client: int
    exports: list[Export] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._recording = _Recording(self.url, self.key, self.client, self.exports)
        self._provider = TracerProvider()
        self._provider.add_span_processor(BatchSpanProcessor(self._recording, schedule_delay_millis=200))
        self._tracer = self._provider.get_tracer("faults")
        self._next = 0

    @property
    def failed(self) -> int:
        """Exports that it has given up."""
        return self._recording.failed

    @property
    def answered(self) -> int:
        """Exports answered 200."""
        return sum(export.acknowledged for export in self.exports)

    def span(self) -> None:
        """One more, which ends at once."""
        sequence, self._next = self._next, self._next + 1
        attributes: dict[str, str | int] = {
            RUN: self.run,
            CLIENT: self.client,
            SEQUENCE: sequence,
            SUM: checksum(self.run, self.client, sequence),
        }
        self._tracer.start_span("sent", attributes=attributes).end()

    def finish(self) -> list[Export]:
        """Export what is left."""
        self._provider.shutdown()
        return self.exports
