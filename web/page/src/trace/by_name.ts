// The spans of a trace summed up by service and name.
import { isError, nameOf, serviceOf, type Trace } from './rows';

export interface Totals {
  service: string;
  name: string;
  spans: number;
  errors: number;
  totalNs: number;
  selfNs: number;
}

/** The most self time first. */
export function totalsByName(trace: Trace): Totals[] {
  const by = new Map<string, Totals>();
  for (let at = 0; at < trace.length; at++) {
    const service = serviceOf(trace, at);
    const name = nameOf(trace, at);
    const key = JSON.stringify([service, name]);
    const known = by.get(key) ?? { service, name, spans: 0, errors: 0, totalNs: 0, selfNs: 0 };
    known.spans += 1;
    known.errors += isError(trace, at) ? 1 : 0;
    known.totalNs += trace.data.columns.durationNs[at] ?? 0;
    known.selfNs += trace.data.columns.selfTimeNs[at] ?? 0;
    by.set(key, known);
  }
  return [...by.values()].sort((a, b) => b.selfNs - a.selfNs);
}
