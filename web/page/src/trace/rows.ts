// A trace as columns: one array for each field. Rows are depth first, so a subtree is a run of rows.
import type { TraceTable } from '../api/api_types';
import { HUES, huesOf } from '../charts/palette';

export interface Trace {
  data: TraceTable;
  length: number;
  /** One past the last row of each row's subtree. */
  end: Int32Array;
  /** Nanoseconds from the trace's start to its end. */
  total: number;
  /** A colour for each service. */
  hues: Map<string, string>;
}

export function toTrace(data: TraceTable): Trace {
  const { depth, startOffsetNs, durationNs } = data.columns;
  const end = new Int32Array(data.rows);
  const open: number[] = [];
  let total = 0;
  for (let at = 0; at < data.rows; at++) {
    const level = depth[at] ?? 0;
    while (open.length > 0 && (depth[open[open.length - 1] ?? 0] ?? 0) >= level) end[open.pop() ?? 0] = at;
    open.push(at);
    total = Math.max(total, (startOffsetNs[at] ?? 0) + (durationNs[at] ?? 0));
  }
  for (const at of open) end[at] = data.rows;
  const services = new Set(data.columns.service.map((index) => data.strings[index] ?? ''));
  return { data, length: data.rows, end, total, hues: huesOf([...services]) };
}

export function nameOf(trace: Trace, at: number): string {
  return trace.data.strings[trace.data.columns.name[at] ?? 0] ?? '';
}

export function serviceOf(trace: Trace, at: number): string {
  return trace.data.strings[trace.data.columns.service[at] ?? -1] ?? '';
}

export function hueOf(trace: Trace, service: string): string {
  return trace.hues.get(service) ?? HUES[0];
}

export function isError(trace: Trace, at: number): boolean {
  return trace.data.strings[trace.data.columns.status[at] ?? -1] === 'ERROR';
}

/** The rows that are shown where the subtrees of `closed` are not. */
export function visibleRows(trace: Trace, closed: ReadonlySet<number>, root = 0, isSubtree = false): number[] {
  const shown: number[] = [];
  const stop = isSubtree ? (trace.end[root] ?? trace.length) : trace.length;
  for (let at = isSubtree ? root : 0; at < stop; ) {
    shown.push(at);
    at = closed.has(at) ? (trace.end[at] ?? at + 1) : at + 1;
  }
  return shown;
}
