// A program instrumented with the OpenTelemetry SDK for JavaScript. It makes an order of four spans and two log
// records, then a crowd of small ones, exports them, and prints as one line of JSON what the SDK held: ids, times and
// whatever the SDK complained of.
//
//   ENCODING          json, protobuf (over HTTP) or grpc: which of the official exporters is used
//   EXPORTER_OPTIONS  options of both exporters as JSON; `base` becomes their `url`, and over gRPC `headers` their
//                     `metadata`. Empty: the standard OTEL_* variables
//   CROWD             how many small spans and log records
//   TOO_OLD           if set, one more span that no gateway keeps
import { Metadata } from '@grpc/grpc-js';
import { DiagLogLevel, ROOT_CONTEXT, SpanKind, SpanStatusCode, createTraceState, diag, trace } from '@opentelemetry/api';
import { SeverityNumber } from '@opentelemetry/api-logs';
import { OTLPLogExporter as GrpcLogExporter } from '@opentelemetry/exporter-logs-otlp-grpc';
import { OTLPLogExporter as JsonLogExporter } from '@opentelemetry/exporter-logs-otlp-http';
import { OTLPLogExporter as ProtobufLogExporter } from '@opentelemetry/exporter-logs-otlp-proto';
import { OTLPTraceExporter as GrpcTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as JsonTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchLogRecordProcessor,
  InMemoryLogRecordExporter,
  LoggerProvider,
  SimpleLogRecordProcessor,
} from '@opentelemetry/sdk-logs';
import { BatchSpanProcessor, InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';

const CROWD = Number(process.env.CROWD ?? 0);
const EVERY_KIND = {
  text: 'grün \u{1F680} "quoted" \\ \n',
  empty: '',
  yes: true,
  no: false,
  zero: 0,
  largest: Number.MAX_SAFE_INTEGER,
  negative: -17,
  tenth: 0.1,
  tiny: 5e-324,
  texts: ['a', '', 'ü'],
  integers: [1, -2, 3],
  floats: [0.5, -1.25],
  booleans: [true, false],
};

const said = [];
const listener = (level) => (...words) => said.push({ level, text: words.map(String).join(' ') });
const ignored = () => {};
diag.setLogger(
  { error: listener('error'), warn: listener('warn'), info: listener('info'), verbose: listener('verbose'), debug: ignored },
  DiagLogLevel.ALL,
);

function exporters() {
  const [Traces, Logs] = {
    json: [JsonTraceExporter, JsonLogExporter],
    protobuf: [ProtobufTraceExporter, ProtobufLogExporter],
    grpc: [GrpcTraceExporter, GrpcLogExporter],
  }[process.env.ENCODING];
  if (!process.env.EXPORTER_OPTIONS) return [new Traces(), new Logs()];
  const { base, ...options } = JSON.parse(process.env.EXPORTER_OPTIONS);
  if (process.env.ENCODING === 'grpc') {
    const { headers, ...others } = options;
    const own = () => ({ ...others, url: base, metadata: Metadata.fromHttp2Headers(headers) });
    return [new Traces(own()), new Logs(own())];
  }
  return [new Traces({ ...options, url: `${base}/v1/traces` }), new Logs({ ...options, url: `${base}/v1/logs` })];
}

function order(tracers, loggers) {
  const tracer = tracers.getTracer('checkout', '0.3.1', { schemaUrl: 'https://shop.example/schema/scope' });
  const root = tracer.startSpan('POST /orders', { kind: SpanKind.SERVER, startTime: secondsAgo(2, 123456789) });
  const inside = trace.setSpan(ROOT_CONTEXT, root);
  root.setAttributes(EVERY_KIND);
  root.addEvent('cart read', { items: 3, total: 19.5 }, secondsAgo(2, 123456790));

  const charge = tracer.startSpan('charge', { kind: SpanKind.CLIENT }, inside);
  charge.recordException(new RangeError('card declined'));
  charge.setStatus({ code: SpanStatusCode.ERROR, message: 'declined' });
  const failing = trace.setSpan(ROOT_CONTEXT, charge);
  charge.end();

  const elsewhere = {
    traceId: '5b8efff798038103d269b633813fc60c',
    spanId: '00f067aa0ba902b7',
    traceFlags: 1,
    traceState: createTraceState('a=b'),
  };
  const links = [{ context: elsewhere, attributes: { reason: 'retry', attempt: 2 } }, { context: charge.spanContext() }];
  const publish = tracer.startSpan('publish', { kind: SpanKind.PRODUCER, links }, inside);
  const consumer = tracers.getTracer('worker').startSpan('work', { kind: SpanKind.CONSUMER }, trace.setSpan(inside, publish));
  consumer.setStatus({ code: SpanStatusCode.OK });
  for (const span of [consumer, publish]) span.end();
  root.end(secondsAgo(0, 987654321));

  const logger = loggers.getLogger('stock', '1.0', { schemaUrl: 'https://shop.example/schema/logs' });
  logger.emit({
    timestamp: secondsAgo(2, 5),
    observedTimestamp: secondsAgo(1, 6),
    context: inside,
    severityNumber: SeverityNumber.WARN2,
    severityText: 'WARNING',
    eventName: 'stock.low',
    body: { sku: 'A-17', left: 3, bins: ['x', 4, null], raw: new Uint8Array([0, 1, 255]) },
    attributes: { ...EVERY_KIND, map: { deep: { half: 0.5 }, list: [1, 'b', true] }, raw: new Uint8Array([255]) },
  });
  logger.emit({
    context: failing,
    severityNumber: SeverityNumber.ERROR,
    severityText: 'ERROR',
    body: 'charging failed',
    exception: new RangeError('card declined'),
  });
}

function crowd(tracers, loggers) {
  const tracer = tracers.getTracer('crowd');
  const logger = loggers.getLogger('crowd');
  const root = tracer.startSpan('all');
  const inside = trace.setSpan(ROOT_CONTEXT, root);
  for (let number = 0; number < CROWD; number++) {
    tracer.startSpan('one', { attributes: { number } }, inside).end();
    logger.emit({ context: inside, body: number });
  }
  if (process.env.TOO_OLD) tracer.startSpan('too old', { startTime: [1e9, 0] }, inside).end([1e9, 1]);
  root.end();
}

function secondsAgo(seconds, nanoseconds) {
  return [Math.trunc(Date.now() / 1000) - 1 - seconds, nanoseconds];
}

const nanoseconds = ([seconds, rest]) => String(BigInt(seconds) * 1_000_000_000n + BigInt(rest));

function heldSpan(span) {
  return {
    name: span.name,
    traceId: span.spanContext().traceId,
    spanId: span.spanContext().spanId,
    parentSpanId: span.parentSpanContext?.spanId ?? null,
    start: nanoseconds(span.startTime),
    end: nanoseconds(span.endTime),
    events: span.events.map((event) => nanoseconds(event.time)),
    stacktraces: span.events.map((event) => event.attributes['exception.stacktrace']).filter(Boolean),
  };
}

function heldLog(record) {
  return {
    body: record.body,
    time: nanoseconds(record.hrTime),
    observed: nanoseconds(record.hrTimeObserved),
    stacktrace: record.attributes['exception.stacktrace'],
  };
}

const resource = resourceFromAttributes({
  'service.name': 'shop',
  'service.version': '1.4.2',
  'deployment.environment.name': 'staging',
  'process.pid': 41,
  'process.command_args': ['node', 'shop.mjs'],
});
const [traceExporter, logExporter] = exporters();
const keptSpans = new InMemorySpanExporter();
const keptLogs = new InMemoryLogRecordExporter();
const tracers = new TracerProvider({
  resource,
  spanProcessors: [new BatchSpanProcessor({ exporter: traceExporter }), new SimpleSpanProcessor({ exporter: keptSpans })],
});
const loggers = new LoggerProvider({
  resource,
  processors: [
    new BatchLogRecordProcessor({ exporter: logExporter }),
    new SimpleLogRecordProcessor({ exporter: keptLogs }),
  ],
});
order(tracers, loggers);
crowd(tracers, loggers);
const outcomes = await Promise.allSettled([tracers.forceFlush(), loggers.forceFlush()]);
const held = {
  spans: keptSpans.getFinishedSpans().map(heldSpan),
  logs: keptLogs.getFinishedLogRecords().map(heldLog),
  failures: outcomes.filter((outcome) => outcome.status === 'rejected').map((outcome) => String(outcome.reason)),
  said,
};
await Promise.allSettled([tracers.shutdown(), loggers.shutdown()]);
process.stdout.write(`${JSON.stringify(held)}\n`);
