// What the page reads of the answers of the API.
import type { ExactNumber } from './numbers';

/** A number as it was sent; `Number(...)` where it is drawn. */
export type Num = number | ExactNumber;

export interface SessionMaterial {
  tokens: { accessToken: string; refreshToken: string; expiresIn: number };
  user: { id: string; email: string; name: string };
}

export interface Whoami {
  principal: { id: string; kind: string; name: string; email: string | null };
  role: string | null;
  scopes: string[];
  organization: { id: string; slug: string; name: string };
  projects: { id: string; slug: string; name: string }[];
  session: boolean;
  mfaPending: false;
  passwordSet: boolean | null;
}

/** A session that owes its second factor. */
export interface OwingWhoami {
  principal: { id: string; kind: string; name: string };
  session: true;
  mfaPending: true;
}

export type Json = null | boolean | number | string | ExactNumber | Json[] | { [key: string]: Json };

export interface Page<T> {
  data: T[];
  nextCursor: string | null;
  hasMore: boolean;
}

export interface Filter {
  key: string;
  op: string;
  value?: string | string[];
}

export interface Coverage {
  range: { from: string; to: string };
  scanned: number;
  scanTruncated: boolean;
}

export interface Figure {
  fn: string;
  field?: string | null;
  filters?: Filter[] | null;
}

export interface Figures extends Coverage {
  figures: Figure[];
  groupBy: string[];
  intervalSeconds: number | null;
  groups: { group: (string | null)[]; count: number; values: (Num | null)[] }[];
  series: { group: (string | null)[]; points: { bucket: string; count: number; values: (Num | null)[] }[] }[];
  groupCount: number;
  groupsTruncated: boolean;
}

export interface Heatmap extends Coverage {
  field: string;
  columnSeconds: Num;
  columns: number;
  rows: { from: Num; to: Num }[];
  cells: [number, number, number, number][];
  under: number;
  over: number;
  total: number;
}

export interface Comparison {
  spike: { from: string; to: string; total: number };
  baseline: { from: string; to: string; total: number };
  attributes: {
    key: string;
    value: string;
    spikeCount: number;
    baselineCount: number;
    spikeShare: Num;
    baselineShare: Num;
    lift: Num | null;
    contribution: Num;
  }[];
  truncated: boolean;
  disclaimer: string;
}

export interface TraceItem {
  traceId: string;
  root: { spanId: string; name: string; serviceName: string | null; kind: string; statusCode: string } | null;
  startTime: string;
  durationMs: Num;
  spanCount: number;
  errorCount: number;
  services: string[];
  serviceCount: number;
  matched: number;
}

export interface TraceRows {
  traceId: string;
  /** The span whose subtree it is; null: the whole trace. */
  root: string | null;
  spanCount: number;
  orphanCount: number;
  maxDepth: number;
  startTime: string | null;
  endTime: string | null;
  durationMs: Num;
  services: string[];
  truncated: boolean;
  rows: number;
  columns: {
    spanId: string[];
    parent: number[];
    depth: number[];
    name: number[];
    service: number[];
    kind: number[];
    status: number[];
    statusMessage: number[];
    startOffsetNs: number[];
    durationNs: number[];
    selfTimeNs: number[];
    events: number[];
    links: number[];
    orphan: number[];
    children: number[];
  };
  strings: string[];
}

export interface AttributeKey {
  key: string;
  spans: number;
  numeric: boolean;
}

export interface SpanRecord {
  spanId: string;
  traceId: string;
  parentSpanId: string | null;
  name: string;
  kind: string;
  serviceName: string | null;
  startTime: string;
  endTime: string;
  durationMs: Num;
  statusCode: string;
  statusMessage: string | null;
  attributes: Record<string, Json>;
  events: { time: string; name: string; attributes: Record<string, Json>; resolvedStacktrace?: string }[];
  links: { traceId: string; spanId: string; attributes: Record<string, Json> }[];
  /** Only in the record of one span. */
  truncations?: Truncation[];
}

/** A text that is longer than what is stored: its JSON Pointer in the record, and its size as sent. */
export interface Truncation {
  path: string;
  bytes: Num;
}

export interface LogRecord {
  id: string;
  time: string;
  traceId: string | null;
  spanId: string | null;
  severityNumber: number;
  severityText: string | null;
  body: Json;
  serviceName: string | null;
  environment: string;
  release: string | null;
  attributes: Record<string, Json>;
  truncations: Truncation[];
}

export interface ErrorGroup {
  fingerprint: string;
  type: string | null;
  message: string | null;
  count: number;
  firstSeen: string | null;
  lastSeen: string | null;
  latestOccurrenceId: string | null;
  firstRelease: string | null;
  lastRelease: string | null;
  traces: number;
  /** The first occurrence that is stored, whatever the time that is shown. */
  firstEver: string | null;
  services: { name?: string | null; value?: string | null; count: number }[];
  issue?: { id: string; shortId: string; status: string } | null;
}

/** `series`: occurrences in 24 equal parts of the window. */
export interface ListedError extends ErrorGroup {
  series: number[];
}

export interface LogCounts extends Coverage {
  groupBy: string | null;
  intervalSeconds: number | null;
  groups: { group: string | null; count: number }[];
  series: { group: string | null; points: { bucket: string; count: number }[] }[];
}

export interface ErrorDetail extends ErrorGroup {
  range: { from: string; to: string };
  intervalMinutes: number;
  series: { bucket: string; count: number }[];
}

export interface Occurrence {
  id: string;
  time: string;
  type: string | null;
  message: string | null;
  traceId: string | null;
  spanId: string | null;
  serviceName: string | null;
  environment: string;
  release: string | null;
  stacktrace?: string | null;
  resolvedStacktrace?: string | null;
  logs?: { of: string; before: { data: LogRecord[] }; after: { data: LogRecord[] } } | null;
}

export interface MapNode {
  serviceName: string | null;
  spans: number;
  count: number;
  errors: number;
  avgMs: Num | null;
}

export interface MapEdge {
  from: string | null;
  to: string | null;
  count: number;
  errors: number;
  avgMs: Num;
}

export interface ServiceMap extends Coverage {
  nodes: MapNode[];
  edges: MapEdge[];
  /** One trace in so many was counted. */
  sample: number;
  truncated: boolean;
}

export interface SavedView {
  id: string;
  name: string;
  path: string;
  shared: boolean;
  mayDelete: boolean;
}
